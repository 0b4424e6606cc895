"""How the scored rows' features spread: uniformity (t = 2) and effective rank. No label counts."""

from dataclasses import dataclass
from typing import Any, Literal

from evaluation.probe import Task
from evaluation.similarity import rankme, uniformity

several_labels = True


@dataclass(frozen=True)
class Settings:
    features: Literal["h", "z", "p", "zc", "zn"]
    normalise: bool  # unit rows


def spread(task: Task) -> dict[str, Any]:
    z = task.array()[task.scored]
    return {"uniformity": uniformity(z), "effective_rank": rankme(z)}


PROBE = spread
