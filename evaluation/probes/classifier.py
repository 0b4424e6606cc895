"""The class probabilities of a model that was trained with labels, scored as they are: nothing is fitted here."""

from dataclasses import dataclass
from typing import Any, Literal

from evaluation.predictions import prediction_scores
from evaluation.probe import Task


@dataclass(frozen=True)
class Settings:
    features: Literal["p"]
    normalise: bool  # unit rows


def classifier(task: Task) -> dict[str, Any]:
    """Top-1 and top-5 accuracy of a method's own class probabilities p [N, C]."""
    (x, _), (p, y) = task.labelled()
    hits = (-p).argsort(1, kind="stable")[:, :5] == y[:, None]
    return prediction_scores(y, p.argmax(1)) | {"top5": float(hits.any(1).mean()), "trained_on": len(x)}


PROBE = classifier
