"""Resume state: what a killed run needs to go on as if nothing had happened.

It lies outside the declared outputs of a job (a workflow manager deletes those before it reruns the job), under a name
made of everything the run depends on, so that a changed run never finds it. Two generations are kept: a file that was
cut off by a full disk or a dying machine falls back to the one before.
"""

import contextlib
import hashlib
import io
import os
import pickle
import shutil
import signal
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import torch

from pipeline.record import whole
from training.fabric import Fabric

PREEMPTED = 143  # 128 + SIGTERM: what a shell reports for a terminated process


class ResumeState:
    """The resume state in `folder`; the folder exists only between the first save and the end of the run."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self.newest, self.previous = self.folder / "state.pt", self.folder / "previous.pt"

    def save(self, state: dict[str, Any]) -> None:
        """Write a new generation, whole or not at all; the one before is kept."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.newest.exists():
            os.replace(self.newest, self.previous)
        content = packed(state)
        with whole(self.newest) as file:
            file.write(_digest(self.newest, content))
            file.write(content)

    def load(self) -> dict[str, Any] | None:
        """The newest readable generation, on the CPU, or None where there is none. Says so when it falls back."""
        for path in (self.newest, self.previous):
            if not path.exists():
                continue
            try:
                return read_state(path)
            except (ValueError, RuntimeError, EOFError, OSError, pickle.UnpicklingError, zipfile.BadZipFile) as problem:
                reason = (str(problem) or type(problem).__name__).splitlines()[0][:120]
                print(f"warning: {path} cannot be read ({reason}); falling back to the state before", file=sys.stderr)
        return None

    def remove(self) -> None:
        """Called when the run's results are safely written."""
        shutil.rmtree(self.folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            self.folder.parent.rmdir()  # only when empty


def packed(value: Any) -> memoryview:
    """What torch.save writes, in memory: into a file it hides behind an error of its own that the disk is full."""
    content = io.BytesIO()
    torch.save(value, content)
    return content.getbuffer()


def read_state(path: Path) -> dict[str, Any]:
    """The state in a file of `ResumeState`, on the CPU. Raises ValueError where its content is not what was written."""
    with open(path, "rb") as file:
        digest, content = file.read(32), file.read()
    if _digest(path, content) != digest:
        raise ValueError("its content is not what was written")
    return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)


def _digest(path: Path, content: bytes | memoryview) -> bytes:
    """Checksum of a state and of the run it is of, whose name its folder has: another run's state is not taken up."""
    found = hashlib.sha256(path.parent.name.encode())
    found.update(content)
    return found.digest()


class Saver:
    """Decides when state is due: every so many minutes, or at once when the cluster asks the process to end."""

    def __init__(self, fabric: Fabric, state: ResumeState, minutes: float):
        self.fabric, self.state, self.seconds = fabric, state, minutes * 60
        self.last, self.terminated, self.ending = time.monotonic(), False, False

    def due(self) -> bool:
        """The same answer in every process: saving is a joint step."""
        wishes = torch.tensor([self.terminated, time.monotonic() - self.last >= self.seconds], dtype=torch.int32)
        if self.fabric.world_size > 1:
            wishes = self.fabric.all_reduce(wishes.to(self.fabric.device), reduce_op="sum").cpu()
        self.ending = bool(wishes[0])
        return bool(wishes.any())

    def save(self, snapshot: dict[str, Any]) -> None:
        """Save, and end the process where that was asked for."""
        if self.fabric.is_global_zero:
            self.state.save(snapshot)
        self.fabric.barrier()
        self.last = time.monotonic()
        if self.ending:
            print("terminated: state saved, the next run goes on from here", file=sys.stderr, flush=True)
            raise SystemExit(PREEMPTED)

    def __enter__(self) -> None:
        def on_term(*_: Any) -> None:
            self.terminated = True

        self.before = signal.signal(signal.SIGTERM, on_term)

    def __exit__(self, *_: Any) -> None:
        signal.signal(signal.SIGTERM, self.before)
