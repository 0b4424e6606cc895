"""Files of numbers: images in arrays, vectors, tables of text. Shape, labels, scale, statistics."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.data_set import are_vectors
from preparation.described.columns import MOST_CLASSES, SEPARATORS, Columns, columns_of
from preparation.described.found import SPLITS, Found, Wishes, count_rows, in_words
from preparation.described.images import choose_family, statistics
from preparation.number_files import DARK, reading_file, stored
from preparation.prepared import DataError, Raw
from preparation.readers import read

TEXT = (".csv", ".tsv", ".txt")
ENDINGS = (".npz", ".npy", *TEXT)
SCALES = (0.1, 10)  # root mean square of vectors that stay as they are
UNLIKE = 10  # columns are of different units where one deviates so many times as much as the median one
TABLE = 1000  # columns: what has more (embeddings, counts of words, pixels) has one unit
BYTES = 0.00392157  # 1 / 255


def number_files(folder: Path) -> dict[str, Path]:
    """split -> the file of numbers in a folder whose name is that of the split: train.csv, test.csv."""
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        split = SPLITS.get(path.name.partition(".")[0].lower())
        if split and path.is_file() and ending(path) in ENDINGS:
            if split in found:
                raise DataError(
                    f"{folder}: {found[split].name} and {path.name} both name the split {split}; rename one"
                )
            found[split] = path
    return found


def ending(path: Path) -> str:
    """What a file's name ends with, without .gz of a packed text."""
    plain = path.name.removesuffix(".gz")
    return Path(plain).suffix.lower()


def look_at_arrays(files: Mapping[str, Path], wishes: Wishes, title: str) -> Found:
    """Describe files of numbers, {split: file}; a single one is split `train`. All of them are read."""
    first = next(iter(files.values()))
    found = Found(first.parent)
    found.lines.append(("found", ", ".join(map(str, files.values()))))
    found.decide("title", title, "name in tables")
    found.decide("family", None)
    found.decide("source", "vectors", "a file of numbers")
    labelled = _decide_form(found, first, wishes)
    _decide_files(found, files, labelled, wishes)
    found.decide("classes", 2)
    found.decide("shape", None)
    values = _first_values(found, first)
    _decide_shape(found, first, values, wishes)
    raw = _read(found)
    count_rows(found, raw, wishes)
    rows = next(iter(raw.splits.values()))
    if are_vectors(found.spec["shape"]):
        found.decide("family", "vectors", "rows of numbers: settings of config/families/vectors.yaml")
        _decide_units(found, raw.images[:rows].reshape(rows, -1), wishes)
    else:
        choose_family(found)
        statistics(found, raw.images[:rows], rows)
        found.lines.append(("images", f"{in_words(found.spec['shape'])}, {raw.images.dtype}"))
    return found


def _decide_form(found: Found, path: Path, wishes: Wishes) -> bool:
    """How the first file is read, and whether its rows have labels."""
    with reading_file(path):
        if ending(path) == ".npz":
            with np.load(path, allow_pickle=False) as stored:
                labelled, reason = "y" in stored.files, "array y" if "y" in stored.files else "no array y"
                if wishes.label is not None or wishes.drop:
                    raise DataError(
                        f"{path}: --label and --drop name columns, an .npz has arrays x and y; leave them out"
                    )
        elif ending(path) == ".npy":
            labelled, reason = _label_of_npy(found, path, wishes)
        else:
            columns = columns_of(path, wishes)
            _decide_columns(found, columns)
            labelled, reason = columns.label is not None, columns.reason
    if not wishes.labels:
        labelled, reason = False, "--no-labels"
    found.lines.append(("labels from" if labelled else "no labels", reason))
    return labelled


def _decide_columns(found: Found, columns: Columns) -> None:
    if columns.delimiter != ",":
        found.decide("delimiter", columns.delimiter, f"values between {SEPARATORS[columns.delimiter]}")
    if columns.header is not None:
        found.decide("header", True, "the first line names columns")
    if columns.label is not None:
        found.decide("label", columns.label, columns.reason)
    if columns.drop:
        found.decide("drop", columns.drop, columns.dropped or "--drop")
        found.lines.append(("left out", f"{', '.join(map(str, columns.drop))} ({columns.dropped or '--drop'})"))


def _label_of_npy(found: Found, path: Path, wishes: Wishes) -> tuple[bool, str]:
    """Whether an array [N, d] has a column of labels: the one that is named, or a last one of few whole numbers."""
    table = np.load(path, mmap_mode="r", allow_pickle=False)
    if wishes.drop:
        found.decide("drop", list(wishes.drop), "--drop")
    if wishes.label is not None:
        found.decide("label", wishes.label, "--label")
        return True, f"column {wishes.label} (--label)"
    if not wishes.labels or table.ndim != 2 or table.shape[1] < 2 or table.dtype.kind not in "iubf":
        return False, "no column of whole numbers"
    last = np.asarray(table[:, -1])
    if not (np.isfinite(last).all() and (last == np.floor(last)).all()):
        return False, "no last column of whole numbers"
    few = 2 <= len(np.unique(last)) <= min(MOST_CLASSES, max(2, len(last) // 5))
    others = np.asarray(table[:, :-1])
    if few and not (others == np.floor(others)).all():
        return True, "the last column, of whole numbers"
    raise DataError(f"{path}: the last column may be the label or a value: say --label -1, or --no-labels --clusters K")


def _decide_files(found: Found, files: Mapping[str, Path], labelled: bool, wishes: Wishes) -> None:
    """Files of the splits; one labelled split is cut into train and test."""
    if not labelled:
        if len(files) > 1:
            raise DataError(
                f"{found.root}: {len(files)} files without labels ({', '.join(path.name for path in files.values())}); "
                "put the rows into one file"
            )
        found.decide("labels", False, "no row has a label")
        found.decide("files", {"unlabeled": next(iter(files.values())).name}, "below the suite's data_root")
        return
    places = {split: path.name for split, path in files.items()}
    if set(places) == {"train", "val"}:
        places = {"train": places["train"], "test": places["val"]}
    labels = [split for split in places if split != "unlabeled"]
    if len(labels) > 1 and not {"train", "test"} <= set(labels):
        raise DataError(f"{found.root}: splits {', '.join(labels)}; files named train and test expected: rename them")
    if len(labels) == 1:
        places = {"train": places[labels[0]], **{key: value for key, value in places.items() if key == "unlabeled"}}
        found.decide("test_share", wishes.test_share, "cut by a hash of each row's number: rows added move no other")
    found.decide("files", places, "below the suite's data_root")


def _first_values(found: Found, path: Path) -> np.ndarray:
    """The values of the first file as they are stored, without the label."""
    split = next(iter(found.spec["files"]))
    with reading_file(path):
        return stored(found.spec, path, split).values


def _decide_shape(found: Found, path: Path, x: np.ndarray, wishes: Wishes) -> None:
    """Vectors [N, d], or images [N, H, W] and [N, H, W, C], or with --size [N, H*W]; and what brings pixels to 0..1."""
    if x.dtype.kind not in "iubf":
        raise DataError(f"{path}: values of type {x.dtype} found, numbers expected")
    if not len(x):
        raise DataError(f"{path}: holds no rows")
    if x.ndim == 2 and not wishes.size:
        hint = _may_be_pixels(x)
        found.decide("shape", [1, x.shape[1], 1], f"rows of {x.shape[1]} numbers{hint}")
        found.lines.append(("vectors", f"{x.shape[1]} numbers a row{hint}"))
        return
    if x.ndim == 2:
        height, width = wishes.size or (0, 0)
        if height * width != x.shape[1]:
            raise DataError(
                f"{path}: --size {height} {width} is {height * width} pixels, rows hold {x.shape[1]} numbers"
            )
        shape = [height, width, 1]
    elif x.ndim in (3, 4):
        shape = [*x.shape[1:3], x.shape[3] if x.ndim == 4 else 1]
    else:
        raise DataError(f"{path}: x of shape {list(x.shape)} found, [N, d], [N, H, W] or [N, H, W, C] expected")
    if shape[2] not in (1, 3):
        first = x.ndim == 4 and x.shape[1] in (1, 3)
        cure = "store x.transpose(0, 2, 3, 1)" if first else "store grey or RGB"
        raise DataError(
            f"{path}: x of shape {list(x.shape)} found, so images of {shape[2]} channels, 1 or 3 expected; {cure}"
        )
    if wishes.size and x.ndim > 2 and tuple(shape[:2]) != wishes.size:
        raise DataError(
            f"{path}: images of {shape[0]} x {shape[1]}; --size is for image files and rows of pixels: leave it out"
        )
    found.decide("shape", shape, "--size" if wishes.size else "as stored")
    _decide_scale(found, path, x)


def _may_be_pixels(x: np.ndarray) -> str:
    side = round(x.shape[1] ** 0.5)
    square = side * side == x.shape[1] and side >= 8 and x.dtype.kind in "iu"
    return f" (if they are pixels: --size {side})" if square and x.min() >= 0 and DARK < x.max() <= 255 else ""


def _decide_scale(found: Found, path: Path, x: np.ndarray) -> None:
    """What brings pixels into 0..1, where they are no bytes of 0..255."""
    if x.dtype.kind == "f" and not np.isfinite(x).all():
        return  # the reader's rows are looked at for it
    low, high = float(x.min()), float(x.max())
    if low < 0 or high > 255:
        raise DataError(f"{path}: pixels of {low:.6g}..{high:.6g} found, 0..1 or 0..255 expected; scale them")
    if x.dtype == np.uint8 and high >= DARK:
        return
    if x.dtype.kind != "f" and high < DARK:
        found.decide("scale", float(f"{1 / max(1.0, high):.6g}"), f"values of 0..{high:.0f} to 0..1")
    elif high > 1 + 1e-4:
        found.decide("scale", BYTES, "values of 0..255 to 0..1")


def _decide_units(found: Found, x: np.ndarray, wishes: Wishes) -> None:
    """Whether columns are standardised, or all values scaled by one number, so that networks can learn from them."""
    x = x.astype(np.float64)
    deviation = x.std(0)
    dense = (x == 0).mean() < 0.5  # the zeros of counts and weights of words mean something
    unlike = dense and x.shape[1] <= TABLE and deviation.max() > UNLIKE * max(float(np.median(deviation)), 1e-12)
    wanted = unlike if wishes.standardise is None else wishes.standardise
    if wanted and x.shape[1] > TABLE:
        raise DataError(f"--standardise: {x.shape[1]} columns found, it is for tables of up to {TABLE}; leave it out")
    size = float(np.sqrt((x**2).mean()))
    if not deviation.any():
        raise DataError("all rows are equal; look at the file")
    if wanted:
        values = {"mean": [_four(value) for value in x.mean(0)], "std": [_four(value) or 1.0 for value in deviation]}
        why = "--standardise" if wishes.standardise else "columns of different units (--no-standardise keeps them)"
        found.decide("standardise", values, f"{why}: mean and deviation of each, measured on the first split")
        found.lines.append(
            ("units", why.replace("(", "standardised (", 1) if not wishes.standardise else "standardised")
        )
        x = (x - np.array(values["mean"])) / np.array(values["std"])
    elif not SCALES[0] <= size <= SCALES[1]:
        scale = _four(1 / size)
        found.decide("scale", scale, f"root mean square of all values is {size:.3g}; to 1, as DEC has its data")
        found.lines.append(("units", f"times {scale}: root mean square 1"))
        x = x * scale
    found.decide(
        "normalisation", {"mean": [round(float(x.mean()), 4)], "std": [round(float(x.std()), 4) or 1.0]},
        "of all values of the first split; methods on vectors do not use it",
    )  # fmt: skip


def _four(value: Any) -> float:
    """Four digits of a number."""
    return float(f"{float(value):.4g}")


def _read(found: Found) -> Raw:
    """Everything, as stage prepare will read it. DataError for what is no number."""
    splits = dict.fromkeys([*found.spec["files"], *(["test"] if "test_share" in found.spec else [])], 1)
    raw = read({**found.spec, "splits": splits}, found.root, False)
    if raw.images.dtype.kind == "f" and (bad := np.flatnonzero(~np.isfinite(raw.images).all((1, 2, 3)))).size:
        row = raw.notes.get("source_rows", range(len(raw.images)))[bad[0]]
        raise DataError(
            f"{raw.source}: NaN or infinity in {len(bad)} rows, first in row {row} (counted from 0); fill in or leave "
            "out what is missing"
        )
    return raw
