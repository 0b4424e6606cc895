"""The last words of a stage's log: what a person is told while it runs, and when it has failed."""

import re
from dataclasses import dataclass
from pathlib import Path

TAIL = 8192  # bytes of a log that are looked at
LONGEST = 300  # characters of its last line that are told
COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# What training/progress.py prints where there is no terminal.
EPOCH = re.compile(r"^epoch (\d+)/(\d+) (?:.* )?total (\S+) (?:.* )?left (\d+) s$", re.MULTILINE)


@dataclass(frozen=True)
class Epoch:
    """How far a training has come."""

    done: int
    epochs: int
    loss: str  # as it was printed, with its sign
    left: float  # seconds that it takes from now on
    each: float | None  # seconds of an epoch; None after the last one


def tail(log: str | Path) -> str:
    """The end of a log, without colours. Raises OSError where it cannot be read."""
    path = Path(log)
    with open(path, "rb") as file:
        file.seek(max(0, path.stat().st_size - TAIL))
        return COLOURS.sub("", file.read().decode("utf-8", errors="replace"))


def last_line(log: str | Path) -> str:
    """The last line of a log that is not blank, or in words why there is none."""
    try:
        lines = [line.strip() for line in tail(log).splitlines()]
    except OSError as problem:
        return f"its log cannot be read: {problem.strerror}"
    last = next((line for line in reversed(lines) if line), "its log is empty, as of a job that was killed")
    return last if len(last) <= LONGEST else f"{last[:LONGEST]}..."


def last_lines(log: str | Path, count: int) -> list[str]:
    """The last lines of a log that are not blank, where it can be read."""
    try:
        lines = [line.rstrip() for line in tail(log).splitlines() if line.strip()]
    except OSError:
        return []
    return lines[-count:]


def last_epoch(log: str | Path, since: float, now: float) -> Epoch | None:
    """The last epoch that a training's log tells of; None before the first, or where the log is of before `since`
    (both in seconds since 1970): of an earlier run, whose job has not begun to write yet.
    """
    try:
        told = Path(log).stat().st_mtime
        found = EPOCH.findall(tail(log)) if told >= since else []
    except OSError:
        return None
    if not found:
        return None
    loss = found[-1][2]
    done, epochs, left = (int(found[-1][place]) for place in (0, 1, 3))
    return Epoch(done, epochs, loss, max(0.0, left - (now - told)), left / (epochs - done) if epochs > done else None)


def notes(log: str | Path, everything: bool) -> list[str]:
    """What the log of a finished job says to its user: its warnings, or all of it."""
    try:
        lines = (Path(log).read_text(encoding="utf-8", errors="replace") if everything else tail(log)).splitlines()
    except OSError:
        return []
    return [line for line in lines if line.strip() and (everything or line.startswith("warning: "))]
