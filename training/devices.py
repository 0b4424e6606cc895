"""Which GPUs a process takes where there are more than it needs: free ones, each locked until the process ends.

Snakemake starts as many GPU jobs on a machine as `--resources gpu=N` allows, but tells none of them which GPU is its
own. A cluster's scheduler does, in CUDA_VISIBLE_DEVICES: what that names is all there is to take from.
"""

import fcntl
import os
import re
import tempfile
import time
from pathlib import Path

from pipeline.gpus import VISIBLE, usable
from pipeline.record import StageError

JOB_IDS = ("SLURM_JOB_ID", "LSB_JOBID", "PBS_JOBID", "JOB_ID")  # SLURM, LSF, PBS, SGE
POLL = 1.0  # seconds between two looks for a free GPU


def claim(device: str, count: int) -> None:
    """Leave CUDA `count` free GPUs of those this process may use; wait while other processes hold too many of them.

    Must run before anything asks CUDA, which reads CUDA_VISIBLE_DEVICES once. Does nothing for `device` "cpu", without
    GPUs, and where there are just `count`: one that a scheduler gave, or those that a training's processes inherit.

    Raises:
        StageError: more GPUs are asked for than there are, or the lock files cannot be written.
    """
    names = usable()
    if device == "cpu" or not names or len(names) == count:
        return
    if len(names) < count:
        raise StageError(
            f"devices={count} asks for {count} GPUs, found {len(names)} ({', '.join(names)}); ask for fewer with"
            f" --config devices={len(names)}, name more in {VISIBLE}, or use device=cpu"
        )
    folder = Path(tempfile.gettempdir(), f"bench-gpus-{os.getuid()}")
    waiting = False
    while not (taken := _take(folder, names, count)):
        if not waiting:
            print(f"waiting for {count} of the GPUs {', '.join(names)}: locked in {folder}", flush=True)
        waiting = True
        time.sleep(POLL)
    os.environ[VISIBLE] = ",".join(taken)
    print(f"GPU {', '.join(taken)} of {', '.join(names)}", flush=True)


def refuse_missing(device: str) -> None:
    """Raise StageError for `device` "cuda" where CUDA finds none. Asks CUDA, so `claim` goes before."""
    import torch  # only here: whoever claims a GPU needs none of it

    if device == "cuda" and not torch.cuda.is_available():
        raise StageError(
            f"device=cuda, but CUDA finds no GPU here ({VISIBLE}={os.environ.get(VISIBLE, 'not set')}); use --device"
            " auto or cpu, --config device=auto in the pipeline, or a machine with a GPU"
        )


def _take(folder: Path, names: list[str], count: int) -> list[str]:
    """The first `count` of the GPUs that are free, now locked, or none of them: nobody waits while holding some.

    The locks are the kernel's and go with the process, however it ends, so the handles stay open on purpose.
    """
    held: dict[str, int] = {}
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        for name in names:
            handle = os.open(folder / _lock_name(name), os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(handle)
                continue
            held[name] = handle
            if len(held) == count:
                return list(held)
    except OSError as problem:
        raise StageError(
            f"{folder}: the lock files of the GPUs cannot be written ({problem.strerror}); set TMPDIR to a folder of"
            f" yours, or {VISIBLE} to the GPU to use"
        ) from None
    for handle in held.values():
        os.close(handle)
    return []


def _lock_name(name: str) -> str:
    """File name of a GPU's lock. A scheduler may number every job's GPUs from 0, so its jobs lock for themselves."""
    job = next((os.environ[key] for key in JOB_IDS if os.environ.get(key)), None) if VISIBLE in os.environ else None
    return re.sub(r"[^\w.-]", "_", f"job{job}-{name}" if job else name)
