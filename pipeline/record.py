"""What a stage REALLY ran, written beside its result, and the one way in which stages write files.

Snakemake decides from its own notes what is stale. Those notes can be lost, and configuration can change while a
cluster run is going, so every stage keeps a second account: its code hash, settings, seed and the fingerprints of its
inputs, taken in the job itself. The table stage compares that account with what it expects (report/tables.py).
"""

import contextlib
import datetime
import errno
import functools
import hashlib
import importlib.metadata
import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from pipeline.provenance import ROOT, code_version, fingerprint

CHECKSUM = "checksum"  # key of every JSON object that a stage writes
# A training with one of these statuses has features worth clustering; what became of it stands in the table's notes.
EVALUABLE = ("ok", "untaught")
RECORDED_VERSIONS = ("torch", "torchvision", "numpy", "scipy", "scikit-learn", "faiss-cpu", "umap-learn")


class Record:
    """Account of one stage, begun when the stage starts and finished when its result is known."""

    def __init__(
        self,
        stage: str,
        roots: tuple[str, ...],
        settings: Mapping[str, Any],
        inputs: Mapping[str, str],
        seed: int | None = None,
    ):
        """`roots`: modules whose code counts; `settings`: JSON-serialisable; `inputs`: name -> upstream fingerprint."""
        self._begun = time.perf_counter()
        code = code_version(*roots)
        self.facts: dict[str, Any] = {
            "stage": stage,
            "code": code,
            "settings": dict(settings),
            "seed": seed,
            "inputs": dict(inputs),
            "fingerprint": stage_fingerprint(stage, code, settings, inputs, seed),
        }

    def finish(self, status: str = "ok", **more: Any) -> dict[str, Any]:
        """The finished account; `status` is "ok" or a named failure such as "diverged"."""
        return {
            **self.facts,
            "status": status,
            **more,
            "seconds": round(time.perf_counter() - self._begun, 3),
            "ended": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            **surroundings(),
        }


def stage_fingerprint(
    stage: str, code: str, settings: Mapping[str, Any], inputs: Mapping[str, str], seed: int | None
) -> str:
    """One number for "this stage with this code, these settings, this seed and these inputs"."""
    return fingerprint(stage=stage, code=code, settings=dict(settings), inputs=dict(inputs), seed=seed)


@functools.lru_cache(maxsize=1)
def surroundings() -> dict[str, Any]:
    """Machine, versions and source state of this process. None of it makes a result stale."""
    lock = ROOT / "requirements.lock"
    versions = {"python": platform.python_version()}
    for name in RECORDED_VERSIONS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return {
        "versions": versions,
        "lock": hashlib.sha256(lock.read_bytes()).hexdigest()[:12] if lock.is_file() else None,
        "git": _git(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "processor": processor(),
        "threads": os.environ.get("OMP_NUM_THREADS"),
    }


def processor(described: str | Path = "/proc/cpuinfo") -> str:
    """The kind of processor that last bits depend on: maker and widest vectors where Linux tells them."""
    with contextlib.suppress(OSError):
        lines = Path(described).read_text(encoding="utf-8", errors="replace").splitlines()
        fields = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        flags = fields.get("flags", "").split()
        widest = next((name for name in ("avx512f", "avx2", "avx") if name in flags), "")
        if maker := fields.get("vendor_id"):
            return f"{maker} {widest}".strip()
    return platform.processor() or platform.machine()


def _git() -> dict[str, Any] | None:
    def ask(*words: str) -> str:
        return subprocess.run(
            ["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()

    try:
        return {"commit": ask("rev-parse", "HEAD"), "dirty": bool(ask("status", "--porcelain", "--untracked-files=no"))}
    except (OSError, subprocess.SubprocessError):
        return None  # a copy without history


@contextlib.contextmanager
def whole(path: str | Path, mode: str = "wb") -> Iterator[IO[Any]]:
    """Write a file that appears whole or not at all: temporary name, flush to disk, rename."""
    path = Path(path)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = {} if "b" in mode else {"encoding": "utf-8", "newline": ""}
        with part.open(mode, **text) as file:  # type: ignore[call-overload]
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as problem:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise StageError(f"{path}: cannot be written: {of_system(problem)}") from None
    except BaseException:
        part.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def reading(path: str | Path) -> Iterator[None]:
    """While a file that a stage wrote is read: where it is missing or cannot be read, the error says what to do."""
    try:
        yield
    except FileNotFoundError:
        raise Damaged(f"{path}: not found; run the stage that writes it, or ask snakemake for it") from None
    except OSError as problem:
        raise Damaged(f"{path}: cannot be read: {of_system(problem)}") from None


def write_json(path: str | Path, value: Any) -> None:
    """Write `value` as readable JSON, whole or not at all; an object with a checksum, which `read_json` looks at."""
    if isinstance(value, dict):
        value = {**value, CHECKSUM: fingerprint(of=value)}
    with whole(path, "w") as file:
        json.dump(value, file, indent=1, ensure_ascii=False, allow_nan=False)
        file.write("\n")


def read_json(path: str | Path) -> Any:
    """Read a JSON file that a stage wrote; a missing or broken one is an error that says what to do.

    A file without a checksum is believed as it is: not every one is from `write_json`.
    """
    path = Path(path)
    try:
        with reading(path):
            text = path.read_text(encoding="utf-8")
        value = json.loads(text, parse_constant=_no_number)
        held = not isinstance(value, dict) or value.pop(CHECKSUM, None) in (None, fingerprint(of=value))
    except ValueError as problem:
        raise StageError(f"{path}: not valid JSON ({problem}); delete it and run its stage again") from None
    if not held:
        raise Damaged(f"{path}: its content is not what was written; delete it and run its stage again")
    return value


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number that a stage writes")


def read_records(path: str | Path, *needed: str) -> dict[str, Any]:
    """The records of the stages up to one, from the JSON file that it wrote; StageError for a file of another kind, or
    without the records of the stages `needed`.
    """
    stored = read_json(path)
    records = stored.get("records") if isinstance(stored, dict) else None
    if not isinstance(records, dict) or not all(isinstance(record, dict) for record in records.values()):
        raise StageError(f"{path}: no records of stages in it; delete it and run its stage again")
    for stage in needed:
        if stage not in records:
            raise StageError(
                f"{path}: no record of stage {stage}, only of {', '.join(records)}: it is of another stage; delete it "
                "and run its stage again"
            )
    return records


def sha256(path: str | Path) -> str:
    """Hash of a file's content, 64 hex digits."""
    with reading(path), open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hashes(*paths: Path) -> dict[str, str]:
    """File name -> hash of its content: what a stage says in its record of the files that it wrote."""
    return {path.name: sha256(path) for path in paths}


def verified(path: str | Path, record: Mapping[str, Any]) -> Path:
    """The path of a file that is still what the record of its stage says. Raises StageError for any other content."""
    path = Path(path)
    found, expected = sha256(path), record.get("files", {}).get(path.name, "no hash")
    if found != expected:
        raise Damaged(
            f"{path}: sha256 {found[:12]} found, {expected[:12]} in the record of its stage: the file was damaged, "
            "changed, or is of another run; delete it and run its stage again"
        )
    return path


class StageError(Exception):
    """Something a user can mend. The message names the file or key, what was found, what was expected, and the cure."""


class Damaged(StageError):
    """A file that is missing, cannot be read, or is not what its record says: never a result, always an error."""


# What a user can do about an error of the operating system.
CURES = {
    errno.ENOSPC: "free space on that disk, then run the same command again",
    errno.EDQUOT: "free space in your quota, then run the same command again",
    errno.EROFS: "the disk can only be read; give another folder: --config results=...",
    errno.EACCES: "change its permissions, or give another folder: --config results=...",
    errno.EPERM: "change its permissions, or give another folder: --config results=...",
    errno.EMFILE: "too many files are open; raise the limit with `ulimit -n`",
    errno.ENFILE: "too many files are open on this machine; wait, or ask its administrator",
    errno.EIO: "the disk does not answer as it should; check it, or use another",
    errno.ESTALE: "the network disk was unmounted under it; run the same command again",
}


def of_system(problem: OSError) -> str:
    """An error of the operating system in words, with what to do about it."""
    said = problem.strerror or str(problem) or type(problem).__name__
    return f"{said}; {CURES.get(problem.errno or 0, 'mend that, then run the same command again')}"


def run_stage(main: Callable[[], None]) -> None:
    """Run a stage's main function; what a user can mend ends as one clear line and exit status 1, not a traceback."""
    end_with_the_run()
    try:
        main()
    except StageError as problem:
        _end(str(problem))
    except OSError as problem:
        _end(f"{problem.filename or 'input or output'}: {of_system(problem)}")
    except MemoryError:
        _end("not enough memory: give the job more (mem_mb), or lower the batch size or the rows of the data set")
    except RuntimeError as problem:
        if "shared memory" not in str(problem) and "DataLoader worker" not in str(problem):
            raise
        _end(
            f"workers that decode images ran out of memory or shared memory ({' '.join(str(problem).split())[:200]}): "
            "set BENCH_WORKERS to fewer (0: none), or give /dev/shm more room"
        )


def _end(message: str) -> None:
    print(f"error: {message}", file=sys.stderr)
    sys.exit(1)


def end_with_the_run() -> None:
    """End this process soon after the snakemake process that started it died: killed runs leave no orphans behind.

    BENCH_MAIN is that process ("host:number"). SIGTERM, so that a training saves its state before.
    """
    host, _, number = os.environ.get("BENCH_MAIN", "").rpartition(":")
    if host != platform.node() or not number.isdigit():
        return

    def watch() -> None:
        while True:
            time.sleep(1)
            try:
                os.kill(int(number), 0)
            except ProcessLookupError:
                os.kill(os.getpid(), signal.SIGTERM)
                return
            except OSError:
                return

    threading.Thread(target=watch, daemon=True).start()
