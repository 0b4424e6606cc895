"""The one screen at the end of a run: what it made, what ran and was kept, what failed and why, what to do next."""

import csv
import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from pipeline.log_files import last_line
from pipeline.remaining import duration
from pipeline.watch import Job, Watch

ROWS = 25  # rows of a table that are shown
LISTED = 12  # paths, or failed jobs, that are named
MIRROR = "track"  # the stage whose result is for another program


@dataclasses.dataclass(frozen=True)
class End:
    """How a run ended, and what the commands of its user are."""

    seconds: float
    log: str  # the whole log of Snakemake
    command: str  # the one that was given
    forced: bool  # it asks for results anew that are there
    browse: str  # the one that shows runs and curves, or nothing


def screen(watch: Watch, end: End, width: int) -> list[str]:
    """The lines of the screen. `width`: of the terminal, in characters; it cuts tables and nothing else."""
    lines = ["", *_made(watch, width), *_counts(watch, end), *_failures(watch)]
    undone = watch.jobs.keys() - watch.seconds.keys()
    if undone:
        again = "goes on from here" + (", once the cause is mended" if watch.failed else "")
        force = "without what forces jobs, it " if end.forced else ""
        lines.append(f"{'next':<9}{end.command}  ({force}{again})")
    elif end.browse:
        lines.append(f"{'next':<9}{end.browse}  (shows runs and curves, under Model training)")
    if end.log and watch.jobs:
        lines.append(f"{'log':<9}{end.log}")
    return lines


def _made(watch: Watch, width: int) -> list[str]:
    """The files that were asked for; of a single table what stands in it."""
    undone = {job.outputs for number, job in watch.jobs.items() if number not in watch.seconds}
    asked = [job for job in watch.asked if job.stage != MIRROR and job.outputs]
    lines = [_paths(job, job.outputs in undone) for job in asked[:LISTED]]
    if len(asked) > LISTED:
        lines.append(f"and {len(asked) - LISTED} more")
    tables = [job for job in asked if job.stage == "tabulate"]
    if len(tables) == 1 and tables[0].outputs not in undone:
        lines += ["", *table(tables[0].outputs[0], width), ""]
    return lines


def _paths(job: Job, undone: bool) -> str:
    """The outputs of a job in one line: those beside the first by their ending alone."""
    first = Path(job.outputs[0])
    if undone:
        partial = first.with_suffix(f".partial{first.suffix}")
        older = "; the one that is there is of an earlier run" if first.exists() else ""
        return f"{first} was not made{older}" + (f"; what there is of it: {partial}" if partial.exists() else "")
    others = [Path(output) for output in job.outputs[1:]]
    beside = [path.suffix for path in others if path.with_suffix("") == first.with_suffix("")]
    return " ".join([str(first), *beside])


def table(path: str | Path, width: int) -> list[str]:
    """The rows of a table's .csv that hold numbers of ours, in aligned columns, as far as they fit; nothing of a file
    that is no such table.
    """
    try:
        with open(path, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except (OSError, ValueError, csv.Error):
        return []
    names = list(rows[0]) if rows else []
    values = [name for name in names if {f"{name} std", f"{name} n"} <= set(names) and any(row[name] for row in rows)]
    ours = [row for row in rows if any(row[name] for name in values)]
    first = [name for name in ("method", "protocol") if name in names]
    first = [name for name in first if name == "method" or len({row[name] for row in ours}) > 1]
    if not (ours and first):
        return []
    columns = [[name, *(row[name] for row in ours[:ROWS])] for name in first]
    columns += [[name, *(_cell(row, name) for row in ours[:ROWS])] for name in values]
    widths = [max(map(len, column)) for column in columns]
    fitting = max((n for n in range(1, len(columns) + 1) if sum(widths[:n]) + 2 * (n - 1) <= width), default=1)
    lines = ["  ".join(f"{cell:<{w}}" for cell, w in zip(line, widths[:fitting], strict=True)).rstrip()
             for line in zip(*columns[:fitting], strict=True)]  # fmt: skip
    hidden = {"rows": (max(0, len(ours) - ROWS), len(ours)), "columns": (len(columns) - fitting, len(columns))}
    told = [f"{count} of {of} {what}" for what, (count, of) in hidden.items() if count]
    if told:
        lines.append(f"(not shown: {', '.join(told)})")
    return lines


def _cell(row: Mapping[str, str], name: str) -> str:
    spread = f" ± {row[f'{name} std']}" if row[f"{name} std"] else ""
    return f"{row[name]}{spread} ({row[f'{name} n']})" if row[name] else ""


def _counts(watch: Watch, end: End) -> list[str]:
    """What ran, was kept, failed, never started; and the seconds that each stage took, over all its jobs."""
    sets = {
        "ran": watch.seconds.keys(),
        "failed": set(watch.failed),
        "stopped": watch.running.keys(),
        "not run": watch.jobs.keys() - watch.seconds.keys() - set(watch.failed) - watch.running.keys(),
    }
    lines = []
    for what, numbers in sets.items():
        if numbers:
            more = f": {len(numbers)} of {len(watch.jobs)} jobs, in {duration(end.seconds)}" if what == "ran" else ""
            lines.append(f"{what:<9}{_by_stage(watch, numbers)}{more}")
    if watch.kept:
        lines.append(f"{'kept':<9}{', '.join(f'{stage} {count}' for stage, count in watch.kept.items())}")
    if not watch.jobs:
        return ["nothing to do: all of this is up to date", *lines]
    if watch.seconds:
        spent = {stage: sum(watch.seconds.get(n, 0) for n in numbers) for stage, numbers in watch.stages().items()}
        lines.append(f"{'seconds':<9}{', '.join(f'{stage} {taken:.0f}' for stage, taken in spent.items() if taken)}")
    return lines


def _by_stage(watch: Watch, numbers: Iterable[int]) -> str:
    counts = Counter(watch.jobs[number].stage for number in numbers)
    return ", ".join(f"{stage} {counts[stage]}" for stage in watch.stages() if counts[stage])


def heading(watch: Watch, number: int) -> str:
    """What stands above the words of a failed job."""
    job = watch.jobs[number]
    return " ".join(
        filter(None, [job.stage, watch.name(number, everything=True), "failed", f"({job.log or 'no log'}):"])
    )


def _failures(watch: Watch) -> list[str]:
    """Each failed job with the last line of its log."""
    lines = []
    for number in watch.failed[:LISTED]:
        lines.append(heading(watch, number))
        if watch.jobs[number].log:
            lines.append(f"  {last_line(watch.jobs[number].log)}")
    if len(watch.failed) > LISTED:
        lines.append(f"and {len(watch.failed) - LISTED} more jobs failed")
    return ["", *lines, ""] if lines else []
