"""What becomes of the jobs of one run, from the events that Snakemake logs."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

SILENT = ("all", "write_plan")  # rules that make nothing a person asks for
NAMED = ("recipe", "dataset", "protocol", "seed", "assigner", "figure")  # wildcards that tell jobs of a stage apart


@dataclass(frozen=True)
class Job:
    """One job, as far as a person wants to know of it."""

    stage: str
    wildcards: Mapping[str, str]
    log: str
    outputs: tuple[str, ...]
    needs: frozenset[int] = frozenset()  # jobs of this run that must be done before
    uses: Mapping[str, int] | None = None  # of what there is a limited number of: cores, GPUs, jobs on a cluster
    epochs: int | None = None  # of a training


class Watch:
    """The jobs of a run by Snakemake's numbers, and which run, have finished, or have failed.

    `kept`: stage -> jobs whose results were there already. `asked`: what nothing else in the run needs, so its aim.
    """

    def __init__(self, jobs: Mapping[int, Job], kept: Mapping[str, int], asked: Iterable[Job]):
        self.jobs, self.kept, self.asked = dict(jobs), dict(kept), list(asked)
        self.running: dict[int, float] = {}  # number -> when it began
        self.seconds: dict[int, float] = {}  # number -> what a finished one took
        self.failed: list[int] = []
        self.stopped = False  # by its user: what ends now with an error is no failure
        values = {key: {job.wildcards.get(key) for job in self.jobs.values()} - {None} for key in NAMED}
        self._told = [key for key in NAMED if len(values[key]) > 1 or key == "recipe"]

    def see(self, event: str, facts: Mapping[str, Any], now: float) -> Job | None:
        """Take note of an event; the job that it ended well, if any. A job that is tried again is no failure."""
        number = facts.get("jobid", facts.get("job_id"))
        if number not in self.jobs:
            return None
        if event == "job_info":
            self.running[number] = now
            if number in self.failed:
                self.failed.remove(number)
        elif event == "job_finished":
            self.seconds[number] = now - self.running.pop(number, now)
            return self.jobs[number]
        elif event == "job_error" and not self.stopped:
            self.running.pop(number, None)
            if number not in self.failed:
                self.failed.append(number)
        return None

    def stages(self) -> dict[str, list[int]]:
        """Stage -> numbers of its jobs, in the order in which the jobs are given."""
        stages: dict[str, list[int]] = {}
        for number, job in self.jobs.items():
            stages.setdefault(job.stage, []).append(number)
        return stages

    def name(self, number: int, everything: bool = False) -> str:
        """What a job is called: of its wildcards those in which jobs of this run differ, or all."""
        wildcards = self.jobs[number].wildcards
        shown = [key for key in (NAMED if everything else self._told) if key in wildcards]
        return " ".join(f"seed{wildcards[key]}" if key == "seed" else wildcards[key] for key in shown)


def watch(dag: Any, rules: Iterable[str]) -> Watch:
    """What Snakemake is about to do. `rules`: names in the order in which they stand in the Snakefile."""
    order = {name: place for place, name in enumerate(rules)}
    everything = sorted(
        (job for job in dag.jobs if job.rule.name not in SILENT), key=lambda job: (order[job.rule.name], dag.jobid(job))
    )
    needed = {dag.jobid(job): job for job in everything if dag.needrun(job)}
    jobs = {}
    for number, job in needed.items():
        needs = frozenset(dag.jobid(other) for other in dag.dependencies[job] if dag.needrun(other))
        uses = {name: value for name, value in job.scheduler_resources.items() if isinstance(value, int)}
        jobs[number] = _job(job, needs & needed.keys(), uses)
    kept = Counter(_stage(job.rule.name) for job in everything if not dag.needrun(job))
    aims = [job for job in everything if all(other.rule.name in SILENT for other in dag.depending[job])]
    return Watch(jobs, kept, [_job(job) for job in aims])


def _job(job: Any, needs: frozenset[int] = frozenset(), uses: Mapping[str, int] | None = None) -> Job:
    log = str(job.log[0]) if job.log else ""
    epochs = json.loads(job.params.recipe)["schedule"]["epochs"] if job.rule.name == "train" else None
    return Job(_stage(job.rule.name), dict(job.wildcards_dict), log, tuple(map(str, job.output)), needs, uses, epochs)


def _stage(rule: str) -> str:
    """The stage of a rule: each table has one of its own."""
    return "tabulate" if rule.startswith("tabulate_") else rule
