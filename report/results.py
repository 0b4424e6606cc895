"""Results of single runs, as tables read them: what may be printed, what must be said beside it, and what may not be.

A result is printed only if its whole chain of records is the one that the plan expects.
"""

import math
import os
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.record import StageError, read_json
from report.causes import cause, undone
from report.contents import read_result_file

NOT_RUN, STALE, UNREADABLE = "not run", "stale", "unreadable"
LONGEST = 300  # characters of what is said of an unreadable file


@dataclass(frozen=True)
class Problem:
    """Why a run's result is not printed."""

    folder: str
    kind: str  # "not run", "stale", "unreadable", "diverged", or the status that its record gives
    reason: str  # in words, without the folder
    stage: str = ""  # the first whose record differs from the plan
    outputs: tuple[str, ...] = ()  # what to make anew so that it can be printed; nothing where that would not help

    def __str__(self) -> str:
        return f"{self.folder}: {self.reason}"


@dataclass(frozen=True)
class Read:
    """A result that may be printed: its numbers, the splits it was fitted on, the records of its stages by name."""

    result: dict[str, Any]
    fitted_on: str
    records: Mapping[str, Any]

    @property
    def train(self) -> Mapping[str, Any]:
        """The record of its training."""
        return self.records["train"]


def read_result(run: Mapping[str, Any], spec: Mapping[str, Any], metrics: Iterable[str]) -> Read | Problem:
    """The result of a run for one row, those of `metrics` that it has being numbers, or what keeps it from being
    printed.
    """
    folder, key = run["folder"], f"clustering/{spec['assigner']}" if "assigner" in spec else spec["probe"]
    path = Path(folder, "metrics", f"{key}.json")
    if not path.is_file():
        return Problem(folder, NOT_RUN, _with_cause(NOT_RUN, run), outputs=_to_mend(run))
    try:
        stored = read_result_file(folder, key)
    except StageError as problem:
        return unreadable(run, str(problem))
    records, result = stored["records"], stored["result"]
    for stage, (fingerprint, code) in run["expected"].items():
        record = records.get(stage)
        if record is None or record["fingerprint"] != fingerprint:
            why = (
                "was never recorded"
                if record is None
                else ("ran with other code" if record["code"] != code else "ran with other settings, seed or inputs")
            )
            reason = _with_cause(f"{STALE}, stage {stage} {why}", run)
            return Problem(folder, STALE, reason, stage, _to_mend(run))
    if other := _other_data(run, records):
        return Problem(folder, STALE, _with_cause(f"{STALE}, {other}", run), "prepare", _to_mend(run))
    train = records["train"]
    if train["status"] == "diverged":
        where = train["diverged"]
        return Problem(folder, "diverged", f"diverged in epoch {where['epoch']}, term {where['term']}")
    if result["status"] != "ok":
        said = result["status"].replace("_", " ")
        reason = f"{said}: {result['reason']}" if result.get("reason") else said
        return Problem(folder, said, reason, outputs=_to_mend(run) if said == "failed" else ())
    if spec.get("seen"):
        result = result.get("seen", {})
    fitted = records[f"assign/{spec['assigner']}"] if "assigner" in spec else records[f"probe/{key}"]
    splits = fitted["settings"]["protocol"]
    # Of this run alone: what its base took stands in the base's own row.
    result = {"training_seconds": train["training_seconds"], **result}
    wrong = [name for name in metrics if name in result and not _is_number(result[name])]
    if wrong:
        return unreadable(run, f"{path}: {wrong[0]} is {result[wrong[0]]!r}, a number is expected; delete it")
    return Read(result, "+".join(splits["fit"] if "assigner" in spec else splits["probe"]["train"]), records)


def _other_data(run: Mapping[str, Any], records: Mapping[str, Any]) -> str:
    """What is wrong where the data that a result was computed on are not those that now lie in the results folder."""
    card = next((source["record"] for source in run.get("sources", ()) if source["stage"] == "prepare"
                 and Path(source["record"]).parent.name == run["dataset"]), None)  # fmt: skip
    if card is None or not Path(card).is_file():
        return ""
    try:
        held = read_json(card)["record"].get("content")
    except (StageError, KeyError, TypeError, AttributeError):
        return f"{card} cannot be read; delete it and run stage prepare again"
    made = records.get("prepare", {}).get("content")
    return "" if made == held else f"computed on data {made}, {card} is of data {held}"


def marks(read: Read) -> list[str]:
    """What a reader must know of a printed result before believing it."""
    marks = []
    if read.result.get("classes_present") == 0:
        marks.append("no labels")
        if read.result.get("degenerate"):
            equal = math.exp(read.result["size_entropy"])
            marks.append(f"degenerate, sizes as uneven as of {equal:.1f} equal clusters")
    elif read.result.get("classes_present") == 1:
        marks.append("degenerate, one class only: any clusters would be right")
    elif read.result.get("degenerate"):
        marks.append(f"degenerate, {read.result['occupied_clusters']} clusters occupied")
    if read.train.get("at_chance"):
        marks.append("training collapsed: its loss sits at chance")
    if where := read.train.get("untaught"):
        marks.append(f"nothing to learn from in epoch {where['epoch']}: training ended there")
    return marks


def lacking(run: Mapping[str, Any], read: Read, held: Iterable[str]) -> Problem | None:
    """What is wrong with a result that has no number where those of other seeds `held` one."""
    undefined = read.result.get("undefined", ())
    names = sorted(name for name in held if name not in read.result and name not in undefined)
    if not names:
        return None
    return unreadable(run, f"its result has no {', '.join(names)}, which other seeds have; delete it")


def unreadable(run: Mapping[str, Any], what: str) -> Problem:
    """The problem of a run with a damaged file. It costs this run and no other."""
    what = what.replace(f"{run['folder']}/", "")
    what = what if len(what) <= LONGEST else f"{what[:LONGEST]}..."
    return Problem(run["folder"], UNREADABLE, f"{UNREADABLE}, {what}", outputs=_to_mend(run))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _with_cause(reason: str, run: Mapping[str, Any]) -> str:
    said = cause(run)
    return f"{reason}; {said}" if said else reason


def _to_mend(run: Mapping[str, Any]) -> tuple[str, ...]:
    """The most upstream file that a row is made from whose record is missing or differs from the plan, and every such
    data set (a base may have another); the last file, if all are as they should be.
    """
    sources, data, first = run.get("sources", []), [], []
    for source in undone(run):
        (data if source["stage"] == "prepare" else first).append(source["output"])
    return tuple([*data, *first[:1]] or [source["output"] for source in sources[-1:]])


def command_to_mend(problems: Iterable[Problem], csv: str) -> str:
    """One command that makes every stale, missing or failed result of a table anew; empty where none would help.

    BENCH_COMMAND is how the pipeline was called (pipeline/command.py).
    """
    files = sorted({output for problem in problems for output in problem.outputs})
    if not files:
        return ""
    command = os.environ.get("BENCH_COMMAND") or "snakemake --cores all"
    return f"{command} {shlex.quote(csv)} --forcerun {shlex.join(files)}"
