"""A dry run in few lines: which stages would run and why, and what differs from the settings of the results at hand.

Which jobs run is Snakemake's answer. Which settings differ is read from the records of the results that are there.
"""

import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.plan import Plan
from pipeline.record import StageError, read_json
from pipeline.runs import Run
from pipeline.show import leaves
from pipeline.stages import Stage

# Snakemake's reasons, the ones that say most first -> what they mean
REASONS = {
    "Forced execution": "asked for with --force",
    "Missing output files": "not made yet",
    "Incomplete output files": "begun and never finished",
    "Params have changed": "its settings or code changed",
    "Code has changed": "its command changed",
    "Set of input files has changed": "made from other files",
    "Updated input files": "its files changed",
    "Input files updated by another job": "follows from the stages before it",
}
SILENT = ("all", "write_plan")  # rules that make nothing a person asks for
NOTHING = "nothing to do: all that is asked for is there, made with this code and these settings"
MOST = 20  # lines of differing settings
JOB = re.compile(
    r"^\s*(?:local)?rule (\w+):$(.*?)(?=^\s*(?:local)?rule \w+:$|^Job stats:|\Z)", re.MULTILINE | re.DOTALL
)
REASON = re.compile(r"^\s*reason: (.*)$", re.MULTILINE)


def main(command: Sequence[str], plan: Plan, runs: Iterable[Run]) -> int:
    """Print the preview of snakemake with the words `command`; returns the exit code of its dry run."""
    words = [sys.executable, "-m", "snakemake", *command, "--dry-run"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        print((done.stderr or done.stdout).strip(), file=sys.stderr)
        return done.returncode
    jobs = planned(done.stdout + done.stderr)
    found = differences(plan, runs)
    print("\n".join([*counted(jobs), *told(found)] if jobs or found else [NOTHING]))
    return 0


def planned(text: str) -> list[tuple[str, str]]:
    """(stage, why) of every job in what a dry run printed."""
    jobs = []
    for rule, block in JOB.findall(text):
        stage, given = rule.partition("_")[0] if rule.startswith("tabulate_") else rule, REASON.search(block)
        why = next((why for said, why in REASONS.items() if given and said in given[1]), "see snakemake --dry-run")
        if rule not in SILENT:
            jobs.append((stage, why))
    return jobs


def counted(jobs: Sequence[tuple[str, str]]) -> list[str]:
    """A line for each stage: how many jobs, and how many of them for which reason."""
    lines = [f"{len(jobs)} jobs would run:" if jobs else "no job would run, and what is asked for is stale:"]
    for stage in dict.fromkeys(stage for stage, _ in jobs):
        reasons = Counter(why for name, why in jobs if name == stage)
        several = len(reasons) > 1
        why = ", ".join(f"{count} {why}" if several else why for why, count in reasons.most_common())
        lines.append(f"  {stage:<10}{reasons.total():>5}  {why}")
    return lines


Difference = tuple[str, str, str]  # stage, key, "before -> now"


def differences(plan: Plan, runs: Iterable[Run]) -> dict[Difference, list[str]]:
    """What the records of present results say that the plan does not -> the recipes, data sets, assigners it is of."""
    found: dict[Difference, list[str]] = defaultdict(list)
    seen = set()
    for run in runs:
        for name, owner, file, stage in _stages(plan, run):
            if (name, owner, file) in seen:
                continue
            seen.add((name, owner, file))
            record = _record(Path(plan.results, file), name)
            for key, change in _changes(record, stage) if record else ():
                if owner not in (owners := found[name.partition("/")[0], key, change]):
                    owners.append(owner)
    return found


def _stages(plan: Plan, run: Run) -> Iterator[tuple[str, str, str, Stage]]:
    """(name in its record, what it is of, file of its record below the results, stage) of every stage of a run."""
    stages = plan.stages
    yield "prepare", run.dataset, f"data/{run.dataset}/card.json", stages.prepare(run.dataset)
    yield "train", run.recipe, f"{run.path}/train.json", stages.train(run)
    yield "embed", run.recipe, f"{run.path}/features.json", stages.embed(run)
    for name in plan.runs.assigners(run):
        yield f"assign/{name}", name, f"{run.path}/clusters/{name}.json", stages.assign(run, name)
        yield f"score/{name}", name, f"{run.path}/metrics/clustering/{name}.json", stages.score(run, name)
    for name in plan.runs.probes(run):
        yield f"probe/{name}", name, f"{run.path}/metrics/{name}.json", stages.probe(run, name)


def _record(path: Path, name: str) -> Mapping[str, Any] | None:
    """The record of a stage, None where its result is not there or cannot be read: it is made anew anyhow."""
    try:
        stored = read_json(path)
        return stored["record"] if name == "prepare" else stored["records"][name]
    except (StageError, KeyError, TypeError):
        return None


def _changes(record: Mapping[str, Any], stage: Stage) -> Iterator[tuple[str, str]]:
    """(key, "before -> now") of every setting that differs, and of the code."""
    before, now = (dict(leaves(settings)) for settings in (record.get("settings", {}), stage.settings))
    for keys in [*before, *(keys for keys in now if keys not in before)]:
        if before.get(keys) != now.get(keys):
            yield ".".join(keys), f"{_text(before, keys)} -> {_text(now, keys)}"
    if record.get("code") != stage.code:
        yield "code", "changed"


def _text(settings: Mapping[tuple[str, ...], Any], keys: tuple[str, ...]) -> str:
    return str(settings[keys]) if keys in settings else "none"


def told(found: Mapping[Difference, list[str]]) -> list[str]:
    """The differences in lines, the settings before the code."""
    lines = [
        f"  {stage} {_some(owners)}: {key} {change}"
        for (stage, key, change), owners in sorted(found.items(), key=lambda item: item[0][1] == "code")
    ]
    more = [f"  and {len(lines) - MOST} more"] if len(lines) > MOST else []
    return ["unlike the results that are there:", *lines[:MOST], *more] if lines else []


def _some(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
