"""Mutants of detection: what readers of boxes find, how detectors are built, trained, scored and wired."""

from tests.mutants.mutant import mutants

OBJECTS = "tests/preparation/test_objects.py"
VOC_AP = "tests/training/detection/test_voc_ap.py"
COCO_AP = "tests/training/detection/test_coco_ap.py"

MUTANTS = mutants(
    "preparation/voc_boxes.py",
    OBJECTS,
    voc_boxes_from_pixel_one=("[values[0] - 1, values[1] - 1,", "[values[0], values[1],"),
    difficult_objects_are_plain=('difficult.append(flag == "1")', "difficult.append(False)"),
)
MUTANTS += mutants(
    "preparation/coco.py",
    OBJECTS,
    crowds_are_plain=('bool(one.get("iscrowd", 0))', "False"),
    categories_in_the_file_s_order=(
        'in sorted(stored["categories"], key=lambda one: one["id"])', 'in stored["categories"]'
    ),
    images_of_another_size_pass=("(found := image_size(picture)) != size", "(found := image_size(picture)) is None"),
)  # fmt: skip
MUTANTS += mutants(
    "preparation/objects.py",
    OBJECTS,
    boxes_may_leave_the_image=("+ OUTSIDE).any(1)", "+ 9999).any(1)"),
    objects_that_changed_pass=(
        "read_arrays(Path(data.folder, OBJECTS), record)", "read_arrays(Path(data.folder, OBJECTS), None)"
    ),
)  # fmt: skip
MUTANTS += mutants(
    "preparation/prepared.py",
    OBJECTS,
    boxes_are_no_content=("        files.append(OBJECTS)\n", ""),
)
MUTANTS += mutants(
    "pipeline/data_files.py",
    OBJECTS,
    boxes_of_voc_are_no_source=('f"{name}.txt", year / "Annotations", ', 'f"{name}.txt", '),
)
MUTANTS += mutants(
    "training/detection/voc_ap.py",
    VOC_AP,
    difficult_objects_punish=("hits[place] = -1", "hits[place] = 0"),
    recalls_miss_their_points=("point / 10 - 1e-12", "point * 0.1"),
)
MUTANTS += mutants(
    "training/detection/coco_ap.py",
    COCO_AP,
    crowds_count=('"iscrowd": int(truth.ignored[one])', '"iscrowd": 0'),
)
