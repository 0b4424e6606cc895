"""How files of weights name a backbone: prefixes of the networks around it, and other names for a ResNet's parts."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from torch import Tensor

from pipeline.record import StageError

# Outermost first. Official files: MoCo and PCL `module.encoder_q.`, MoCo v3 `module.base_encoder.`, SwAV and
# DeepCluster-v2 `module.`, solo-learn `backbone.` (`encoder.` before 1.0.5), lightly `backbone.`; torchvision and timm
# have none.
PREFIXES = ("module.", "encoder_q.", "base_encoder.", "backbone.", "encoder.")

_STAGES = ("layer1", "layer2", "layer3", "layer4")
# A ResNet cut out of its parts as `Sequential(*children)` has numbers for names. By how many parts precede layer1:
# torchvision's conv1, bn1, relu, maxpool; lightly's own ResNet, whose forward pass holds the ReLU, conv1 and bn1.
NUMBERED = {
    first: {"0": "conv1", "1": "bn1"} | {str(first + number): stage for number, stage in enumerate(_STAGES)}
    for first in (4, 2)
}
SHORTCUTS = {"shortcut": "downsample"}  # lightly's own ResNet


def arranged(
    stored: Mapping[str, Tensor], wanted: Iterable[str], path: Path
) -> tuple[dict[str, Tensor], dict[str, int]]:
    """(a file's weights by the backbone's own names, keys of the file that are left out, counted by their part).

    `wanted` are the backbone's keys. Raises StageError where two of the file's networks have the same names, where a
    key is missing, and where the file's network has more of the backbone's parts than `wanted` (a deeper one).
    """
    wanted = list(wanted)
    own = {name.partition(".")[0] for name in wanted}  # the backbone's parts: conv1, bn1, layer1, ...
    found: dict[str, str] = {}  # backbone's name -> file's name
    left: dict[str, int] = {}
    names = {full: _stripped(full) for full in stored}
    numbers = _numbers(names.values()) if "layer1" in own else {}
    for full, bare in names.items():
        name = _renamed(bare, numbers)
        part = name.partition(".")[0]
        if part not in own:
            left[part] = left.get(part, 0) + 1
        elif name in found:
            raise StageError(
                f"{path}: {found[name]!r} and {full!r} would both be {name!r} of the backbone; save the one network "
                "that is meant into a file of its own"
            )
        else:
            found[name] = full
    missing = [name for name in wanted if name not in found and not name.endswith("num_batches_tracked")]
    if missing:
        raise StageError(
            f"{path}: {len(wanted) - len(missing)} of {len(wanted)} backbone keys found, {missing[0]!r} is missing "
            f"(the file has {next(iter(stored), 'nothing')!r}, ...); give the recipe the network of the file"
        )
    known = set(wanted)
    if more := [full for name, full in found.items() if name not in known and not name.endswith("num_batches_tracked")]:
        raise StageError(
            f"{path}: all {len(wanted)} backbone keys found, and {len(more)} more of its parts, {more[0]!r} first: the "
            "file is of a larger network; give the recipe the network of the file"
        )
    return {name: stored[full] for name, full in found.items() if name in known}, left


def _stripped(full: str) -> str:
    for prefix in PREFIXES:
        full = full.removeprefix(prefix)
    return full


def _numbers(names: Iterable[str]) -> dict[str, str]:
    """Number -> part, where the file numbers the parts of a ResNet; empty where it names them."""
    heads = {name.partition(".")[0] for name in names}
    if "0" not in heads or "layer1" in heads:
        return {}
    return NUMBERED[4 if "7" in heads else 2]


def _renamed(name: str, numbers: Mapping[str, str]) -> str:
    """The backbone's name for a key: `4.0.conv1.weight` is `layer1.0.conv1.weight`."""
    parts = name.split(".")
    parts[0] = numbers.get(parts[0], parts[0])
    return ".".join(SHORTCUTS.get(part, part) for part in parts)
