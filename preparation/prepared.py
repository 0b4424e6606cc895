"""The prepared-folder format: what every later stage reads, whatever the source of a data set.

images.npy   uint8 [N, H, W, C], or float32 in 0..1 or vectors [N, 1, d, 1]; rows grouped by split
labels.npy   int64 [N]; -1 stands for "no label", as of all rows where the only split is `unlabeled`; or [N, C] of 1
             (present), 0 (difficult), -1 (absent)
objects.npz  of data for detection: boxes, their classes and masks (preparation/objects.py)
card.json    name, source, classes and their names, splits as row ranges, counts per class, normalisation, sha256 of
             all arrays
"""

import functools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pipeline.data_set import are_vectors, without_labels
from pipeline.provenance import fingerprint
from pipeline.record import Damaged, Record, StageError, read_json, sha256, whole, write_json

OBJECTS = "objects.npz"
RIGHTS = "see that the disk is there and that you have the right to read it (chmod u+r)"


class DataError(StageError):
    """A data file that is missing, damaged or not what its description says."""


class Raw(NamedTuple):
    """What a reader found: images [N, H, W, C], uint8 or float32, labels [N] or [N, C]; rows grouped by split in the
    order of `splits`.
    """

    images: np.ndarray
    labels: np.ndarray
    splits: dict[str, int]
    source: str
    notes: dict[str, Any]
    root: str | None = None  # images are then paths below it
    class_names: list[str] | None = None  # where the source has names: of class 0, 1, ...
    objects: dict[str, np.ndarray] | None = None  # of images with boxes: the arrays of preparation/objects.py


@dataclass(frozen=True)
class Prepared:
    """An opened prepared folder. `labels` int64 [N], or [N, C] where an image has several."""

    folder: Path
    card: dict[str, Any]
    labels: np.ndarray

    @functools.cached_property
    def images(self) -> np.ndarray:
        """[N, H, W, C], uint8 or float32, or the paths of files [N]; memory-mapped, and compared with the card's hash
        when it is asked for (about 1 s per GB), since not every stage looks at images.
        """
        return _array(self.folder, self.card, "images.npy")

    @property
    def root(self) -> Path | None:
        """Folder of the image files, or None for images that are stored here."""
        if not self.card.get("root"):
            return None
        folder = self.card.get("folder")
        return Path(self.card["root"]) if folder is None else self.data_root / folder  # new rows are below no data root

    @property
    def data_root(self) -> Path:
        """The folder that a data set of image files counts from.

        The present data root, whose files are the ones that were hashed, where it has the folder of the data set; else
        the one that it was prepared from.
        """
        here, folder = os.environ.get("BENCH_DATA_ROOT"), self.card["folder"]
        if here and Path(here, folder).is_dir():
            return Path(here)
        root = Path(self.card["root"])
        return root.parents[len(Path(folder).parts) - 1] if Path(folder).parts else root

    def vectors(self, rows: np.ndarray) -> np.ndarray:
        """The rows as float32 [n, d], pixels in 0..1: the input space of the geometry metrics."""
        if self.root is not None:
            raise DataError(f"data set {self.card['name']!r} keeps files, no arrays: its input space is not defined")
        x = self.images[rows].reshape(len(rows), -1)
        return x.astype(np.float32) / 255 if x.dtype == np.uint8 else x

    def rows(self, splits: Sequence[str]) -> np.ndarray:
        """Row numbers of the named splits, in order. ["all"] stands for every labelled split."""
        known = self.card["splits"]
        chosen = [name for name in known if name != "unlabeled"] if list(splits) == ["all"] else list(splits)
        for name in chosen or ["all"]:
            if name not in known:
                raise DataError(
                    f"data set {self.card['name']!r} has no split {name!r}; it has {', '.join(known)}: "
                    "choose a protocol that uses these"
                )
        return np.concatenate([np.arange(*known[name]) for name in chosen])


def write_prepared(
    folder: str | Path,
    name: str,
    spec: Mapping[str, Any],
    images: np.ndarray,
    labels: np.ndarray,
    splits: Mapping[str, int],
    source: str,
    record: Record,
    notes: Mapping[str, Any] | None = None,
    root: str | None = None,
    class_names: Sequence[str] | None = None,
    sources: str | None = None,
    objects: Mapping[str, np.ndarray] | None = None,
) -> dict[str, Any]:
    """Check the arrays against `spec` (config/datasets), write the folder, return the card.

    `images` [N, H, W, C], uint8 or float32, or with `root` the paths of files below it, and `labels` [N]
    (or with `multilabel` in the spec [N, C]) hold the splits one after the other; `splits` gives their sizes, and
    `class_names` the names of the classes 0..C-1 for the card.
    `objects`: arrays of images with boxes. `sources`: hash of the files that all came from (pipeline/data_files.py), of
    which paths alone say nothing.
    Raises DataError for arrays that are not what the spec says.
    """
    images, labels = np.ascontiguousarray(images), np.asarray(labels)
    _check_images(name, spec, images, root)
    if dict(splits) != dict(spec["splits"]):
        raise DataError(f"{name}: splits {dict(splits)} found, config/datasets/{name}.yaml says {dict(spec['splits'])}")
    if not len(images) == len(labels) == sum(splits.values()):
        raise DataError(f"{name}: {len(images)} images, {len(labels)} labels, {sum(splits.values())} rows in splits")
    ranges, start = {}, 0
    for split, size in splits.items():
        ranges[split] = [start, start + size]
        start += size
    labels = _checked_labels(name, spec, labels, ranges, class_names)
    folder = Path(folder)
    for file, array in (("images.npy", images), ("labels.npy", labels)):
        with whole(folder / file) as handle:
            np.save(handle, array)
    files = ["images.npy", "labels.npy"]
    if objects is not None:
        with whole(folder / OBJECTS) as handle:
            np.savez(handle, **objects)
        files.append(OBJECTS)
    digests = {file: sha256(folder / file) for file in files}
    card = {
        "name": name,
        "source": source,
        "classes": spec["classes"],
        "class_names": list(class_names) if class_names else None,
        "shape": list(spec["shape"]),
        "root": root,
        "folder": spec.get("folder"),
        "splits": ranges,
        "counts": {split: _counts(labels[a:b], spec["classes"]) for split, (a, b) in ranges.items()},
        "normalisation": spec["normalisation"],
        "sha256": digests,
        "notes": dict(notes or {}),
        "record": record.finish(content=fingerprint(**digests, splits=ranges, sources=sources), sources=sources),
    }
    write_json(folder / "card.json", card)
    return card


def _check_images(name: str, spec: Mapping[str, Any], images: np.ndarray, root: str | None) -> None:
    """Type, shape, finiteness and range of images [N, H, W, C]; files are looked at where they are read."""
    if root is not None:
        return
    if images.dtype not in (np.uint8, np.float32) or images.ndim != 4:
        raise DataError(
            f"{name}: images must be uint8 or float32 [N, H, W, C], found {images.dtype} {list(images.shape)}"
        )
    if list(images.shape[1:]) != list(spec["shape"]):
        raise DataError(
            f"{name}: images of shape {list(images.shape[1:])} found, config/datasets/{name}.yaml says {spec['shape']}"
        )
    if images.dtype == np.uint8:
        return
    bad = np.flatnonzero(~np.isfinite(images).all((1, 2, 3)))
    if len(bad):
        raise DataError(
            f"{name}: NaN or infinity in {len(bad)} rows, first in row {bad[0]} (counted from 0); fill in or leave out "
            "what is missing"
        )
    # A scale of 0.00392157 ends a little above 1; anything more would be cut off by the first operation on colours.
    if not are_vectors(spec["shape"]) and len(images) and (images.min() < 0 or images.max() > 1 + 1e-4):
        raise DataError(
            f"{name}: pixels of {images.min():.6g}..{images.max():.6g} found, but images of float32 are in 0..1; set "
            f"`scale` in config/datasets/{name}.yaml ({1 / 255:.8f} for pixels of 0..255), which multiplies them, or "
            "store them in 0..1"
        )


def _checked_labels(
    name: str,
    spec: Mapping[str, Any],
    labels: np.ndarray,
    ranges: Mapping[str, Sequence[int]],
    class_names: Sequence[str] | None,
) -> np.ndarray:
    """int64 labels [N] of exactly the classes 0..C-1 (and -1 in split `unlabeled`), or with several an image [N, C]."""
    several, classes = bool(spec.get("multilabel")), spec["classes"]
    if labels.ndim != 1 + several or (several and labels.shape[1] != classes):
        wanted = f"[N, {classes}]" if several else "[N]"
        raise DataError(f"{name}: labels of shape {list(labels.shape)} found, {wanted} expected")
    if labels.dtype.kind not in "iu":
        raise DataError(f"{name}: labels of type {labels.dtype} found, whole numbers expected")
    labels = labels.astype(np.int64)
    wrong = np.flatnonzero(((labels < -1) | (several & (labels > 1))).reshape(len(labels), -1).any(1))
    if len(wrong):
        raise DataError(
            f"{name}: label {labels[wrong[0]].tolist()} in row {wrong[0]} (counted from 0); "
            f"{'1, 0 or -1 a class' if several else f'0..{classes - 1}, or -1 for none'} expected"
        )
    if without_labels(spec) and not several:
        held = np.flatnonzero(labels != -1)
        if len(held):
            raise DataError(
                f"{name}: {len(held)} rows have labels, first row {held[0]} (counted from 0), but the only split is "
                "`unlabeled`; name the split `train`, or set `labels: false` to leave the labels aside"
            )
        return labels
    if class_names is not None and len(class_names) != classes:
        raise DataError(
            f"{name}: {len(class_names)} classes found ({', '.join(map(str, class_names[:5]))}"
            f"{', ...' if len(class_names) > 5 else ''}), config/datasets/{name}.yaml says {classes}"
            f"{'; -1 stands for no label, number the classes from 0' if (labels == -1).any() and not several else ''}"
        )
    found = np.flatnonzero((labels == 1).any(0)) if several else np.unique(labels[labels >= 0])
    if len(found) != classes or (len(found) and (found[0], found[-1]) != (0, classes - 1)):
        raise DataError(
            f"{name}: labels {found.tolist()[:20]} found, expected exactly 0..{classes - 1}; "
            "an image folder with one level too many is a usual cause"
        )
    for split, (first, last) in ranges.items():
        none = np.flatnonzero(labels[first:last] == -1) if not several and split != "unlabeled" else ()
        if len(none):
            # Probes and scores would take -1 for one more class.
            raise DataError(
                f"{name}: {len(none)} rows of split {split!r} have no label (-1), first row {none[0]} of the split "
                "(counted from 0); images without labels belong in split `unlabeled`"
            )
    return labels


def open_prepared(folder: str | Path) -> Prepared:
    """Open a prepared folder. Raises DataError for arrays whose content is not what the card says."""
    folder = Path(folder)
    card = read_json(folder / "card.json")
    if not isinstance(card, dict) or not {"sha256", "splits", "record"} <= set(card):
        raise DataError(f"{folder / 'card.json'}: not a data card; delete {folder} and prepare the data set again")
    for file in ("images.npy", "labels.npy"):
        if not (folder / file).is_file():
            raise DataError(f"{folder / file}: not found; delete {folder} and prepare the data set again")
    return Prepared(folder, card, _array(folder, card, "labels.npy"))


def _array(folder: Path, card: Mapping[str, Any], file: str) -> np.ndarray:
    path = folder / file
    if (found := sha256(path)) != card["sha256"][file]:
        raise Damaged(
            f"{path}: sha256 {found[:12]} found, {card['sha256'][file][:12]} expected by card.json: the file was "
            f"damaged or changed; delete {folder} and prepare the data set again"
        )
    return np.load(path, mmap_mode="r" if file == "images.npy" else None)


def check_made_from(data: Prepared, records: Mapping[str, Any], path: str | Path) -> None:
    """Raise DataError unless the records of the file at `path` say that it was made from this data: prepared from the
    same files with the same settings and code, and of the same content.
    """
    for fact, held in (("fingerprint", data.card["record"]["fingerprint"]), ("content", content(data.card))):
        if (made := records.get("prepare", {}).get(fact)) != held:
            raise DataError(
                f"{path} was made from data {made}, {data.folder} holds {held}: make it again from this data, or "
                "prepare the data it was made from"
            )


def content(card: Mapping[str, Any]) -> str | None:
    """Hash of what a prepared data set holds: a fact of its record, which all that is made from it passes on."""
    return card["record"].get("content")


def _counts(labels: np.ndarray, classes: int) -> list[int]:
    """Images of each class."""
    found = np.bincount(labels[labels >= 0], minlength=classes) if labels.ndim == 1 else (labels == 1).sum(0)
    return found.tolist()
