"""Readers of boxes: layouts of VOC and COCO, made here, become a card with objects; bad files are named."""

import json

import numpy as np
import pytest
from PIL import Image
from pycocotools import mask

from pipeline import catalogue
from pipeline.data_files import DataFiles
from pipeline.naming import ConfigError
from pipeline.record import Damaged, Record
from preparation.objects import read_scenes
from preparation.prepared import DataError, open_prepared, write_prepared
from preparation.readers import read
from tests.training.detection.shapes import KINDS, SIDE, write_coco, write_voc, xml

BOXES = [("square", 4, 6, 24, 26), ("circle", 30, 30, 50, 50)]


def prepared(spec, root, folder):
    raw = read(spec, root, False)
    record = Record("prepare", ("preparation.prepare",), {"name": "shapes", **spec}, {})
    write_prepared(folder, "shapes", spec, raw.images, raw.labels, raw.splits, raw.source, record, raw.notes, raw.root,
                   raw.class_names, None, raw.objects)  # fmt: skip
    return open_prepared(folder)


@pytest.fixture
def voc(tmp_path):
    spec = write_voc(tmp_path, 6, 4)
    return spec, tmp_path, tmp_path / "Shapes" / "VOC2007"


@pytest.fixture
def coco(tmp_path):
    spec = write_coco(tmp_path, 6, 4)
    return spec, tmp_path, tmp_path / "shapes_coco" / "annotations" / "instances_train.json"


def test_voc_counts_pixels_from_one_and_keeps_difficult_objects(voc, tmp_path):
    spec, root, base = voc
    (base / "Annotations/trainval0000.xml").write_text(xml(BOXES, difficult=(1,)))
    (base / "Annotations/test0001.xml").write_text(xml([]))
    data = prepared(spec, root, tmp_path / "p")
    scenes = read_scenes(data)
    first = scenes[0]
    assert len(scenes) == 10
    assert first.boxes.tolist() == [[4, 6, 24, 26], [30, 30, 50, 50]]
    assert [KINDS[label] for label in first.labels] == ["square", "circle"]
    assert first.ignored.tolist() == [False, True]
    assert first.size == (SIDE, SIDE)
    assert first.areas.tolist() == [400, 400]
    assert data.labels[0].tolist() == [0, 1, -1]
    assert len(scenes[7].labels) == 0
    assert data.labels[7].tolist() == [-1, -1, -1]
    assert not scenes.has_masks
    assert scenes[0].masks == []
    assert data.card["class_names"] == list(KINDS)
    assert (data.root / data.images[7]).name == "test0001.jpg"


def test_two_years_of_voc_follow_each_other(voc, tmp_path):
    spec, root, _ = voc
    (root / "more").mkdir()
    write_voc(root / "more", 3, 1, seed=1)
    (root / "more/Shapes/VOC2007").rename(root / "Shapes/VOC2012")
    both = spec | {"splits": {"train": 9, "test": 4}}
    both["image_sets"] = {"train": ["VOC2007/trainval", "VOC2012/trainval"], "test": ["VOC2007/test"]}
    raw = read(both, root, False)
    assert [path.split("/")[0] for path in raw.images] == ["VOC2007"] * 6 + ["VOC2012"] * 3 + ["VOC2007"] * 4
    assert len(raw.objects["sizes"]) == 13
    assert DataFiles(root).hash(both) != DataFiles(root).hash(spec)


def test_coco_has_boxes_masks_and_classes_by_id(coco, tmp_path):
    spec, root, file = coco
    stored = json.loads(file.read_text())
    stored["annotations"][0]["iscrowd"] = 1
    file.write_text(json.dumps(stored))
    data = prepared(spec, root, tmp_path / "p")
    scenes, kinds = read_scenes(data), {one["id"]: one["name"] for one in stored["categories"]}
    assert data.card["class_names"] == list(KINDS)
    assert scenes.has_masks
    for row, image in enumerate(stored["images"]):
        own = [one for one in stored["annotations"] if one["image_id"] == image["id"]]
        scene = scenes[row]
        assert [KINDS[label] for label in scene.labels] == [kinds[one["category_id"]] for one in own]
        assert scene.boxes.tolist() == [[x, y, x + w, y + h] for x, y, w, h in (one["bbox"] for one in own)]
        assert scene.ignored.tolist() == [bool(one["iscrowd"]) for one in own]
        for box, counts in zip(scene.boxes.astype(int), scene.masks, strict=True):
            drawn = mask.decode({"size": scene.size, "counts": counts})
            inside = drawn[box[1] : box[3], box[0] : box[2]]
            assert drawn.shape == (SIDE, SIDE)
            assert inside.sum() == drawn.sum() > 0.3 * inside.size
    assert data.card["notes"]["masks"] == "of every object"


def test_coco_without_some_masks_has_none(coco, tmp_path):
    spec, root, file = coco
    stored = json.loads(file.read_text())
    del stored["annotations"][2]["segmentation"]
    file.write_text(json.dumps(stored))
    data = prepared(spec, root, tmp_path / "p")
    assert not read_scenes(data).has_masks
    assert data.card["notes"]["masks"] == "none: 1 objects have no segmentation"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("<name>square", "<name>sqare", r"object 1: name 'sqare' found; one of circle, square, triangle"),
        ("<difficult>0", "<difficult>maybe", r"object 1: difficult 'maybe' found, 0 or 1"),
        ("<xmin>5", "<xmin>five", r"object 1: bndbox/xmin 'five' found, a number"),
        ("<ymin>7</ymin>", "", r"object 1: bndbox/ymin None found"),
        ("<xmax>24", "<xmax>2", r"\[4.0, 6.0, 2.0, 26.0\].* ends before it begins"),
        ("<xmax>24", "<xmax>400", r"reaches out of an image of 64 x 64"),
        ("<xmax>24", "<xmax>nan", r"a coordinate that is no number"),
        ("</annotation>", "", r"cannot be read as XML"),
    ],
)
def test_bad_xml_is_named(voc, old, new, message):
    spec, root, base = voc
    (base / "Annotations/trainval0002.xml").write_text(xml(BOXES).replace(old, new, 1))
    with pytest.raises(DataError, match=f"trainval0002.xml.*{message}"):
        read(spec, root, False)


def test_absent_files_of_voc_are_named(voc):
    spec, root, base = voc
    (base / "Annotations/test0002.xml").rename(base / "kept.xml")
    with pytest.raises(DataError, match=r"test0002.xml: not found, but its image is listed"):
        read(spec, root, False)
    (base / "kept.xml").rename(base / "Annotations/test0002.xml")
    (base / "JPEGImages/test0003.jpg").unlink()
    with pytest.raises(DataError, match=r"test0003.jpg: not found, but listed in VOC2007/test"):
        read(spec, root, False)
    (base / "ImageSets/Main/test.txt").write_text("test0001\ntest0001\n")
    with pytest.raises(DataError, match=r"test.txt: one image a line, each once"):
        read(spec, root, False)
    (base / "ImageSets/Main/test.txt").unlink()
    with pytest.raises(DataError, match=r"Main/test.txt: not found; unpack"):
        read(spec, root, False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop("images"), "no list 'images'"),
        (lambda s: s["annotations"][1].pop("bbox"), "entry 1 of annotations has no 'bbox'"),
        (lambda s: s["annotations"][1].update(id=7), "id 7 of annotations stands twice"),
        (lambda s: s["annotations"][1].update(image_id=3), "annotation 8: image_id 3 is of no entry"),
        (lambda s: s["annotations"][1].update(category_id=1), "annotation 8: category_id 1 is of no entry"),
        (lambda s: s["annotations"][1].update(bbox=[1, 2, 3]), r"annotation 8: bbox \[1, 2, 3\] found"),
        (lambda s: s["annotations"][1].update(bbox=[1, 2, 90, 3]), "annotation 8: the box .* reaches out"),
        (lambda s: s["annotations"][1].update(bbox=[9, 9, -2, 3]), "annotation 8: the box .* ends before"),
        (lambda s: s["annotations"][1].update(segmentation=[[1, 2, 3, 4, 5, 6, 7]]), "8: segmentation: a poly"),
        (lambda s: s["annotations"][1].update(segmentation={"size": [9, 9], "counts": [81]}), "8: segmentation"),
        (lambda s: s["images"][0].update(height=65), r"000000.jpg: 64 x 64 pixels, .* says 64 x 65"),
        (lambda s: s["images"][0].update(file_name="gone.jpg"), "gone.jpg: not found, but named in"),
        (lambda s: s["categories"][0].update(name="star"), "other categories than in the file of another split"),
    ],
)  # fmt: skip
def test_bad_json_is_named(coco, change, message):
    spec, root, file = coco
    stored = json.loads(file.read_text())
    change(stored)
    file.write_text(json.dumps(stored))
    with pytest.raises(DataError, match=message):
        read(spec, root, False)


def test_what_is_no_json_is_named(coco):
    spec, root, file = coco
    file.write_text("{")
    with pytest.raises(DataError, match=r"instances_train.json: cannot be read as JSON"):
        read(spec, root, False)
    file.unlink()
    with pytest.raises(DataError, match=r"instances_train.json: not found"):
        read(spec, root, False)


def test_a_box_without_width_and_a_polygon_of_two_corners_are_coco_s_own(coco, tmp_path):
    spec, root, file = coco
    stored = json.loads(file.read_text())
    stored["annotations"][0] |= {"bbox": [3, 4, 0, 5], "segmentation": [[1, 2, 3, 4]]}
    file.write_text(json.dumps(stored))
    scene = read_scenes(prepared(spec, root, tmp_path / "p"))[0]
    assert scene.boxes[0].tolist() == [3, 4, 3, 9]
    assert mask.area({"size": scene.size, "counts": scene.masks[0]}) == 0


@pytest.mark.parametrize("kind", ["voc", "coco"])
def test_boxes_are_part_of_what_a_data_set_is(kind, request, tmp_path):
    spec, root, path = request.getfixturevalue(kind)
    before, files = prepared(spec, root, tmp_path / "a"), DataFiles(root).hash(spec)
    assert read_scenes(prepared(spec, root, tmp_path / "b")).arrays["boxes"].tolist()
    again = open_prepared(tmp_path / "b")
    assert again.card["record"]["content"] == before.card["record"]["content"]
    file = path / "Annotations/trainval0001.xml" if kind == "voc" else path
    text = file.read_text()
    file.write_text(
        text.replace("<xmin>", "<xmin>1", 1) if kind == "voc" else text.replace('"iscrowd": 0', '"iscrowd": 1', 1)
    )
    if kind == "voc":
        file.write_text(xml(BOXES))
    assert DataFiles(root).hash(spec) != files
    changed = prepared(spec, root, tmp_path / "b")
    assert changed.card["record"]["content"] != before.card["record"]["content"]
    with open(tmp_path / "b" / "objects.npz", "ab") as stored:
        stored.write(b"x")
    with pytest.raises(Damaged, match=r"objects.npz: sha256"):
        read_scenes(open_prepared(tmp_path / "b"))


def test_data_without_boxes_are_refused(tmp_path):
    spec = {"classes": 2, "shape": [2, 2, 1], "splits": {"train": 2}, "normalisation": {"mean": [0], "std": [1]}}
    images = np.zeros((2, 2, 2, 1), np.uint8)
    record = Record("prepare", ("preparation.prepare",), {}, {})
    write_prepared(tmp_path / "p", "plain", spec, images, np.array([0, 1]), {"train": 2}, "made", record)
    with pytest.raises(DataError, match="'plain' has no boxes"):
        read_scenes(open_prepared(tmp_path / "p"))


def test_a_photograph_on_its_side_has_the_size_that_viewers_show(voc):
    spec, root, base = voc
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (80, 40)).save(base / "JPEGImages/trainval0000.jpg", exif=exif)
    assert read(spec, root, False).objects["sizes"][0].tolist() == [80, 40]


def test_official_entries():
    sizes = {"voc0712": (16551, 4952), "voc07_boxes": (5011, 4952), "coco2017": (118287, 5000)}
    for name, (train, test) in sizes.items():
        assert catalogue.entry("data set", name)["splits"] == {"train": train, "test": test}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"multilabel": False}, "set `multilabel: true`"),
        ({"image_sets": {"train": ["../x"], "test": ["VOC2007/test"]}}, "leaves the data root"),
        ({"image_sets": {"train": ["VOC2007/trainval"]}}, "no file for split 'test'"),
        ({"class_names": ["one"]}, "1 names for classes: 3"),
        ({"annotations": {"train": "x", "test": "y"}}, "annotations is for source coco"),
    ],
)
def test_entries_that_make_no_sense_are_refused(tmp_path, change, message):
    spec = write_voc(tmp_path, 1, 1) | change
    with pytest.raises(ConfigError, match=message):
        catalogue.entry_or_json("data set", json.dumps({"name": "shapes", **spec}))
