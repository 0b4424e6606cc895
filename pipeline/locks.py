"""Who is at work in a working directory and in a results folder; what a killed run left locked is freed.

Both are file locks of the operating system, held as long as the process lives, so that no death leaves one behind.
Where files cannot be locked (Windows) neither is taken.
"""

import contextlib
import json
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from pipeline.provenance import ROOT
from pipeline.record import StageError, of_system

flock: Callable[[IO[str], int], Any] | None
try:
    from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock
except ImportError:
    flock = None

ELSEWHERE = "with a cluster"  # second line of the file that names the host of a run

_held: dict[str, IO[str]] = {}  # open files keep their locks until the process ends


@contextlib.contextmanager
def _in_words(where: str) -> Iterator[None]:
    """What the system says about a file, as a StageError with the cure."""
    try:
        yield
    except OSError as problem:
        raise StageError(f"{problem.filename or where}: cannot be written: {of_system(problem)}") from None


@_in_words("the working directory")
def take_working_directory(folder: str | Path = ".snakemake") -> None:
    """Say that a run is at work here. Where the last one died, Snakemake's own locks, which outlive it, are removed.

    Only if it died on this host, and its jobs with it: of another host, and of jobs that a cluster still runs, nobody
    here can know, and `snakemake --unlock` stays the user's decision.
    """
    folder = Path(folder)
    if flock is None:
        return
    folder.mkdir(exist_ok=True)
    file = (folder / "running").open("a+", encoding="utf-8")
    locks = folder / "locks"
    if _taken(file, LOCK_EX):
        file.seek(0)
        owner, elsewhere = file.readline().strip(), file.readline().strip()
        if locks.is_dir() and any(locks.iterdir()):
            if owner != platform.node() or elsewhere:
                print(_still_locked(owner, elsewhere), file=sys.stderr)
                _hold(folder, file)
                return  # what is written there stays what the next try reads
            shutil.rmtree(locks)
            print("the run before was killed: its lock is removed, and what it left half done is made again",
                  file=sys.stderr)  # fmt: skip
        file.truncate(0)
        file.write(f"{platform.node()}\n")
        file.flush()
        _remove_damaged(folder / "metadata")
    _hold(folder, file)


def jobs_run_elsewhere(folder: str | Path = ".snakemake") -> None:
    """Say, for whoever comes after this process's death, that its jobs do not die with it: a cluster has them."""
    file = _held.get(str(Path(folder).absolute()))
    if file is not None:
        file.seek(0)
        if file.readline().strip() == platform.node() and not file.readline():
            file.write(f"{ELSEWHERE}\n")
            file.flush()


def _still_locked(owner: str, elsewhere: str) -> str:
    if owner != platform.node():
        return (
            f"the working directory is locked by a run on {owner or 'an unknown host'}: once that has ended, "
            "`snakemake --unlock` and the same command again go on"
        )
    return (
        f"the run before was killed, but its jobs are {elsewhere}, and may still run: once none does (squeue and "
        "scancel, with SLURM), `snakemake --unlock` and the same command again go on"
    )


def _remove_damaged(notes: Path) -> None:
    """Remove those of Snakemake's notes that are no text: it skips what is cut off, but ends with a traceback at these.
    A job without notes is left as it is; its own record says what it was (pipeline/record.py).
    """
    for path in (path for path in notes.rglob("*") if path.is_file()):
        try:
            path.read_bytes().decode("utf-8")
        except UnicodeDecodeError:
            path.unlink()
            print(f"{path}: damaged; Snakemake goes on without this note", file=sys.stderr)
        except OSError:
            continue


@_in_words("the results folder")
def take_results(results: str | Path) -> None:
    """Say that this checkout is at work in a results folder; several runs of one checkout may be.

    Snakemake's locks lie in the working directory, so two checkouts do not see each other's. Raises StageError while
    another checkout is at work there; tells when another one was before.
    """
    if flock is None:
        return
    path = Path(results) / ".lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("a+", encoding="utf-8")
    alone = _taken(file, LOCK_EX) is not False
    file.seek(0)
    owner = _owner(file.read())
    if owner.get("checkout") not in (None, str(ROOT)):
        if not alone:
            raise StageError(
                f"{results}: in use by the checkout {owner['checkout']} (process {owner.get('process')} on "
                f"{owner.get('host')}); wait for it, or give another folder: --config results=..."
            )
        print(
            f"{results}: last used by the checkout {owner['checkout']}; what other code than this one's made is stale",
            file=sys.stderr,
        )
    if alone:
        file.truncate(0)
        json.dump({"checkout": str(ROOT), "process": os.getpid(), "host": platform.node()}, file)
        file.flush()
    _hold(path, file)


def alone(results: str | Path) -> bool:
    """Whether no other run is at work in a results folder that this process has taken."""
    file = _held.get(str((Path(results) / ".lock").absolute()))
    if flock is None or file is None:
        return False
    found = _taken(file, LOCK_EX) is True
    _taken(file, LOCK_SH)  # also after a refusal, which gives up the lock that was held
    return found


def _hold(place: Path, file: IO[str]) -> None:
    """Share the lock of a place with whoever may, until this process ends."""
    _taken(file, LOCK_SH)
    _held[str(place.absolute())] = file


def _taken(file: IO[str], kind: int) -> bool | None:
    """Whether the lock could be taken at once; None on a file system without locks, which tells nothing of others."""
    assert flock is not None
    try:
        flock(file, kind | LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _owner(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}
