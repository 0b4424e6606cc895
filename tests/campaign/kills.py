"""Kills at random moments: of stages, and of snakemake itself. Then the same command again."""

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable

import psutil

from tests.campaign.case import Case, Outcome, Setting, require
from tests.campaign.site import LIMIT, QUIET, Running, Site, begun_by, line, require_no_orphans

KILLS = 20
JOBS = 3  # up to so many jobs are finished between two kills: the suite has 42
# Of one run. Where a stage alone is killed, the run makes all that does not need it before it ends.
VICTIMS = [["snakemake"]] * 3 + [["stage", "snakemake"]] * 3 + [["stage"]]
FINISHED = "Finished jobid"
REMOVED = "its lock is removed"


def killed_once(setting: Setting) -> Outcome:
    """Snakemake is killed in a training, and the same command given at once, while the training may still live."""
    expected, site = Site(setting.finished).table(), Site.copy(setting.finished, setting.folder)
    site.without("untrained")
    running = site.start(*QUIET)
    _until(running, lambda: bool(running.stages()))
    running.process.send_signal(signal.SIGKILL)
    running.wait()
    said = site.made(*QUIET)
    site.require_table(expected)
    outcome = Outcome(f"the same bytes; the training ended within {require_no_orphans(running.process.pid):.1f} s more")
    outcome.tell(line(said, REMOVED))
    return outcome


def killed_and_rerun(setting: Setting) -> Outcome:
    """One project is killed again and again while it comes nearer to its table; a finished one begins anew."""
    expected, site = Site(setting.finished).table(), Site.copy(setting.finished, setting.folder, results=False)
    outcome, chance = Outcome(), setting.chance
    done = dict.fromkeys(("snakemake", "stage", "tables", "at once"), 0)
    slowest, leftover = 0.0, 0  # process number of the snakemake that was killed last, if its stages may still live
    while done["snakemake"] + done["stage"] < KILLS:
        running = site.start(*QUIET)
        killed = [what for what in chance.choice(VICTIMS) if _kill(running, what, chance)]
        if leftover:
            slowest, leftover = max(slowest, require_no_orphans(leftover)), 0
        said = _said_without_defects(running)
        outcome.tell(line(said, REMOVED)) if REMOVED in said else None
        for what in killed:
            done[what] += 1
        if "snakemake" in killed and chance.random() < 0.5:
            done["at once"], leftover = done["at once"] + 1, running.process.pid
        elif "snakemake" in killed:
            slowest = max(slowest, require_no_orphans(running.process.pid))
        elif killed:
            require(running.process.returncode != 0, "a run whose stage was killed ended as if it had not been")
            outcome.tell(line(said, r"Error in rule \w+"))
        else:
            require(running.process.returncode == 0, f"exit status {running.process.returncode}: {said[-1500:]}")
            site.require_table(expected)
            done["tables"] += 1
            _begin_anew(site)
    site.made(*QUIET)
    site.require_table(expected)
    outcome.seen = (
        f"{done['snakemake']} kills of snakemake ({done['at once']} run again at once), {done['stage']} of stages; "
        f"{done['tables'] + 1} tables, each with the bytes of an unbroken run; stages ended within {slowest:.1f} s"
    )
    return outcome


def _said_without_defects(running: Running) -> str:
    """What a run said that was killed, or whose stage was."""
    said = running.wait()
    require("Traceback (most recent call last)" not in said, f"a traceback: {said[-1500:]}")
    require("cannot be locked" not in said, "the run after a kill was refused by a lock")
    return said


def _kill(running: Running, what: str, chance: random.Random) -> bool:
    """Kill snakemake or one of its stages at a random moment. False where the run was over before."""
    jobs, moment, begun = chance.randint(0, JOBS), chance.uniform(0.0, 3.0), running.said().count(FINISHED)
    # Without a job to wait for, even before it has begun: while it takes its locks.
    _until(running, lambda: running.said().count(FINISHED) >= begun + jobs)
    time.sleep(moment)
    number = chance.random()
    if what == "stage":
        _until(running, lambda: bool(running.stages()))
    found = sorted(running.stages(), key=lambda process: process.pid) if what == "stage" else []
    if running.process.poll() is not None or (what == "stage" and not found):
        return False
    victim = found[int(number * len(found))].pid if found else running.process.pid
    try:
        os.kill(victim, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _until(running: Running, what: Callable[[], bool]) -> None:
    """Wait until something is so, or the run is over."""
    end = time.monotonic() + LIMIT
    while not what() and running.process.poll() is None and time.monotonic() < end:
        time.sleep(0.05)


def _begin_anew(site: Site) -> None:
    for folder in ("runs", "data", ".resume", ".plan"):
        for path in sorted((site.results / folder).rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
    site.without_table()


def preempted(setting: Setting) -> Outcome:
    """SIGTERM for a whole run, as at the end of a reservation; a training saves its state and goes on from there."""
    expected, site = Site(setting.finished).table(), Site.copy(setting.finished, setting.folder)
    site.without("mixem")
    running = site.start(*QUIET)
    _until(running, lambda: bool(running.stages()))
    time.sleep(setting.chance.uniform(2, 4))  # imports take most of it
    for process in [*begun_by(running.process.pid)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGTERM)
    running.process.send_signal(signal.SIGTERM)
    running.wait()
    require_no_orphans(running.process.pid)
    site.made(*QUIET)
    site.require_table(expected)
    outcome = Outcome("stages and snakemake got SIGTERM in a training; run again: the same bytes")
    said = running.said()
    outcome.tell(line(said, "state saved" if "state saved" in said else r"Error in rule|Terminating|Complete log"))
    return outcome


CASES = [
    Case(
        "kills", f"SIGKILL of snakemake or a stage at {KILLS} random moments, then the same command", killed_and_rerun
    ),
    Case("killed-in-training", "SIGKILL of snakemake in a training, then the same command at once", killed_once),
    Case("preemption", "SIGTERM to snakemake and to its stages during a training, then the same command", preempted),
]
