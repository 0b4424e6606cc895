"""Which GPUs of this machine CUDA would see. Asked of the driver's files alone: nothing here imports torch."""

import os
import re
from pathlib import Path

from pipeline.record import StageError

VISIBLE = "CUDA_VISIBLE_DEVICES"
NODES = "/dev"  # where the driver shows its devices: nvidia0, nvidia1, ...
OTHERS = ("dxg", "kfd")  # under Windows' Linux, and of AMD: torch calls these cuda, too, but nothing numbers them


def usable() -> list[str]:
    """The GPUs that CUDA would see: index, UUID or MIG name as CUDA_VISIBLE_DEVICES gives them, else indices."""
    given = os.environ.get(VISIBLE)
    if given is None:
        return [str(index) for index, _ in enumerate(Path(NODES).glob("nvidia[0-9]*"))]
    names = [name.strip() for name in given.split(",")]
    # As CUDA reads it: what follows the first name that is none (-1, NoDevFiles) does not count.
    known = [re.fullmatch(r"\d+|(GPU|MIG)-\S+", name) is not None for name in names]
    return names[: known.index(False)] if False in known else names


def refuse_without(device: str) -> None:
    """Raise StageError for `device` "cuda" on a machine that surely has no GPU; a stage asks CUDA itself."""
    nodes = [*Path(NODES).glob("nvidia[0-9]*"), *(path for name in OTHERS if (path := Path(NODES, name)).exists())]
    hidden = VISIBLE in os.environ and not usable()
    if device == "cuda" and (hidden or not nodes):
        found = f"{VISIBLE}={os.environ.get(VISIBLE)!r} hides every GPU" if hidden else "this machine has no GPU"
        raise StageError(
            f"device=cuda, but {found}; ask for device=auto or device=cpu, or send the jobs to a cluster "
            "(--workflow-profile profiles/slurm)"
        )
