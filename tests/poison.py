"""Prepared folders whose rows can be poisoned: what a stage must not read is replaced, and nothing may change.

Digits-like data sets of a few rows, one for every shape of split that a protocol of config/protocols.yaml asks for.
"""

import hashlib
import shutil
from pathlib import Path

import numpy as np

from pipeline import catalogue
from pipeline.record import Record, read_json, write_json
from preparation.prepared import Prepared, open_prepared, write_prepared

# The training rows do not come first: row n of a split is not row n of the data set.
PLAIN = {"test": 30, "train": 40}
UNLABELLED = {"test": 30, "train": 40, "unlabeled": 20}
SPLITS = {"holdout": {"holdout": 30, "fit": 40}} | dict.fromkeys(("unlabeled", "all", "clusters"), UNLABELLED)
PROTOCOLS = ["split", "full", "all", "train", "training", "unlabeled", "holdout"]
WITHOUT_LABELS = ["clusters"]  # protocols that score rows without labels
CLASSES = 3


def prepare(folder: Path, splits: dict[str, int], change=None, sources: str | None = None) -> Path:
    """Images of three classes that differ in brightness of a part of theirs; rows of `unlabeled` have no label.

    `change(images, labels)` may edit both before they are written.
    """
    generator, count = np.random.default_rng(0), sum(splits.values())
    labels = np.arange(count) % CLASSES
    images = generator.integers(0, 120, (count, 8, 8, 1), dtype=np.uint8)
    images[np.arange(count), labels] += 100
    if "unlabeled" in splits:
        labels[count - splits["unlabeled"] :] = -1
    spec = catalogue.entry("data set", "digits_200") | {"classes": CLASSES, "splits": splits}
    record = Record("prepare", ("preparation.prepare",), {"name": "digits_200"}, {})
    if change:
        change(images, labels)
    write_prepared(folder, "digits_200", spec, images, labels, splits, "made", record, sources=sources)
    return folder


def of_protocol(folder: Path, protocol: str) -> Path:
    """A prepared folder with the splits that the protocol names."""
    return prepare(folder / "data", SPLITS.get(protocol, PLAIN))


def others(data: Prepared, *splits: list[str]) -> np.ndarray:
    """The rows that are in none of the splits."""
    used = [data.rows(names) for names in splits if names]
    return np.setdiff1d(np.arange(len(data.images)), np.concatenate(used))


def poison(folder: Path, out: Path, images: np.ndarray | None = None, labels: np.ndarray | None = None) -> Path:
    """A copy of the folder with noise in the rows `images`, and labels of the rows `labels` that are all wrong.

    The card keeps its record: to a later stage this is the same data set.
    """
    shutil.copytree(folder, out)
    data = open_prepared(folder)
    card = read_json(out / "card.json")
    generator = np.random.default_rng(1)
    changed = {"images.npy": np.array(data.images), "labels.npy": data.labels.copy()}
    if images is not None:
        changed["images.npy"][images] = generator.integers(0, 256, (len(images), 8, 8, 1), dtype=np.uint8)
    if labels is not None:
        changed["labels.npy"][labels] = (data.labels[labels] + generator.integers(1, CLASSES, len(labels))) % CLASSES
    for name, values in changed.items():
        np.save(out / name, values)
        card["sha256"][name] = hashlib.sha256((out / name).read_bytes()).hexdigest()
    write_json(out / "card.json", card)
    return out
