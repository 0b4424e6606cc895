"""Optimisers and learning-rate schedules, as recipes name them."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import nn


def build_optimiser(settings: Mapping[str, Any], parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """`settings`: a recipe's `optimiser`."""
    parameters = [parameter for parameter in parameters if parameter.requires_grad]
    lr, decay = settings["lr"], settings["weight_decay"]
    if settings["name"] == "sgd":
        return torch.optim.SGD(parameters, lr, momentum=settings.get("momentum", 0.0), weight_decay=decay)
    return torch.optim.Adam(parameters, lr, weight_decay=decay)


def schedule(settings: Mapping[str, Any], steps_per_epoch: int) -> Callable[[int], float]:
    """The factor on lr as a function of the global step (from 0): `settings` is a recipe's `schedule`.

    cosine: linear warm-up, then constant for `hold_epochs`, then half a cosine down to `final_factor`. With
    `per: epoch` the factor changes only at epoch borders. A pure function: a resumed run needs no scheduler state.
    """
    epochs, name = settings["epochs"], settings["name"]
    warmup, hold = settings.get("warmup_epochs", 0), settings.get("hold_epochs", 0)
    final, per_step = settings.get("final_factor", 0.0), settings.get("per", "epoch") == "step"

    def factor(step: int) -> float:
        # Position in epochs. Within the warm-up the first step is already above 0, else it would be wasted.
        position = step / steps_per_epoch if per_step else step // steps_per_epoch
        if position < warmup:
            return (position + (1 / steps_per_epoch if per_step else 1)) / (warmup + (0 if per_step else 1))
        if name == "constant":
            return 1.0
        span = epochs - warmup - hold
        progress = min(max(position - warmup - hold, 0) / span, 1.0) if span > 0 else 0.0
        return final + (1 - final) * 0.5 * (1 + math.cos(math.pi * progress))

    return factor
