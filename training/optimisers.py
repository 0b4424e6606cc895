"""Optimisers and learning-rate schedules, as recipes name them."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from methods.blocks.lars import LARS
from pipeline.record import StageError


def build_optimiser(settings: Mapping[str, Any], module: nn.Module) -> torch.optim.Optimizer:
    """`settings`: a recipe's `optimiser`. Parameters without gradient are left out.

    With `head_lr` everything but the backbone learns at that rate, its group holding the ratio as `scale`. The parts
    that `constant_rate` names (SimSiam's predictor) are in groups marked `constant`: no schedule changes their rate.
    With `exclude_bias_and_norm` parameters of one dimension (biases, norm layers) get no weight decay, and in LARS no
    adaptation of their rate.
    """
    learned = [parameter for parameter in module.parameters() if parameter.requires_grad]
    lr, decay, momentum = settings["lr"], settings["weight_decay"], settings.get("momentum", 0.0)
    groups: list[dict[str, Any]] = [{"params": learned, "weight_decay": decay}]
    if "head_lr" in settings:
        trunk = {id(parameter) for parameter in module.backbone.parameters()}
        heads = [p for p in learned if id(p) not in trunk]
        groups[0]["params"] = [p for p in learned if id(p) in trunk]
        groups.append({"params": heads, "weight_decay": decay, "scale": settings["head_lr"] / lr})
    if "constant_rate" in settings:
        groups = _with_constant_rate(groups, settings["constant_rate"], module)
    if settings.get("exclude_bias_and_norm"):
        groups = [
            {**group, "params": [p for p in group["params"] if (p.ndim <= 1) == flat], "weight_decay": kept}
            for group in groups
            for flat, kept in ((False, decay), (True, 0.0))
        ]
    groups = [group for group in groups if group["params"]] or groups[:1]
    if settings["name"] == "sgd":
        return torch.optim.SGD(groups, lr, momentum=momentum, nesterov=settings.get("nesterov", False), fused=True)
    if settings["name"] == "lars":
        excluded = settings.get("exclude_bias_and_norm", False)
        trust, clip = settings.get("trust", 0.001), settings.get("clip_lr", False)
        return LARS(groups, lr, momentum, decay, trust, clip, exclude_flat=excluded)
    kind = torch.optim.AdamW if settings["name"] == "adamw" else torch.optim.Adam
    # One pass over the parameters instead of one per operation: on a CPU an Adam step takes a tenth.
    return kind(groups, lr, betas=tuple(settings.get("betas", (0.9, 0.999))), fused=True)


def _with_constant_rate(groups: list[dict[str, Any]], names: Sequence[str], module: nn.Module) -> list[dict[str, Any]]:
    """Each group in two: what learns by the schedule, and the parameters of the named parts, marked `constant`."""
    for name in names:
        if not isinstance(getattr(module, name, None), nn.Module):
            raise StageError(f"optimiser.constant_rate: the method has no part {name!r}; name one of its modules")
    steady = {id(parameter) for name in names for parameter in getattr(module, name).parameters()}
    return [
        {**group, "params": [p for p in group["params"] if (id(p) in steady) == constant], "constant": constant}
        for group in groups
        for constant in (False, True)
    ]


def schedule(settings: Mapping[str, Any], steps_per_epoch: int) -> Callable[[int], float]:
    """The factor on lr as a function of the global step (from 0): `settings` is a recipe's `schedule`.

    A linear warm-up, then: constant; step: times `gamma` at each of the `milestones` (epochs); inverse: after t steps
    of the whole training (1 + decay t)^-power; cosine: constant for `hold_epochs`, then half a cosine down to
    `final_factor`, as long as what is left or, with `cosine_over: all`, as all epochs, so that it ends above. With
    `per: epoch` the factor of cosine and step changes only at epoch borders. A pure function: a
    resumed run needs no scheduler state.
    """
    epochs, name = settings["epochs"], settings["name"]
    warmup, hold = settings.get("warmup_epochs", 0), settings.get("hold_epochs", 0)
    final, per_step = settings.get("final_factor", 0.0), settings.get("per", "epoch") == "step"

    def factor(step: int) -> float:
        # Position in epochs. The warm-up's first step is already above 0: at a rate of 0 it would learn nothing.
        position = step / steps_per_epoch if per_step else step // steps_per_epoch
        if position < warmup:
            return (position + (1 / steps_per_epoch if per_step else 1)) / (warmup + (0 if per_step else 1))
        if name == "constant":
            return 1.0
        if name == "inverse":
            return (1 + settings["decay"] * step) ** -settings["power"]
        if name == "step":
            return settings["gamma"] ** sum(position >= milestone for milestone in settings["milestones"])
        span = epochs if settings.get("cosine_over") == "all" else epochs - warmup - hold
        progress = min(max(position - warmup - hold, 0) / span, 1.0) if span > 0 else 0.0
        return final + (1 - final) * 0.5 * (1 + math.cos(math.pi * progress))

    return factor
