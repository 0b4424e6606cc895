"""A run in one line: its stages, its trainings with epoch and loss, and the time that it still takes."""

import time
from collections.abc import Mapping

from pipeline.log_files import Epoch
from pipeline.remaining import duration
from pipeline.watch import Watch

BETWEEN = " | "


def opening(run: Watch) -> str:
    """What is about to be done."""
    todo = ", ".join(f"{stage} {len(numbers)}" for stage, numbers in run.stages().items())
    kept = f"; up to date: {sum(run.kept.values())}" if run.kept else ""
    return f"jobs to run: {len(run.jobs)} ({todo}){kept}"


def plain(run: Watch, epochs: Mapping[int, Epoch], left: float | None, now: float) -> str:
    """The whole line, with the time of day: for logs."""
    line = BETWEEN.join(filter(None, [_jobs(run), _stages(run, run.stages()), *_trainings(run, epochs), _left(left)]))
    return f"[{time.strftime('%H:%M:%S', time.localtime(now))}] {line}"


def fitting(run: Watch, epochs: Mapping[int, Epoch], left: float | None, width: int) -> str:
    """The line in at most `width` characters. Where it is too long, first the finished stages go, then all trainings
    but one, then the stages in which nothing runs, and last the training and the stages.
    """
    stages, trainings = run.stages(), _trainings(run, epochs)
    open_ones = [stage for stage, numbers in stages.items() if any(n not in run.seconds for n in numbers)]
    at_work = [stage for stage in open_ones if any(n in run.running for n in stages[stage])]
    shorter = [(list(stages), len(trainings)), *((open_ones, n) for n in range(len(trainings), 0, -1))]
    shorter += [(at_work, 1), ([], 1), (at_work, 0), ([], 0)]
    line = ""
    for shown, count in shorter:
        hidden = f"+{len(trainings) - count}" if 0 < count < len(trainings) else ""
        told = [" ".join(filter(None, [BETWEEN.join(trainings[:count]), hidden]))]
        line = BETWEEN.join(filter(None, [_jobs(run), _stages(run, shown), *told, _left(left)]))
        if len(line) <= width:
            return line
    return line[: max(0, width)]


def _jobs(run: Watch) -> str:
    failed = f", {len(run.failed)} failed" if run.failed else ""
    return f"{len(run.seconds)} of {len(run.jobs)} jobs{failed}"


def _stages(run: Watch, shown: Mapping[str, object] | list[str]) -> str:
    stages = run.stages()
    return " ".join(f"{stage} {sum(n in run.seconds for n in stages[stage])}/{len(stages[stage])}" for stage in shown)


def _trainings(run: Watch, epochs: Mapping[int, Epoch]) -> list[str]:
    """Each training at work, those that have told of an epoch first."""
    numbers = sorted((n for n in run.running if run.jobs[n].epochs), key=lambda n: (n not in epochs, n))
    return [
        f"{run.name(n)} epoch {epochs[n].done}/{epochs[n].epochs} loss {epochs[n].loss}" if n in epochs else run.name(n)
        for n in numbers
    ]


def _left(left: float | None) -> str:
    return "" if left is None else f"about {duration(left)} left"
