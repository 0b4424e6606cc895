"""Stage `collect`: results of a suite's runs -> results.csv, one line for each number.

python -m report.collect --plan results/.plan/results-0123456789abcdef.json --out results/results.csv

Read as the tables read them: what is stale, damaged or not there is left out and told. A result that could not be had
(diverged, not possible, failed) is one line with its status and without a number. Numbers are as the stages recorded
them, accuracies as fractions; those of a protocol's `seen` splits are called seen/ACC; `seconds` are those of training.
"""

import csv
import io
import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pipeline.options import Parser
from pipeline.record import run_stage, whole
from pipeline.tables import read_plan
from report.results import NOT_RUN, STALE, UNREADABLE, Problem, Read
from report.tables import read_runs

RUN = ("dataset", "protocol", "recipe", "seed")
HEAD = (*RUN, "kind", "name", "metric", "value", "seconds", "fingerprint", "status")
LEFT_OUT = (NOT_RUN, STALE, UNREADABLE)


def main() -> None:
    parser = Parser(description=__doc__)
    parser.add_argument("--plan", required=True, help="plan file of the results, written by the pipeline")
    parser.add_argument("--out", required=True, help="the .csv to write")
    parser.add_argument("--new", action="store_true", help="do nothing when no result is newer than the file")
    arguments = parser.parse_args()
    plan, out = read_plan(arguments.plan), Path(arguments.out)
    if arguments.new and not _newer(plan, Path(arguments.plan), out):
        return
    lines, problems = collected(plan)
    with whole(out, "w") as file:
        file.write(to_csv(lines))
    for problem in dict.fromkeys(str(problem) for problem in problems if problem.kind != NOT_RUN):
        print(f"warning: left out of {out}: {problem}", file=sys.stderr)
    missing = sum(problem.kind == NOT_RUN for problem in problems)
    print(f"{out}: {len(lines)} lines" + (f"; results that are not there yet: {missing}" if missing else ""))


def collected(plan: Mapping[str, Any]) -> tuple[list[list[Any]], list[Problem]]:
    """The lines below HEAD, sorted, and what is wrong with the results that are left out."""
    lines: list[list[Any]] = []
    problems = []
    for spec in plan["rows"]:
        kind = "assigner" if "assigner" in spec else "probe"
        for run, read in read_runs(spec, spec["runs"], spec["metrics"]):
            own = [*(run[key] for key in RUN), kind, spec[kind]]
            fingerprint = list(run["expected"].values())[-1][0]  # of its last stage; what is read has that of the plan
            if isinstance(read, Read):
                end = [read.train["training_seconds"], fingerprint, read.train["status"]]
                lines += [[*own, metric, value, *end] for metric, value in numbers(read, spec)]
            elif read.kind in LEFT_OUT:
                problems.append(read)
            else:
                lines.append([*own, "", "", "", fingerprint, read.kind])
    return sorted(lines, key=lambda line: line[:6]), problems


def to_csv(lines: list[list[Any]]) -> str:
    """The text of results.csv."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([HEAD, *lines])
    return text.getvalue()


def numbers(read: Read, spec: Mapping[str, Any]) -> Iterator[tuple[str, int | float]]:
    """(metric, value) of what a result measured; settings, which a probe repeats beside its numbers, are none of it."""
    asked = {} if "assigner" in spec else read.records[f"probe/{spec['probe']}"]["settings"].get("probe", {})
    measured = {key: value for key, value in read.result.items() if key not in asked and key != "training_seconds"}
    nested = {f"seen/{key}": value for key, value in measured.pop("seen", {}).items()}
    for key, value in (measured | nested).items():
        if isinstance(value, int | float) and math.isfinite(value):
            yield key, int(value) if isinstance(value, bool) else value


def _newer(plan: Mapping[str, Any], file: Path, out: Path) -> bool:
    """Whether there is any result that `out` does not cover yet, or it is of another plan."""
    runs = (run for spec in plan["rows"] for run in spec["runs"])
    results = [path for path in dict.fromkeys(Path(run["folder"], "metrics.json") for run in runs) if path.is_file()]
    if not results:
        return False
    return not out.is_file() or out.stat().st_mtime < max(path.stat().st_mtime for path in [file, *results])


if __name__ == "__main__":
    run_stage(main)
