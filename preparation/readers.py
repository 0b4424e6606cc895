"""Readers: official files of a data set -> images, labels, split sizes. One function per source."""

import zlib
from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np

from pipeline.data_set import placed_splits
from preparation.coco import read_coco
from preparation.cut import cut
from preparation.decoding import decoded
from preparation.folders import read_folder
from preparation.number_files import read_csv, read_jf, read_reuters, read_vectors
from preparation.prepared import RIGHTS, DataError, Raw
from preparation.voc import read_voc
from preparation.voc_boxes import read_voc_boxes

DIGITS_SPLIT_SEED = 0
# The order of rows must not depend on the order of keys: settings travel as JSON with sorted keys.
SPLIT_ORDER = ("train", "fit", "val", "test", "holdout", "unlabeled")


def read(spec: Mapping[str, Any], root: Path | None, download: bool) -> Raw:
    """Read the data set that `spec` (config/datasets) describes.

    `root`: folder of the official files, needed by every source but "digits". With `subset` in the spec only so many
    rows are kept, drawn stratified with a fixed seed, each split in proportion; with `official` the splits are the
    source's own, and `splits` cuts their rows anew, in order. With `test_share` a hash cuts the split test from the
    rows of split train, with `decode` image files become pixels.
    """
    splits, official = (_in_order(spec[key]) if key in spec else None for key in ("splits", "official"))
    if root is None and spec["source"] != "digits":
        raise DataError(
            f"data set {spec['title']!r} (source {spec['source']}) needs a folder for its files: "
            "set BENCH_DATA_ROOT, or data_root in the configuration"
        )
    try:
        raw = READERS[spec["source"]](spec | {"splits": _in_order(placed_splits(spec))}, root, download)
    except OSError as problem:  # of the folders on the way; readers name their files
        raise DataError(f"{problem.filename or root}: {problem.strerror or problem}; {RIGHTS}") from None
    if official:
        raw = raw._replace(splits=splits, notes=raw.notes | {"split": "the official rows cut anew"})
    if "test_share" in spec:
        raw = cut(raw, {**spec, "splits": splits})
    if "subset" in spec:
        raw = _subset(raw, spec["subset"])
    return decoded(raw, spec["shape"]) if spec.get("decode") else raw


def _in_order(splits: Mapping[str, int]) -> dict[str, int]:
    known = {name: place for place, name in enumerate(SPLIT_ORDER)}
    return {name: splits[name] for name in sorted(splits, key=lambda name: (known.get(name, len(known)), name))}


def read_digits(spec: Mapping[str, Any], root: Path | None, download: bool) -> Raw:
    """scikit-learn's 1,797 hand-written digits, 8x8, values 0..16 stretched to 0..255; no file, no network.

    The data set has no official split: a stratified 80/20 split with a fixed seed stands in for one.
    """
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    bunch = load_digits()
    train, test = train_test_split(
        np.arange(len(bunch.target)), test_size=0.2, stratify=bunch.target, random_state=DIGITS_SPLIT_SEED
    )
    rows = np.concatenate([np.sort(train), np.sort(test)])
    images = np.rint(bunch.images * (255 / 16)).astype(np.uint8)[rows, :, :, None]
    notes = {
        "split": f"stratified 80/20, seed {DIGITS_SPLIT_SEED}",
        "source_rows": rows.tolist(),
    }
    return Raw(
        images, bunch.target[rows], {"train": len(train), "test": len(test)}, "sklearn.datasets.load_digits", notes
    )


def read_torchvision(spec: Mapping[str, Any], root: Path, download: bool) -> Raw:
    """A data set class of torchvision (MNIST and its kin, USPS, CIFAR, STL10); torchvision checks the md5 sums.

    `coarse`: CIFAR-100's 20 superclasses in place of its classes. Images without labels (STL10's) have label -1.
    """
    import torchvision.datasets

    kind = getattr(torchvision.datasets, spec["class"])
    # torchvision unpacks archives only when asked to download; with all archives there it asks no network.
    packed = any((root / spec["class"] / "raw").glob("*.gz"))
    images, labels, splits = [], [], {}
    for split in spec["splits"]:
        try:
            choice = {"split": split} if spec["class"] in SPLIT_BY_NAME else {"train": split == "train"}
            part = kind(root, **choice, download=download or packed)
        except (RuntimeError, OSError, EOFError, ValueError, zlib.error, UnpicklingError) as problem:
            raise DataError(
                f"torchvision.datasets.{spec['class']} found no usable files under {root} ({problem}); "
                f"put the official files into {root / spec['class'] / 'raw'}, or set download: true where there is "
                "a network"
            ) from None
        data = np.asarray(part.data)
        if spec["class"] in SPLIT_BY_NAME:
            data = data.transpose(0, 2, 3, 1)  # STL10 comes as [N, C, H, W]
        images.append(data[..., None] if data.ndim == 3 else data)
        found = part.labels if spec["class"] in SPLIT_BY_NAME else part.targets
        labels.append(_coarse(part, split) if spec.get("coarse") else np.asarray(found))
        splits[split] = len(data)
    return Raw(np.concatenate(images), np.concatenate(labels), splits, f"torchvision.datasets.{spec['class']}", {})


SPLIT_BY_NAME = ("STL10",)


def _coarse(part: Any, split: str) -> np.ndarray:
    """Superclass of every image, from the official pickle itself; each of the 20 must have exactly 5 classes."""
    import pickle

    with open(Path(part.root, part.base_folder, split), "rb") as file:
        stored = pickle.load(file, encoding="latin1")
    coarse, fine = np.asarray(stored["coarse_labels"]), np.asarray(stored["fine_labels"])
    sizes = [len(np.unique(fine[coarse == label])) for label in np.unique(coarse)]
    if sizes != [5] * 20:
        raise DataError(f"CIFAR-100 {split}: superclasses with {sorted(set(sizes))} classes found, 20 with 5 expected")
    return coarse


READERS = {
    "digits": read_digits,
    "torchvision": read_torchvision,
    "folder": read_folder,
    "jf": read_jf,
    "csv": read_csv,
    "vectors": read_vectors,
    "reuters": read_reuters,
    "voc": read_voc,
    "voc_boxes": read_voc_boxes,
    "coco": read_coco,
}


def _subset(raw: Raw, size: int) -> Raw:
    """`size` rows of `raw`, stratified by label, the same share of each split."""
    total, start, kept, splits = len(raw.labels), 0, [], {}
    if size > total or raw.labels.ndim != 1:
        found = f"{total} rows" if raw.labels.ndim == 1 else "images with several labels"
        raise DataError(f"subset: {size} rows of {raw.source}, which has {found}; leave the key out")
    generator = np.random.default_rng(DIGITS_SPLIT_SEED)
    for split, rows in raw.splits.items():
        wanted = round(size * rows / total)
        here = start + generator.permutation(rows)
        # Interleaving the classes makes every prefix as stratified as it can be.
        rank = np.empty(rows)
        for label in np.unique(raw.labels[here]):
            members = raw.labels[here] == label
            rank[members] = (np.arange(members.sum()) + 0.5) / members.sum()
        kept.append(np.sort(here[np.argsort(rank, kind="stable")][:wanted]))
        splits[split] = wanted
        start += rows
    rows = np.concatenate(kept)
    return raw._replace(
        images=raw.images[rows],
        labels=raw.labels[rows],
        splits=splits,
        source=f"{raw.source}, {size} rows",
        notes={key: value for key, value in raw.notes.items() if key != "source_rows"},
    )
