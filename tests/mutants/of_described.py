"""Mutants of own data: what is found, cut, decoded, measured and written."""

from tests.mutants.mutant import mutants

DESCRIBE = "tests/preparation/test_describe.py tests/preparation/test_describe_refusals.py"
QUICK = "tests/preparation/test_quick_suite.py"
CUT = "tests/preparation/test_cut.py"

MUTANTS = mutants(
    "pipeline/processes.py",
    QUICK,
    killed_descriptions_leave_folders=("signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))",
                                       "signal.getsignal(signal.SIGTERM)"),
)  # fmt: skip
MUTANTS += mutants(
    "preparation/described/speed.py",
    QUICK,
    timed_trainings_outlive_it=("environment |= {**of_this_process(), ", "environment |= {"),
    speed_of_the_first_epoch=("list(csv.DictReader(file))[-1]", "list(csv.DictReader(file))[0]"),
)
MUTANTS += mutants(
    "preparation/described/quick.py",
    QUICK,
    bases_take_no_time=("each[name] + (each[one.base] if one.base else 0)", "each[name]"),
    workers_do_not_share=("sum(each.values()) / workers", "sum(each.values())"),
    all_minutes_are_training=("budget = minutes * 60 * FOR_TRAINING", "budget = minutes * 60"),
)
MUTANTS += mutants(
    "preparation/described/images.py",
    QUICK,
    statistics_of_all_that_is_sampled=(
        "min(SAMPLED, max(1, SAMPLED_BYTES // int(np.prod(shape))))", "SAMPLED"
    ),
)  # fmt: skip
MUTANTS += mutants(
    "preparation/described/layout.py",
    DESCRIBE,
    one_split_is_not_cut=("return Layout(folders, len(labelled) == 1, words)", "return Layout(folders, False, words)"),
    val_is_no_test=('"test": labelled["val"]}', '"val": labelled["val"]}'),
)
MUTANTS += mutants(
    "preparation/described/arrays.py",
    DESCRIBE,
    scaled_the_wrong_way=("scale = _four(1 / size)", "scale = _four(size)"),
    units_are_never_unlike=(
        "wanted = unlike if wishes.standardise is None",
        "wanted = False if wishes.standardise is None",
    ),
)
MUTANTS += mutants(
    "preparation/described/columns.py",
    DESCRIBE,
    row_numbers_are_values=("for at in [*drop, *counters]]", "for at in drop]"),
)
MUTANTS += mutants(
    "preparation/cut.py",
    CUT,
    train_and_test_change_places=('"big") < share * 2**64', '"big") >= share * 2**64'),
    rows_without_label_stay=(
        'parts["unlabeled"] = np.flatnonzero(without)',
        'parts["unlabeled"] = np.flatnonzero(~without)',
    ),
    labels_in_the_old_order=("labels=raw.labels[order]", "labels=raw.labels"),
)
MUTANTS += mutants(
    "preparation/decoding.py",
    CUT,
    aspect_is_lost=(
        "ImageOps.fit(image, size, Image.Resampling.BILINEAR)",
        "image.resize(size, Image.Resampling.BILINEAR)",
    ),
)
