"""Pairs of images (CDC Table VII): views of one image, same class, different class; alignment of the views."""

from dataclasses import dataclass
from typing import Any, Literal

from evaluation.probe import ProbeError, Task
from evaluation.similarity import alignment, pair_similarity


@dataclass(frozen=True)
class Settings:
    features: Literal["z", "zc", "zn"]  # features that embed keeps of two views of some images
    normalise: bool  # unit rows


def similarity(task: Task) -> dict[str, Any]:
    first, second = (task.array(f"view{view}_{task.settings.features}") for view in (1, 2))
    labels = task.labels[task.scored]
    if (labels < 0).any():
        raise ProbeError(f"{int((labels < 0).sum())} scored rows have no label: no pair is of the same class for sure")
    result = pair_similarity(task.array()[task.scored], labels, (first, second))
    return result | {"alignment": alignment(first, second), "pairs_of_views": len(first)}


PROBE = similarity
