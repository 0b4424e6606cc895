"""What a stage REALLY ran, written beside its result, and the one way in which stages write files.

Snakemake decides from its own notes what is stale. Those notes can be lost, and configuration can change while a
cluster run is going, so every stage keeps a second account: its code hash, settings, seed and the fingerprints of its
inputs, taken in the job itself. The table stage compares that account with what it expects (report/tables.py).
"""

import contextlib
import datetime
import functools
import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from pipeline.provenance import ROOT, code_version, fingerprint

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
        "threads": os.environ.get("OMP_NUM_THREADS"),
    }


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
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        text = {} if "b" in mode else {"encoding": "utf-8", "newline": ""}
        with part.open(mode, **text) as file:  # type: ignore[call-overload]
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write_json(path: str | Path, value: Any) -> None:
    """Write `value` as readable JSON, whole or not at all."""
    with whole(path, "w") as file:
        json.dump(value, file, indent=1, ensure_ascii=False, allow_nan=False)
        file.write("\n")


def read_json(path: str | Path) -> Any:
    """Read a JSON file that a stage wrote; a missing or broken one is an error that says what to do."""
    path = Path(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StageError(f"{path}: not found; run the stage that writes it, or ask snakemake for it") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as problem:
        raise StageError(f"{path}: not valid JSON ({problem}); delete it and run its stage again") from None


class StageError(Exception):
    """Something a user can mend. The message names the file or key, what was found, what was expected, and the cure."""


def run_stage(main: Callable[[], None]) -> None:
    """Run a stage's main function; what a user can mend ends as one clear line and exit status 1, not a traceback."""
    try:
        main()
    except StageError as problem:
        print(f"error: {problem}", file=sys.stderr)
        sys.exit(1)
