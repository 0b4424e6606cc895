"""Readers: official files of a data set -> uint8 images, labels, split sizes. One function per source."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from preparation.prepared import DataError

DIGITS_SPLIT_SEED = 0


class Raw(NamedTuple):
    """images uint8 [N, H, W, C], labels [N], rows grouped by split in the order of `splits` (name -> rows)."""

    images: np.ndarray
    labels: np.ndarray
    splits: dict[str, int]
    source: str
    notes: dict[str, Any]
    root: str | None = None  # images are then paths below it


def read(spec: Mapping[str, Any], root: Path | None, download: bool) -> Raw:
    """Read the data set that `spec` (config/datasets) describes.

    `root`: folder of the official files, needed by every source but "digits". With `subset` in the spec only so many
    rows are kept, drawn stratified with a fixed seed, each split in proportion.
    """
    raw = READERS[spec["source"]](spec, root, download)
    return _subset(raw, spec["subset"]) if "subset" in spec else raw


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


def read_torchvision(spec: Mapping[str, Any], root: Path | None, download: bool) -> Raw:
    """A data set class of torchvision that holds `data` and `targets` (MNIST and its kin); it checks the md5 sums."""
    import torchvision.datasets

    if root is None:
        raise DataError(
            f"data set of source torchvision.datasets.{spec['class']} needs a folder for its files: "
            "set BENCH_DATA_ROOT, or data_root in the configuration"
        )
    kind = getattr(torchvision.datasets, spec["class"])
    # torchvision unpacks archives only when asked to download; with all archives there it asks no network.
    packed = any((root / spec["class"] / "raw").glob("*.gz"))
    images, labels, splits = [], [], {}
    for split in spec["splits"]:
        try:
            part = kind(root, train=split == "train", download=download or packed)
        except (RuntimeError, OSError) as problem:
            raise DataError(
                f"torchvision.datasets.{spec['class']} found no usable files under {root} ({problem}); "
                f"put the official files into {root / spec['class'] / 'raw'}, or set download: true where there is "
                "a network"
            ) from None
        data = np.asarray(part.data)
        images.append(data[..., None] if data.ndim == 3 else data)
        labels.append(np.asarray(part.targets))
        splits[split] = len(data)
    return Raw(np.concatenate(images), np.concatenate(labels), splits, f"torchvision.datasets.{spec['class']}", {})


def read_folder(spec: Mapping[str, Any], root: Path | None, download: bool) -> Raw:
    """Image files as ImageNet lays them out, {folder}/{split}/{class}/*.JPEG: listed here, decoded when they are used.

    Classes are the folder names in sorted order, or the lines of `class_list` (a file under the root), which select
    a subset such as SCAN's ImageNet-50. Every split must hold every class.
    """
    from torchvision.datasets.folder import IMG_EXTENSIONS, make_dataset

    if root is None:
        raise DataError("a data set of source folder needs BENCH_DATA_ROOT, or data_root in the configuration")
    base = root / spec["folder"]
    paths, labels, splits = [], [], {}
    for split in spec["splits"]:
        if not (base / split).is_dir():
            raise DataError(f"{base / split}: no such folder; expected {{split}}/{{class}}/files under {base}")
        if "class_list" in spec:
            classes = [line.split()[0] for line in (root / spec["class_list"]).read_text().splitlines() if line.strip()]
        else:
            classes = sorted(entry.name for entry in (base / split).iterdir() if entry.is_dir())
        if len(classes) != spec["classes"]:
            raise DataError(
                f"{base / split}: {len(classes)} class folders found ({', '.join(classes[:3])}, ...), "
                f"{spec['classes']} expected; a folder level too many is a usual cause"
            )
        numbers = {name: number for number, name in enumerate(classes)}
        try:
            found = make_dataset(str(base / split), numbers, IMG_EXTENSIONS)
            found = sorted(found, key=lambda pair: (pair[1], pair[0]))
        except FileNotFoundError as problem:
            raise DataError(f"{base / split}: {problem}") from None
        paths += [str(Path(path).relative_to(base)) for path, _ in found]
        labels += [label for _, label in found]
        splits[split] = len(found)
    return Raw(np.array(paths), np.array(labels), splits, f"files under {spec['folder']}", {}, str(base.resolve()))


READERS = {"digits": read_digits, "torchvision": read_torchvision, "folder": read_folder}


def _subset(raw: Raw, size: int) -> Raw:
    """`size` rows of `raw`, stratified by label, the same share of each split."""
    total, start, kept, splits = len(raw.labels), 0, [], {}
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
    return Raw(
        raw.images[rows], raw.labels[rows], splits, f"{raw.source}, {size} rows", {"split": raw.notes.get("split")}
    )
