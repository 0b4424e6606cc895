"""Published ImageNet weights from a local file, into a backbone."""

import hashlib
import pickle
from pathlib import Path

import torch
from torch import Tensor, nn

from pipeline.record import StageError

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
    found = {_stripped(name): value for name, value in stored.items() if isinstance(value, Tensor)}
    wanted = backbone.state_dict()
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


def _stripped(name: str) -> str:
    for prefix in PREFIXES:
        name = name.removeprefix(prefix)
    return name
