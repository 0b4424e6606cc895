"""Pairs of images (CDC Table VII): views of one image, same class, different class; alignment of the views."""

from dataclasses import dataclass
from typing import Any, Literal

from evaluation.probe import Task
from evaluation.similarity import alignment, pair_similarity


@dataclass(frozen=True)
class Settings:
    features: Literal["z", "zc", "zn"]  # features that embed keeps of two views of some images
    normalise: bool  # unit rows


def similarity(task: Task) -> dict[str, Any]:
    first, second = (task.array(f"view{view}_{task.settings.features}") for view in (1, 2))
    result = pair_similarity(task.array()[task.scored], task.labels[task.scored], (first, second))
    return result | {"alignment": alignment(first, second), "pairs_of_views": len(first)}


PROBE = similarity
