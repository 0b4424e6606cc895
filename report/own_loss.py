"""The loss that a run ended with: the one criterion of choosing among seeds that every trained method has."""

import math
from pathlib import Path

from pipeline.record import verified
from report.history import read_history
from report.results import Read

LOWEST = "lowest own loss"


def own_loss(folder: str, read: Read) -> float | None:
    """The total of a run's loss in its last epoch; None for what was not trained, or has no finite one.

    Raises StageError that names the history where it is missing or damaged.
    """
    history = read_history(verified(Path(folder, "history.csv"), read.train))
    total = history[-1].get("total") if history else None
    return total if total is not None and math.isfinite(total) else None
