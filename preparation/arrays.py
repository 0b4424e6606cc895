"""Arrays that a stage wrote (.npz), as the stages after it and figures read them."""

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.record import Damaged, StageError, reading, verified


def read_arrays(path: str | Path, record: Mapping[str, Any] | None, *names: str) -> dict[str, np.ndarray]:
    """The named arrays of a .npz file, all of them without names. Nothing is unpickled.

    Raises Damaged where it is missing, cannot be read or is not what the `record` of its stage says (None: where that
    was looked at before), StageError where it has no such array.
    """
    if record is not None:
        verified(path, record)
    try:
        with reading(path), np.load(path, allow_pickle=False) as stored:
            absent = [name for name in names if name not in stored.files]
            if absent:
                raise StageError(f"{path}: no array {absent[0]!r}, it has {', '.join(stored.files)}")
            return {name: stored[name] for name in names or stored.files}
    except (ValueError, AttributeError, EOFError, zipfile.BadZipFile, zlib.error) as problem:
        raise Damaged(f"{path}: no readable arrays ({problem}); delete it and run its stage again") from None
