"""The suite that this machine finishes in a quarter of an hour: epochs, network and rows by what was measured."""

from collections.abc import Mapping
from dataclasses import dataclass, field

# Of the minutes asked for, this share is for trainings; the rest for starting processes, embedding, clustering, tables.
FOR_TRAINING = 0.65
FEWEST_EPOCHS = 20  # of a base encoder: with fewer, rather a smaller network or fewer rows
SECOND_STAGE = 0.8  # epochs of what starts from a base, over the base's, as on digits
FEWEST_ROWS = 500


@dataclass(frozen=True)
class Training:
    """One trained model of a suite: its own epochs and rows, the recipe it starts from, its cost an image beside
    SimCLR's, and its epochs over those of the base encoder where all are shortened.
    """

    epochs: int
    rows: int
    base: str | None
    cost: float = 1.0
    share: float = 1.0


@dataclass
class Size:
    """What the quick suite is cut to."""

    epochs: dict[str, int]
    rows: int | None  # of the whole data set, None: all
    seconds: float
    arithmetic: list[str] = field(default_factory=list)


def seconds(trainings: Mapping[str, Training], epochs: Mapping[str, int], speed: float, workers: int) -> float:
    """Time of all trainings, `workers` at once: the longest chain of base and second stage, or an even share of all."""
    each = {name: epochs[name] * one.rows * one.cost / speed for name, one in trainings.items()}
    chain = {name: each[name] + (each[one.base] if one.base else 0) for name, one in trainings.items()}
    return max(max(chain.values(), default=0), sum(each.values()) / workers)


def shortened(trainings: Mapping[str, Training], epochs: int) -> dict[str, int]:
    """Epochs of every training where a base encoder has at most `epochs`."""
    return {name: min(one.epochs, max(1, round(one.share * epochs))) for name, one in trainings.items()}


def size(
    trainings: Mapping[str, Training],
    speed: float,
    workers: int,
    minutes: float,
    total: int,
    fewest: int,
    cut_rows: bool,
) -> Size | None:
    """Epochs with all rows where at least FEWEST_EPOCHS (or the recipes' own) fit into the time; else, with `cut_rows`,
    so many rows of `total` (at least `fewest`) that these do; else None.
    """
    budget = minutes * 60 * FOR_TRAINING
    most = max((round(one.epochs / one.share) for one in trainings.values()), default=1)
    least = min(FEWEST_EPOCHS, most)
    for epochs in range(most, least - 1, -1):
        cut = shortened(trainings, epochs)
        if (needed := seconds(trainings, cut, speed, workers)) <= budget:
            return Size(cut, None, needed)
    if not cut_rows:
        return None
    cut = shortened(trainings, least)
    needed = seconds(trainings, cut, speed, workers)
    rows = min(total, max(int(total * budget / needed), min(fewest, total)))
    rows = rows if rows < 1000 else rows // 100 * 100
    return Size(cut, rows if rows < total else None, needed * rows / total)
