"""k-nearest-neighbour classifier on frozen features; the bank is the probe's training rows."""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from evaluation.predictions import prediction_scores
from evaluation.probe import ProbeError, Task
from methods.blocks.products import factor, product


@dataclass(frozen=True)
class Settings:
    features: Literal["h", "z", "p", "zc", "zn"]
    normalise: bool  # unit rows: the dot product is the cosine then
    k: int
    distance: Literal["cosine", "euclidean"] = "cosine"  # euclidean: one vote for each neighbour
    temperature: float | None = None  # of cosine votes


def knn(task: Task) -> dict[str, Any]:
    """Dot product (cosine of unit rows), votes in the proportion of exp(s / temperature); with `distance: euclidean`
    the nearest rows, one vote each, as scikit-learn's.

    `k` larger than the bank is clipped to it and recorded as `k_used`. Equal votes go to the smaller class id.
    """
    settings = task.settings
    if settings.distance == "cosine" and not settings.temperature:
        raise ProbeError(
            "votes by cosine need a temperature above 0; set it in config/probes.yaml, or distance: euclidean"
        )
    (x_train, y), (x, y_test) = task.labelled()
    k = min(settings.k, len(x_train))
    bank, labels, classes = torch.from_numpy(x_train), torch.from_numpy(y), int(y.max()) + 1
    euclidean = settings.distance == "euclidean"
    # Nearest by |x - b|^2 is largest by x.b - |b|^2 / 2.
    offset = bank.square().sum(1) / 2 if euclidean else torch.zeros(len(bank))
    predicted = []
    for start in range(0, len(x), 1024):
        part = factor(torch.from_numpy(x[start : start + 1024]))
        similarity, neighbour = product(part, bank, -offset).topk(k, dim=1)
        votes = torch.zeros(len(similarity), classes, dtype=torch.float64)
        votes.scatter_add_(1, labels[neighbour], _weights(similarity, None if euclidean else settings.temperature))
        predicted.append(votes.argmax(1))
    return prediction_scores(y_test, torch.cat(predicted).numpy()) | {"k_used": k, "trained_on": len(bank)}


def _weights(similarity: Tensor, temperature: float | None) -> Tensor:
    """Similarities [n, k] -> votes float64 [n, k]: exp((s - largest of the row) / temperature), without one 1 each.

    Shares of a row's votes do not depend on what is subtracted; exp(s / temperature) itself overflows at 1 / 1000.
    """
    if temperature is None:
        return torch.ones_like(similarity, dtype=torch.float64)
    similarity = similarity.double()
    return ((similarity - similarity.amax(1, keepdim=True)) / temperature).exp()


PROBE = knn
