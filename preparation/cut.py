"""A test split cut by a hash from data that have none: what is added later moves no other row between the splits."""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from preparation.prepared import DataError, Raw


def cut(raw: Raw, spec: Mapping[str, Any]) -> Raw:
    """The rows of split `train` cut into the splits train and test of `spec`, `test_share` of them into test.

    The first 8 bytes of the SHA-256 of a file's path, or of a row's number from 0, say where a row goes: share x 2^64
    and above is train. Rows without label (-1) are the split `unlabeled` where the spec has one that has no files.
    """
    rows = raw.splits["train"]
    names = raw.images[:rows] if raw.root is not None else np.arange(rows)
    test = np.array([in_test(str(name), spec["test_share"]) for name in names], dtype=bool)
    parts = {"train": np.flatnonzero(~test), "test": np.flatnonzero(test)}
    if "unlabeled" in spec["splits"] and "unlabeled" not in raw.splits:
        without = raw.labels[:rows] == -1
        parts = {split: part[~without[part]] for split, part in parts.items()}
        parts["unlabeled"] = np.flatnonzero(without)
    for split, part in parts.items():
        if not len(part):
            raise DataError(
                f"{raw.source}: a test share of {spec['test_share']} leaves no row of {rows} to split {split!r}; add "
                "rows, or change test_share in the data set's file"
            )
    start = rows
    for split, size in raw.splits.items():  # the splits with files of their own follow
        if split != "train":
            parts[split], start = np.arange(start, start + size), start + size
    parts = {split: parts[split] for split in spec["splits"] if split in parts}
    order = np.concatenate(list(parts.values()))
    notes = {
        **raw.notes,
        "split": f"test: SHA-256 of the {'path' if raw.root else 'row number'} below share {spec['test_share']}",
    }
    if raw.root is None:
        notes["source_rows"] = order.tolist()
    sizes = {split: len(part) for split, part in parts.items()}
    return raw._replace(images=raw.images[order], labels=raw.labels[order], splits=sizes, notes=notes)


def in_test(name: str, share: float) -> bool:
    """Whether the row of this name is of the test split."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") < share * 2**64
