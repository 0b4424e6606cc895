"""Resume state: what a killed run needs to go on as if nothing had happened.

It lies outside the declared outputs of a job (a workflow manager deletes those before it reruns the job), under a name
made of everything the run depends on, so that a changed run never finds it. Two generations are kept: a file that was
cut off by a full disk or a dying machine falls back to the one before.
"""

import contextlib
import os
import pickle
import shutil
import sys
import zipfile
from pathlib import Path
from typing import Any

import torch

from pipeline.record import whole


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
        with whole(self.newest) as file:
            torch.save(state, file)

    def load(self) -> dict[str, Any] | None:
        """The newest readable generation, on the CPU, or None where there is none. Says so when it falls back."""
        for path in (self.newest, self.previous):
            if not path.exists():
                continue
            try:
                return torch.load(path, map_location="cpu", weights_only=True)
            except (RuntimeError, EOFError, OSError, pickle.UnpicklingError, zipfile.BadZipFile) as problem:
                reason = (str(problem) or type(problem).__name__).splitlines()[0][:120]
                print(f"warning: {path} cannot be read ({reason}); falling back to the state before", file=sys.stderr)
        return None

    def remove(self) -> None:
        """Called when the run's results are safely written."""
        shutil.rmtree(self.folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            self.folder.parent.rmdir()  # only when empty
