"""Arrays that a stage wrote (.npz), as the stages after it read them."""

import contextlib
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.record import Damaged, of_system, verified


@contextlib.contextmanager
def open_arrays(path: str | Path, record: Mapping[str, Any]) -> Iterator[Any]:
    """The open .npz at `path`, if it is what the `record` of its stage says; else StageError. Nothing is unpickled."""
    try:
        with np.load(verified(path, record), allow_pickle=False) as stored:
            yield stored
    except OSError as problem:
        raise Damaged(f"{path}: cannot be read: {of_system(problem)}") from None
    except (zipfile.BadZipFile, EOFError) as problem:
        raise Damaged(f"{path}: no readable arrays ({problem}); delete it and run its stage again") from None
