"""How long a run will still take, from what jobs like its own were measured to take.

Measured are the jobs that have finished in this run, its running trainings (from the epochs in their logs), and what
the records in the results folder say of earlier ones. A training like which none was measured makes the time unknown.
"""

import collections
import heapq
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.log_files import Epoch
from pipeline.watch import Job, Watch

START = 4.0  # seconds until a process has begun, with PyTorch loaded, which records leave out
# Where the records of a run's stages lie; those of one evaluation are made by one job.
RECORDS = {
    "train": "train.json",
    "embed": "features.json",
    "mine": "neighbours/*.json",
    "assign": "clusters/*.json",
    "evaluate": "metrics/**/*.json",
}

Like = tuple[str, ...]


class Samples:
    """Seconds that jobs took, each under every kind that a job like it may be looked for by.

    Trainings count by epochs, so that one recipe tells of another; all other jobs count as they are. `others`: samples
    to begin with, each `times` as long.
    """

    def __init__(self, others: "Samples | None" = None, times: float = 1.0) -> None:
        self._sums: dict[Like, tuple[float, int]] = {}
        if others is not None:
            self._sums = {like: (total * times, units) for like, (total, units) in others._sums.items()}

    def add(self, stage: str, wildcards: Mapping[str, str], seconds: float, epochs: int | None = None) -> None:
        """One measured job, from the start of its process to the end; `epochs` of a training."""
        work = 1 if epochs is None else epochs
        seconds = seconds if epochs is None else max(0.0, seconds - START)
        for like in alike(stage, wildcards) if work else ():
            total, units = self._sums.get(like, (0.0, 0))
            self._sums[like] = total + seconds, units + work

    def mean(self, like: Like) -> float | None:
        """Seconds of a job of one kind, of a training for each epoch; None where none was measured."""
        total, units = self._sums.get(like, (0.0, 0))
        return total / units if units else None


def alike(stage: str, wildcards: Mapping[str, str]) -> list[Like]:
    """Kinds of jobs that a job is one of, from the narrowest to the whole stage."""
    keys = [("dataset", "protocol", "recipe", "assigner"), ("dataset", "recipe"), ("dataset",), ()]
    return [(stage, *(f"{key}={wildcards.get(key, '')}" for key in some)) for some in keys]


def expected(job: Job, sources: list[Samples]) -> float | None:
    """What a job will take: the mean of the narrowest kind that any of the sources knows, the first before the others.
    A stage that nobody measured takes as long as a process needs to begin; such a training nobody knows how long.
    """
    if job.epochs == 0:
        return START
    for like in alike(job.stage, job.wildcards):
        for samples in sources:
            if (mean := samples.mean(like)) is not None:
                return mean if job.epochs is None else START + mean * job.epochs
    return START if job.epochs is None else None


def recorded(results: str | Path) -> Samples:
    """What the records in a results folder say. A file that cannot be read says nothing."""
    samples = Samples()
    for run in Path(results).glob("runs/*/*/*/seed*"):
        wildcards = dict(zip(("dataset", "protocol", "recipe"), run.parts[-4:-1], strict=True))
        for stage, files in RECORDS.items():
            told = {path: record for path in run.glob(files) if (record := _last_record(path))}
            seconds = {path: START + record["seconds"] for path, record in told.items()}
            if stage == "evaluate" and told:
                samples.add(stage, wildcards, sum(seconds.values()) - START * (len(told) - 1))
            elif stage != "evaluate":
                for path, record in told.items():
                    more = {"assigner": path.stem} if stage == "assign" else {}
                    epochs = int(record.get("epochs", 0)) if stage == "train" else None
                    samples.add(stage, wildcards | more, seconds[path], epochs)
    return samples


def _last_record(path: Path) -> dict[str, Any] | None:
    """The last record in a file of records, its `seconds` those of a resumed training all in all."""
    try:
        record = list(json.loads(path.read_text(encoding="utf-8"))["records"].values())[-1]
        return record | {"seconds": float(max(record["seconds"], record.get("training_seconds") or 0))}
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError):
        return None


def forecast(
    run: Watch, epochs: Mapping[int, Epoch], here: Samples, records: Samples, capacity: Mapping[str, int], now: float
) -> float | None:
    """Seconds until the run is over, None where no training tells how long another one takes.

    `epochs`: how far trainings at work have come, which counts as measured; `here`: what jobs of this run took;
    `records`: what jobs of earlier runs took, on a machine that may have been faster or slower.
    """
    told, earlier = Samples(), Samples(records, pace(run, records, now))
    for number, epoch in epochs.items():
        job = run.jobs[number]
        if epoch.each is not None:
            told.add(job.stage, job.wildcards, START + epoch.each * epoch.epochs, epoch.epochs)
    never = set(run.failed)
    while more := {n for n, job in run.jobs.items() if n not in never and job.needs & never}:
        never |= more
    jobs = {number: job for number, job in run.jobs.items() if number not in run.seconds and number not in never}
    takes = {number: expected(job, [here, told, earlier]) for number, job in jobs.items()}
    running = {}
    for number in run.running.keys() & jobs.keys():
        took = takes[number]
        if number in epochs:
            running[number] = takes[number] = epochs[number].left
        elif took is not None:
            running[number] = max(0.0, took - (now - run.running[number]))
    if None in takes.values():
        return None
    return makespan(jobs, running, {n: took for n, took in takes.items() if took is not None}, capacity)


def pace(run: Watch, records: Samples, now: float) -> float:
    """How many times as long as by the records the jobs of this run take: those done, and those overdue by now."""
    taken = dict(run.seconds)
    taken |= {number: now - begun for number, begun in run.running.items()}
    sums = [0.0, 0.0]
    for number, seconds in taken.items():
        before = expected(run.jobs[number], [records])
        if before is not None and (number in run.seconds or seconds > before):
            sums = [sums[0] + seconds, sums[1] + before]
    return sums[0] / sums[1] if sums[1] else 1.0


def makespan(
    jobs: Mapping[int, Job], running: Mapping[int, float], seconds: Mapping[int, float], capacity: Mapping[str, int]
) -> float:
    """Seconds until all jobs are done when each starts as soon as what it needs is done and what it uses is free.

    `jobs`: what is not done yet; `running`: seconds that those at work still take; `seconds`: what the others take.
    """
    free = dict(capacity)
    waiting = {number: {need for need in job.needs if need in jobs} for number, job in jobs.items()}
    after: dict[int, list[int]] = collections.defaultdict(list)
    for number, needs in waiting.items():
        for need in needs:
            after[need].append(number)
    # Jobs that use the same queue up together: only the first of each queue has to be looked at.
    queues: dict[tuple[tuple[str, int], ...], collections.deque[int]] = collections.defaultdict(collections.deque)
    ends: list[tuple[float, int]] = []
    now = 0.0

    def start(number: int, takes: float) -> None:
        for name, value in _uses(jobs[number], free):
            free[name] -= value
        heapq.heappush(ends, (now + takes, number))

    for number, needs in waiting.items():
        if number in running:
            start(number, running[number])
        elif not needs:
            queues[_uses(jobs[number], free)].append(number)
    while True:
        for uses, queue in queues.items():
            while queue and (not ends or all(value <= free[name] for name, value in uses)):
                number = queue.popleft()
                start(number, seconds[number])
        if not ends:
            return now
        now, done = heapq.heappop(ends)
        for name, value in _uses(jobs[done], free):
            free[name] += value
        for number in after[done]:
            waiting[number].discard(done)
            if not waiting[number] and number not in running:
                queues[_uses(jobs[number], free)].append(number)


def _uses(job: Job, capacity: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((name, value) for name, value in (job.uses or {}).items() if value and name in capacity))


def duration(seconds: float) -> str:
    """A time in words, as exact as a person needs it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
