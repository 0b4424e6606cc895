"""What was found where a user pointed at, and what was decided of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from preparation.prepared import DataError, Raw

TEST_SHARE = 0.2
LEAST_ROWS = 25  # SCAN looks for 20 neighbours of a row, and batches are of 8
# Names that people give to splits -> ours.
SPLITS = {
    "train": "train", "training": "train", "val": "val", "valid": "val", "validation": "val", "test": "test",
    "testing": "test", "unlabeled": "unlabeled", "unlabelled": "unlabeled",
}  # fmt: skip


@dataclass
class Wishes:
    """What the command line says besides the place: None where it leaves the choice open."""

    label: int | str | None = None
    labels: bool = True  # False: whatever looks like a label is none
    drop: tuple[int | str, ...] = ()
    clusters: int | None = None
    size: tuple[int, int] | None = None  # height, width
    test_share: float = TEST_SHARE
    standardise: bool | None = None


@dataclass
class Found:
    """`spec`: the keys of the data set's file; `reasons`: key -> where its value comes from; `lines`: (what, words) for
    the screen; `root`: the folder that the paths in `spec` lie below.
    """

    root: Path
    paths: np.ndarray | None = None  # of image files that stay files
    spec: dict[str, Any] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    lines: list[tuple[str, str]] = field(default_factory=list)

    def decide(self, key: str, value: Any, reason: str = "") -> None:
        """A key of the data set's file, and why it has this value."""
        self.spec[key], self.reasons[key] = value, reason


def count_rows(found: Found, raw: Raw, wishes: Wishes) -> None:
    """Decide classes and splits by what the reader found."""
    names = raw.class_names or []
    labelled = [split for split in raw.splits if split != "unlabeled"]
    if labelled and len(names) < 2:
        raise DataError(
            f"{raw.source}: one class only ({', '.join(names)}), two or more expected; with --no-labels --clusters K "
            "its rows are clustered without labels"
        )
    if labelled and wishes.clusters not in (None, len(names)):
        raise DataError(
            f"--clusters {wishes.clusters}: {raw.source} has {len(names)} classes, as many clusters are sought; leave "
            "--clusters out, or add --no-labels"
        )
    if not labelled:
        if wishes.clusters is None:
            raise DataError(f"{raw.source}: no labels found, so say how many clusters to seek: --clusters K")
        if not 2 <= wishes.clusters <= raw.splits["unlabeled"]:
            raise DataError(
                f"--clusters {wishes.clusters}: {raw.splits['unlabeled']} rows were found; 2 up to the rows expected"
            )
    if (rows := sum(raw.splits.values())) < LEAST_ROWS:
        raise DataError(f"{raw.source}: {rows} rows found, {LEAST_ROWS} or more expected; methods learn from many rows")
    found.decide("classes", len(names) or wishes.clusters, "as counted" if names else "clusters asked for: no labels")
    reason = "rows as counted; describe again when files come or go"
    found.decide("splits", dict(raw.splits), reason)
    sizes = ", ".join(f"{size:,} {split}" for split, size in raw.splits.items())
    cut = " (cut by hash)" if "test_share" in found.spec else ""
    classes = class_counts(raw) if names else f"no labels; {wishes.clusters} clusters are sought"
    found.lines += [("rows", sizes + cut), ("classes" if names else "labels", classes)]
    found.lines += _sparse(raw, names)


def class_counts(raw: Raw, shown: int = 6) -> str:
    """The number of classes, and the rows of the first few of them."""
    names = raw.class_names or []
    counts = np.bincount(raw.labels[raw.labels >= 0], minlength=len(names))
    listed = [f"{name} {count:,}" for name, count in zip(names[:shown], counts, strict=False)]
    return f"{len(names)}: {', '.join(listed)}{', ...' if len(names) > shown else ''}"


def _sparse(raw: Raw, names: list[str]) -> Iterable[tuple[str, str]]:
    """A warning of classes that a split lacks, as a hash leaves them where there are few rows of them."""
    start = 0
    for split, size in raw.splits.items():
        here, start = raw.labels[start : start + size], start + size
        lacking = [name for number, name in enumerate(names) if split != "unlabeled" and not (here == number).any()]
        if lacking:
            yield (
                "warning",
                f"split {split} has no row of {', '.join(lacking[:5])}{', ...' if len(lacking) > 5 else ''}",
            )


def in_words(shape: Mapping[int, int] | list[int]) -> str:
    """A shape H, W, C as people write it."""
    return f"{shape[0]} x {shape[1]} {'grey' if shape[2] == 1 else 'RGB'}"
