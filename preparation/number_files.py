"""Readers of files of numbers: own vectors and arrays, USPS, UCI's tables, REUTERS."""

import contextlib
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np

from pipeline.data_set import UNLABELLED, are_vectors
from preparation.labels import checked, numbered
from preparation.prepared import RIGHTS, DataError, Raw
from preparation.text_tables import Table, column, read_table

# What numpy, zipfile, gzip and (REUTERS alone) pickle raise for a file that is damaged or of another kind.
DAMAGED = (
    OSError, EOFError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error,
    UnpicklingError, ImportError, AttributeError, LookupError, TypeError,
)  # fmt: skip
# Bytes that reach no further are hardly pixels of 0..255: digits of 0..16, or masks of 0 and 1.
DARK = 128


def read_jf(spec: Mapping[str, Any], root: Path, download: bool) -> Raw:
    """USPS as DEC, IDEC and N2D have it: a line "classes dimensions", then a label and its values per line; -1 ends."""
    return _of_files(spec, root, lambda path, split: read_table(path, None, label=0, skip=1, end="-1"))


def read_csv(spec: Mapping[str, Any], root: Path, download: bool) -> Raw:
    """Numbers in lines of text, one row per line: separated by commas, the label last (UCI's usual form), unless
    `delimiter` and `label` say otherwise.
    """
    return _of_files(spec, root, lambda path, split: _text(spec, path, split))


def read_vectors(spec: Mapping[str, Any], root: Path, download: bool) -> Raw:
    """Own arrays, by the file's ending: .npz with x [N, d] (images: [N, H, W, C]) and y [N]; .npy whose last column is
    the label; else lines of text as in `read_csv`. A file of split `unlabeled` may be without y, and with
    `labels: false` every column of it is a value.
    """
    return _of_files(spec, root, lambda path, split: stored(spec, path, split))


def stored(spec: Mapping[str, Any], path: Path, split: str) -> Table:
    """The table of one file of `read_vectors`, its values as they are stored."""
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            needed = {"x"} if split == "unlabeled" else {"x", "y"}
            if not needed <= set(arrays.files):
                wanted = " and ".join(f"{name} {'[N, d]' if name == 'x' else '[N]'}" for name in sorted(needed))
                raise DataError(f"{path}: arrays {', '.join(arrays.files)} found, {wanted} expected")
            if "y" not in arrays.files or not _has_labels(spec, split):
                return _unlabelled(arrays["x"])
            return Table(arrays["x"], checked(arrays["y"], f"{path}, array y"))
    if path.suffix != ".npy":
        return _text(spec, path, split)
    table = np.load(path, allow_pickle=False)
    labelled = _has_labels(spec, split)
    if labelled and (table.ndim != 2 or table.shape[1] < 2):
        raise DataError(f"{path}: an array {list(table.shape)} found, [N, d + 1] expected, the label last")
    out = {column(path, number, None, table.shape[1]) for number in spec.get("drop", ()) if table.ndim == 2}
    if not labelled:
        return _unlabelled(np.delete(table, sorted(out), axis=1) if out else table)
    at = column(path, spec.get("label", -1), None, table.shape[1])
    return Table(np.delete(table, sorted({*out, at}), axis=1), checked(table[:, at], path))


def _has_labels(spec: Mapping[str, Any], split: str) -> bool:
    return split != "unlabeled" or spec.get("labels", True)


def _unlabelled(values: np.ndarray) -> Table:
    if values.ndim == 0:
        raise ValueError("a single value")
    return Table(values, np.full(len(values), -1))


def _text(spec: Mapping[str, Any], path: Path, split: str) -> Table:
    """The table of a file of text as the data set's keys describe it."""
    label = spec.get("label", -1) if _has_labels(spec, split) else None
    skip, drop = int(spec.get("header", False)), spec.get("drop", ())
    return read_table(path, spec.get("delimiter", ","), label, skip=skip, drop=drop)


def read_reuters(spec: Mapping[str, Any], root: Path, download: bool) -> Raw:
    """REUTERS-10K from DEC's file reutersidf10k.npy (a pickled dictionary of `data` and `label`), times sqrt(d).

    Where the file is missing and a download is allowed it is built from scikit-learn's RCV1 as DEC did, but from RCV1's
    own tf-idf weights: the token counts that DEC weighted anew are not part of RCV1.
    """

    def load(path: Path, split: str) -> Table:
        if path.is_file():
            # The official file is a pickle; it is opened only where the user has put it.
            stored = np.load(path, allow_pickle=True)
            if stored.shape != () or not isinstance(stored.item(), dict) or not {"data", "label"} <= set(stored.item()):
                raise DataError(f"{path}: a dictionary of `data` and `label` expected, as in DEC's reutersidf10k.npy")
            data, labels = np.asarray(stored.item()["data"]), stored.item()["label"]
            return Table(weighted(data), checked(labels, path))
        from sklearn.datasets import fetch_rcv1

        try:
            rcv1 = fetch_rcv1(data_home=path.parent)
        except OSError as problem:
            raise DataError(
                f"{path}: not found, and RCV1 cannot be downloaded instead ({problem}); put the file there"
            ) from None
        return Table(*reuters_10k(rcv1, spec["shape"][1], spec["splits"]["train"]))

    return _of_files(spec, root, load, optional=download)


def reuters_10k(rcv1: Any, width: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """The first `rows` documents with exactly one root category, their `width` most frequent terms, scaled as DEC's.

    `rcv1`: scikit-learn's bunch (data: sparse tf-idf [N, terms]; target: sparse [N, categories]; target_names).
    """
    from sklearn.preprocessing import normalize

    roots = [list(rcv1.target_names).index(name) for name in ("CCAT", "ECAT", "GCAT", "MCAT")]
    member = np.asarray(rcv1.target[:, roots].todense()).astype(bool)
    kept = np.flatnonzero(member.sum(1) == 1)
    used = np.asarray((rcv1.data[kept] > 0).sum(0)).ravel()
    terms = np.sort(np.argsort(-used, kind="stable")[:width])
    chosen = kept[:rows]
    x = normalize(rcv1.data[chosen][:, terms]).toarray() * np.sqrt(width)
    return x, member[chosen].argmax(1)


def weighted(x: np.ndarray) -> np.ndarray:
    """Rows [N, d] of tf-idf as DEC scales them, times sqrt(d)."""
    return x * np.sqrt(x.shape[1])


def _of_files(spec: Mapping[str, Any], root: Path, load: Callable[[Path, str], Table], optional: bool = False) -> Raw:
    """Read each split's file with `load`, scale, and give the rows the shape of the data set; labels become 0..C-1."""
    parts, labels, paths, splits = [], [], [], {}
    for split in spec["splits"]:
        path = root / spec["files"][split]
        if not path.is_file() and (packed := path.with_name(f"{path.name}.gz")).is_file():
            path = packed
        if not path.is_file() and not optional:
            raise DataError(f"{path}: not found; put the official file of {spec['title']} there (or its .gz)")
        try:
            with reading_file(path):
                table = load(path, split)
            parts.append(shaped(spec, path, table))
            _refuse_dark(path, parts[-1])
        except DataError as problem:
            hint = split == "unlabeled" and _has_labels(spec, split) and spec["source"] in UNLABELLED
            more = "; if the file has no column of labels, set `labels: false` in the data set's file" if hint else ""
            raise DataError(f"{problem}{more}") from None
        labels.append(table.labels)
        paths.append(path)
        splits[split] = len(table.labels)
    numbers, names = numbered(labels, paths)
    files = ", ".join(spec["files"][split] for split in splits)
    rows = standardised(spec, np.concatenate(parts))
    return Raw(rows, numbers, splits, files, {}, class_names=names)


def standardised(spec: Mapping[str, Any], rows: np.ndarray) -> np.ndarray:
    """Vectors [N, 1, d, 1] with each column brought to the mean and deviation that `standardise` says, if it does."""
    if "standardise" not in spec:
        return rows
    mean, std = (np.array(spec["standardise"][key], np.float32)[:, None] for key in ("mean", "std"))
    return (rows - mean) / std


def shaped(spec: Mapping[str, Any], path: Path, table: Table) -> np.ndarray:
    """The values as [N, H, W, C]: float32 times `scale`, or the bytes 0..255 that they are."""
    x, shape = table.values, spec["shape"]
    if shape[2] == 1 and x.shape[1:] == tuple(shape[:2]) and not are_vectors(shape):
        x = x[..., None]  # grey images without an axis of channels
    if x.dtype.kind not in "iubf":
        raise DataError(f"{path}: values of type {x.dtype} found, numbers expected")
    width = int(np.prod(shape))
    flat = x.ndim == 2 and x.shape[1] == width
    if not (flat or list(x.shape[1:]) == list(shape)) or len(x) != len(table.labels):
        raise DataError(
            f"{path}: {list(x.shape)} values and {len(table.labels)} labels found, [N, {width}] and N expected"
        )
    if flat and shape[2] > 1:
        raise DataError(
            f"{path}: {list(x.shape)} values found, whose channels may come first or last; store them as "
            f"[N, {', '.join(map(str, shape))}]"
        )
    x = x.reshape(-1, *shape)
    if x.dtype != np.uint8 or "scale" in spec or are_vectors(shape):
        return np.asarray(x, dtype=np.float32) * np.float32(spec.get("scale", 1))
    return x


def _refuse_dark(path: Path, x: np.ndarray) -> None:
    if x.dtype == np.uint8 and len(x) and x.max() < DARK:
        raise DataError(
            f"{path}: bytes of 0..{x.max()} found, but pixels in bytes are 0..255; set `scale` to what makes them "
            f"0..1, such as {1 / max(1, x.max()):.6g}"
        )


@contextlib.contextmanager
def reading_file(path: Path) -> Iterator[None]:
    """What a damaged file raises, in whatever library, becomes one line with the cure."""
    try:
        yield
    except PermissionError as problem:
        raise DataError(f"{path}: {problem.strerror}; {RIGHTS}") from None
    except DAMAGED as problem:
        if "Object arrays" in str(problem):
            raise DataError(
                f"{path}: holds Python objects, which are never loaded since loading them can run code; store numbers "
                "or text, such as x.astype('float32') and y.astype(str)"
            ) from None
        reason = "" if "pickle" in str(problem) else f" ({str(problem).splitlines()[0] if str(problem) else 'it ends'})"
        raise DataError(
            f"{path}: cannot be read as a {path.suffix or 'text'} file{reason}; it is damaged, cut off or of another "
            "kind: copy or write it again"
        ) from None
