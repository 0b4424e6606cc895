"""Weights that a training starts from: those of its base run, or published ones from a local file."""

import hashlib
import pickle
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from methods.blocks.batch_norm import SplitBatchNorm2d
from methods.method import Method
from pipeline.record import Damaged, StageError, verified


def read_model(path: str | Path, record: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a model.pt, if it is what the `record` of its training says, down to the last weight."""
    try:
        return torch.load(verified(path, record), map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as problem:
        raise Damaged(f"{path}: no readable model ({str(problem).splitlines()[0]}); train it again") from None


CONTAINERS = ("state_dict", "model", "backbone")  # keys under which files hold the weights
# Outermost first; MoCo saves `module.encoder_q.layer1...`, SimCLR ports `encoder.` or `backbone.`.
PREFIXES = ("module.", "encoder_q.", "base_encoder.", "backbone.", "encoder.")


def load_weights(backbone: nn.Module, path: str | Path) -> dict[str, object]:
    """Load the file's backbone weights into `backbone`; returns what a record says of it.

    Prefixes of MoCo and SimCLR files are stripped; heads, queues and key encoders in the file are left out. A missing
    or misshapen backbone key is an error: a silently half-loaded network looks like a bad method.
    """
    path = Path(path)
    if not path.is_file():
        raise StageError(f"{path}: weights not found; put the file there or change network.weights in the recipe")
    try:
        stored = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as problem:
        raise StageError(f"{path}: cannot be read as weights alone ({str(problem).splitlines()[0]})") from None
    for key in CONTAINERS:
        if isinstance(stored, dict) and isinstance(stored.get(key), dict):
            stored = stored[key]
            break
    wanted = backbone.state_dict()
    found = _without_prefixes(
        {name: value for name, value in stored.items() if isinstance(value, Tensor)}, wanted, path
    )
    missing = [name for name in wanted if name not in found and not name.endswith("num_batches_tracked")]
    if missing:
        raise StageError(
            f"{path}: {len(wanted) - len(missing)} of {len(wanted)} backbone keys found, {missing[0]!r} is missing "
            f"(the file has {next(iter(stored), 'nothing')!r}, ...); give the recipe the network of the file"
        )
    for name, value in wanted.items():
        if name in found and found[name].shape != value.shape:
            raise StageError(
                f"{path}: {name!r} is {list(found[name].shape)} in the file, {list(value.shape)} in the recipe's "
                "network; give the recipe the network of the file"
            )
    backbone.load_state_dict({name: found.get(name, value) for name, value in wanted.items()})
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"file": path.name, "sha256": digest, "backbone_keys": len(wanted)}


def _without_prefixes(stored: dict[str, Tensor], wanted: Iterable[str], path: Path) -> dict[str, Tensor]:
    """The file's weights by the backbone's own names. Refuses a file in which two networks have the same names."""
    found: dict[str, tuple[str, Tensor]] = {}
    for full, value in stored.items():
        name = full
        for prefix in PREFIXES:
            name = name.removeprefix(prefix)
        if name in found and name in set(wanted):
            raise StageError(
                f"{path}: {found[name][0]!r} and {full!r} would both be {name!r} of the backbone; save the one network "
                "that is meant into a file of its own"
            )
        found[name] = full, value
    return {name: value for name, (_, value) in found.items()}


def inherit(method: Method, weights: Mapping[str, Tensor], path: str | Path) -> None:
    """Load the parts that the method inherits from the state of its base's method.

    Batch norm split into parts (MoCo's) and plain batch norm fit each other: a plain layer takes the mean of the parts'
    running statistics, which is what the parts evaluate with; parts all start from a plain layer's.
    """
    for part in method.inherits:
        own = {name.removeprefix(f"{part}."): value for name, value in weights.items() if name.startswith(f"{part}.")}
        module = getattr(method, part)
        try:
            module.load_state_dict(_bridged(own, module))
        except RuntimeError as problem:
            raise StageError(
                f"{path}: its {part} does not fit this recipe's network ({' '.join(str(problem).split())[:300]}); "
                "give the recipe and its base the same network"
            ) from None


def _bridged(weights: dict[str, Tensor], module: nn.Module) -> dict[str, Tensor]:
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
