"""Labels as files hold them -> classes 0..C-1 and their names. -1 stands for "no label", everywhere."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from preparation.prepared import DataError


def checked(labels: Any, path: Any, lines: Sequence[int] | None = None) -> np.ndarray:
    """Labels [N] of one file as int64 or text; DataError names the first row that holds neither (or its line)."""
    labels = np.asarray(labels)
    if labels.ndim != 1:
        raise DataError(
            f"{path}: labels of shape {list(labels.shape)} found, [N] expected, one class a row (of one-hot rows store "
            "y.argmax(1))"
        )
    kind = labels.dtype.kind
    if kind not in "iubfU":
        raise DataError(
            f"{path}: labels of type {labels.dtype} found, whole numbers or text expected; store y.astype(int) or "
            "y.astype(str)"
        )
    if kind == "U":
        labels = np.char.strip(labels)
        bad = (labels == "") | (np.char.lower(labels) == "nan")
    elif kind == "f":
        bad = ~np.isfinite(labels) | (labels != np.floor(labels)) | (labels < -1)
    else:
        bad = labels < -1
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        place = f"line {lines[row]}" if lines is not None else f"row {row} (counted from 0)"
        raise DataError(
            f"{path}: label {labels[row].item()!r} in {place}, {int(bad.sum())} such in all; whole numbers from 0 or "
            "text expected, and -1 where a row has no label"
        )
    return labels if kind == "U" else labels.astype(np.int64)


def numbered(parts: Sequence[np.ndarray], paths: Sequence[Any]) -> tuple[np.ndarray, list[str]]:
    """(labels [N] int64 as numbers of the sorted classes of all files, names of these classes); parts are `checked`."""
    text = [part.dtype.kind == "U" for part in parts]
    for part, is_text, path in zip(parts, text, paths, strict=True):
        if any(text) and not is_text and (part != -1).any():
            raise DataError(
                f"{path}: labels are numbers here and text in {paths[text.index(True)]}; give all files the same names "
                "of classes"
            )
    together = np.concatenate(parts)
    known = together != ("-1" if any(text) else -1)
    names, numbers = np.unique(together[known], return_inverse=True)
    found = np.full(len(together), -1, dtype=np.int64)
    found[known] = numbers
    return found, [str(name) for name in names]
