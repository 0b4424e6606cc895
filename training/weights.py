"""Weights that a training starts from: those of its base run, or published ones from a local file."""

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from methods.blocks.batch_norm import SplitBatchNorm2d
from methods.method import Method
from pipeline.record import Damaged, StageError, sha256, verified
from training.layouts import arranged


def read_model(path: str | Path, record: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a model.pt, if it is what the `record` of its training says, down to the last weight."""
    try:
        return torch.load(verified(path, record), map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as problem:
        raise Damaged(f"{path}: no readable model ({str(problem).splitlines()[0]}); train it again") from None


CONTAINERS = ("state_dict", "model", "backbone")  # keys under which files hold the weights


def load_weights(backbone: nn.Module, path: str | Path) -> dict[str, object]:
    """Load the file's backbone weights into `backbone`; returns what a record says of it.

    Keys may be those of any source that layouts.py knows; heads, queues and key encoders are left out and counted. A
    missing or misshapen backbone key is an error, a network that is larger in the file too: a half-loaded network
    looks like a bad method. Batch norm in parts and plain batch norm fit each other, as in `inherit`.
    """
    path = Path(path)
    stored = _stored(path)
    wanted = backbone.state_dict()
    tensors = {name: value for name, value in stored.items() if isinstance(value, Tensor)}
    found, left = arranged(tensors, wanted, path)
    found = bridged(found, backbone)
    for name, value in wanted.items():
        if name in found and found[name].shape != value.shape:
            raise StageError(
                f"{path}: {name!r} is {list(found[name].shape)} in the file, {list(value.shape)} in the recipe's "
                "network; give the recipe the network of the file"
            )
    backbone.load_state_dict({name: found.get(name, value) for name, value in wanted.items()})
    return {"file": path.name, "sha256": sha256(path), "backbone_keys": len(wanted), "left_out": left}


def _stored(path: Path) -> Mapping[str, Any]:
    """The state dict in a file, alone or under one of CONTAINERS."""
    if not path.is_file():
        raise StageError(f"{path}: weights not found; put the file there or change network.weights in the recipe")
    try:
        stored = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as problem:
        raise StageError(
            f"{path}: cannot be read as weights alone ({str(problem).splitlines()[0]}); if the file holds more than "
            "weights and you trust it, save those alone: "
            'torch.save(torch.load(FILE, weights_only=False)["state_dict"], NEW)'
        ) from None
    for key in CONTAINERS:
        if isinstance(stored, dict) and isinstance(stored.get(key), dict):
            stored = stored[key]
            break
    if not isinstance(stored, dict):
        raise StageError(f"{path}: holds a {type(stored).__name__}, no state dict; save network.state_dict() there")
    return stored


def inherit(method: Method, weights: Mapping[str, Tensor], path: str | Path) -> None:
    """Load the parts that the method inherits from the state of its base's method.

    Batch norm split into parts (MoCo's) and plain batch norm fit each other: a plain layer takes the mean of the parts'
    running statistics, which is what the parts evaluate with; parts all start from a plain layer's.
    """
    for part in method.inherits:
        own = {name.removeprefix(f"{part}."): value for name, value in weights.items() if name.startswith(f"{part}.")}
        module = getattr(method, part)
        try:
            module.load_state_dict(bridged(own, module))
        except RuntimeError as problem:
            raise StageError(
                f"{path}: its {part} does not fit this recipe's network ({' '.join(str(problem).split())[:300]}); "
                "give the recipe and its base the same network"
            ) from None


def bridged(weights: dict[str, Tensor], module: nn.Module) -> dict[str, Tensor]:
    """The weights with running statistics of batch norm in as many parts as `module` has."""
    wanted = module.state_dict()
    parts = {name: layer.splits for name, layer in module.named_modules() if isinstance(layer, SplitBatchNorm2d)}
    result = dict(weights)
    for name, value in weights.items():
        layer, _, kind = name.rpartition(".")
        if kind in ("running_mean", "running_var") and name in wanted and len(value) != len(wanted[name]):
            width = len(wanted[name]) // parts.get(layer, 1)
            if len(value) % width == 0:
                result[name] = value.view(-1, width).mean(0).repeat(parts.get(layer, 1))
    return result
