"""Linear classifier on frozen features, trained as its settings say.

Features are those of clean images: papers that train on augmented crops name theirs in docs/methods.md.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from evaluation.predictions import prediction_scores
from evaluation.probe import Task, stratified
from methods.blocks.lars import LARS

SELECTED = {"last": "last epoch", "holdout": "best on a tenth of the training rows", "test": "best on TEST labels"}


@dataclass(frozen=True)
class Settings:
    features: Literal["h", "z", "p", "zc", "zn"]
    normalise: bool  # unit rows
    standardise: bool  # zero mean and unit variance by the training rows
    optimiser: Literal["sgd", "adam", "lars"]
    lr: float
    weight_decay: float
    schedule: Literal["constant", "cosine", "step"]
    epochs: int
    batch_size: int
    shuffle: bool
    select: Literal["last", "holdout", "test"]  # the epoch that is reported
    momentum: float | None = None  # of sgd and lars
    trust: float | None = None  # of lars, which adapts the rate of the weights, not of the biases
    milestones: list[int] | None = None  # epochs at which a step schedule falls
    gamma: float | None = None  # what it falls by
    patience: int | None = None  # epochs without a better one after which a selection ends


def linear(task: Task) -> dict[str, Any]:
    """`select` names the epoch that is reported: "last"; "holdout", the best on a stratified tenth of the training
    rows; or "test", the best on the test rows: MIX'EM's released protocol, which selects on test labels and says so.
    """
    settings = task.settings
    (x, y), (x_test, y_test) = task.labelled()
    trained_on = len(x)
    if settings.standardise:
        mean, std = x.mean(0), x.std(0)
        std[std == 0] = 1
        x, x_test = (x - mean) / std, (x_test - mean) / std
    if settings.select == "holdout":
        kept, held = stratified(y, 0.1, task.seed)
        x, y, x_watch, y_watch = x[kept], y[kept], x[held], y[held]
    else:
        x_watch, y_watch = x_test, y_test
    generator = torch.Generator().manual_seed(task.seed)
    train, labels, test, watch = (torch.from_numpy(np.ascontiguousarray(a)) for a in (x, y, x_test, x_watch))
    layer = torch.nn.Linear(x.shape[1], int(max(y.max(), y_test.max())) + 1)
    with torch.no_grad():
        layer.weight.normal_(0, 0.01, generator=generator)
        layer.bias.zero_()
    optimiser = _optimiser(layer, settings)
    best, patience, predicted, epoch_used = -1.0, 0, None, settings.epochs
    for epoch in range(settings.epochs):
        optimiser.param_groups[0]["lr"] = _rate(epoch, settings)
        order = torch.randperm(len(train), generator=generator) if settings.shuffle else torch.arange(len(train))
        for rows in order.split(settings.batch_size):
            optimiser.zero_grad()
            F.cross_entropy(layer(train[rows]), labels[rows]).backward()
            optimiser.step()
        if settings.select != "last":
            watched = float((_predict(layer, watch) == y_watch).mean())
            patience += 1
            if watched > best:
                best, patience, epoch_used = watched, 0, epoch + 1
                predicted = _predict(layer, test)
            elif settings.patience is not None and patience >= settings.patience:
                break
    if predicted is None:
        predicted = _predict(layer, test)
    return prediction_scores(y_test, predicted) | {
        "epoch": epoch_used,
        "selection": SELECTED[settings.select],
        "selected_on_test": settings.select == "test",
        "trained_on": trained_on,
    }


def _optimiser(layer: torch.nn.Linear, settings: Settings) -> torch.optim.Optimizer:
    if settings.optimiser == "lars":
        momentum, trust = settings.momentum or 0, settings.trust or 0.001
        return LARS(layer.parameters(), settings.lr, momentum, settings.weight_decay, trust, exclude_flat=True)
    if settings.optimiser == "sgd":
        return torch.optim.SGD(
            layer.parameters(), settings.lr, settings.momentum or 0, weight_decay=settings.weight_decay
        )
    return torch.optim.Adam(layer.parameters(), settings.lr, weight_decay=settings.weight_decay)


def _rate(epoch: int, settings: Settings) -> float:
    """Learning rate of an epoch, counted from 0."""
    if settings.schedule == "cosine":
        return settings.lr * 0.5 * (1 + np.cos(np.pi * epoch / settings.epochs))
    if settings.schedule == "step":
        passed = sum(epoch >= milestone for milestone in settings.milestones or ())
        return settings.lr * (settings.gamma or 1) ** passed
    return settings.lr


def _predict(layer: torch.nn.Linear, x: Tensor) -> np.ndarray:
    with torch.no_grad():
        return layer(x).argmax(1).numpy()


PROBE = linear
