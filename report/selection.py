"""Stage `selection`: plan file + finished runs -> can one pick the good run without labels? As .csv and .md.

python -m report.selection --plan results/.plan/selection-0123456789abcdef.json --out results/selection.csv

For every method and data set: the rank correlation of each criterion (report/criteria.py) with ACC over seeds, and the
ACC of the run that it names beside the mean and the best. Labels judge the criteria; they choose nothing. Runs are read
as tables read them; one that is not there, stale or damaged costs itself and no other. With --partial, where the
pipeline failed: what there is goes into OUT.partial.csv and .md.
"""

import csv
import io
import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pipeline.options import Parser
from pipeline.record import StageError, run_stage
from pipeline.tables import read_plan
from report.choice import FEWEST, Choice, Estimate, choice
from report.criteria import BETTER, TITLES, Looked, criteria, look
from report.effects import UNDECIDED
from report.results import NOT_RUN, Problem, command_to_mend, unreadable
from report.tables import read_runs
from report.tabulate import PARTIAL, remove_partial, write

ESTIMATES = ("spearman", "mean", "best", "chosen", "gain")
COLUMNS = ["dataset", "protocol", "method", "recipe", "assigner", "row", "criterion", "n", "verdict", "chosen_seed",
           *(name for key in ESTIMATES for name in (key, f"{key}_low", f"{key}_high")), "notes"]  # fmt: skip
SHOWN = ["method", "chosen by", "n", "rank correlation with ACC", "verdict", "ACC of the chosen run", "mean ACC",
         "best ACC", "gain over the mean", "notes"]  # fmt: skip
LEGEND = (
    "Rank correlation of the criterion with ACC over seeds, turned so that above 0 it names good runs, and the ACC of\n"
    "the run that it names; 95 % intervals. helps, misleads: the interval lies above or below 0; with fewer than\n"
    f"{FEWEST} seeds nothing is decided. Labels judge the criteria and choose no run; a chosen run is no method's mean."
)


def main() -> None:
    parser = Parser(description=__doc__)
    parser.add_argument("--plan", required=True, help="plan file of the selection, written by the pipeline")
    parser.add_argument("--out", required=True, help="the .csv to write; .md appears beside it")
    parser.add_argument("--strict", action="store_true", help="stale, missing or diverged runs are an error")
    parser.add_argument("--partial", action="store_true", help="judge what there is into OUT.partial.csv and .md")
    arguments = parser.parse_args()
    plan, out = read_plan(arguments.plan), Path(arguments.out)
    lines, problems = selected(plan)
    for problem in problems:
        print(f"warning: {problem}", file=sys.stderr)
    if command := command_to_mend(problems, arguments.out):
        print(f"warning: to make what is stale or missing anew:\n{command}", file=sys.stderr)
    if problems and arguments.strict and not arguments.partial:
        raise StageError(f"{out}: {len(problems)} runs cannot be read (named above), and strict is set")
    ends = PARTIAL if arguments.partial else (".csv", ".md")
    write(out, dict(zip(ends, (to_csv(lines), to_markdown(lines)), strict=True)))
    if not arguments.partial:
        remove_partial(out)


def selected(plan: Mapping[str, Any]) -> tuple[list[dict[str, str]], list[Problem]]:
    """The lines of selection.csv, one for each method, data set, protocol and criterion, and what could not be read."""
    lines, problems = list[dict[str, str]](), list[Problem]()
    for spec in plan["rows"]:
        for (dataset, protocol), runs in _apart(spec["runs"]).items():
            accuracy, looked, said = _read(plan, spec, runs)
            problems += said
            own = {
                "dataset": plan["datasets"][dataset],
                "protocol": plan["protocols"][protocol],
                **{key: spec[key] for key in ("recipe", "assigner")},
                "method": spec["label"],
                "notes": "; ".join(dict.fromkeys(f"seed {Path(each.folder).name[4:]}: {each.reason}" for each in said)),
            }
            lines += [own | line for line in _lines(spec["label"], accuracy, looked)]
    return lines, list(dict.fromkeys(problems))


def _apart(runs: list[dict[str, Any]]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for run in runs:
        found.setdefault((run["dataset"], run["protocol"]), []).append(run)
    return found


def _read(
    plan: Mapping[str, Any], spec: Mapping[str, Any], runs: list[dict[str, Any]]
) -> tuple[dict[int, float], dict[int, Looked], list[Problem]]:
    """seed -> ACC as printed, seed -> what its run shows, and what is wrong with the others."""
    accuracy, looked, problems = dict[int, float](), dict[int, Looked](), list[Problem]()
    for run, read in read_runs(spec, runs, ["ACC"]):
        if isinstance(read, Problem):
            problems.append(read)
            continue
        try:
            looked[run["seed"]] = look(run["folder"], read, spec["assigner"])
        except StageError as problem:
            problems.append(unreadable(run, str(problem)))
            continue
        if "ACC" in read.result:
            accuracy[run["seed"]] = read.result["ACC"] * plan["scale"]
    return accuracy, looked, problems


def _lines(label: str, accuracy: Mapping[int, float], looked: Mapping[int, Looked]) -> Iterator[dict[str, str]]:
    found = criteria(looked)
    for name, better in BETTER.items():
        turned = {seed: value if better == "higher" else -value for seed, value in found[name].items()}
        made = choice(turned, accuracy)
        if made is None:
            yield {"criterion": name, "row": f"{label}, {TITLES[name]}", "n": "0", "verdict": NOT_RUN}
        else:
            yield {"criterion": name, "row": f"{label}, {TITLES[name]} of {made.n}", **_cells(made)}


def _cells(made: Choice) -> dict[str, str]:
    cells = {"n": str(made.n), "verdict": made.verdict, "chosen_seed": str(made.seed)}
    for key in ESTIMATES:
        estimate: Estimate = getattr(made, key)
        ends = (("", estimate.value), ("_low", estimate.low), ("_high", estimate.high))
        cells |= {f"{key}{end}": "" if math.isnan(value) else f"{value:.5g}" for end, value in ends}
    return cells


def to_csv(lines: list[dict[str, str]]) -> str:
    """The text of selection.csv; what a line has no number for stays empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def to_markdown(lines: list[dict[str, str]]) -> str:
    """The score of each criterion over methods, then its lines, by data set and protocol."""
    verdicts = ("helps", "misleads", UNDECIDED, NOT_RUN)
    text = ["# Which run without labels", "", *_rule(["chosen by", *verdicts])]
    for name in BETTER:
        held = [line["verdict"] for line in lines if line["criterion"] == name]
        text.append(_row([TITLES[name], *(str(held.count(verdict)) for verdict in verdicts)]))
    text += ["", LEGEND]
    for place in dict.fromkeys((line["dataset"], line["protocol"]) for line in lines):
        text += ["", f"## {', '.join(place)}", "", *_rule(SHOWN)]
        text += [_row(_shown(line)) for line in lines if (line["dataset"], line["protocol"]) == place]
    return "\n".join(text) + "\n"


def _shown(line: Mapping[str, str]) -> list[str]:
    chosen_by = line["row"].removeprefix(f"{line['method']}, ")
    numbers = {key: _interval(line, key) for key in ESTIMATES}
    first = [line["method"], chosen_by, line["n"], numbers["spearman"], line["verdict"]]
    return [*first, *(numbers[key] for key in ("chosen", "mean", "best", "gain")), line["notes"]]


def _interval(line: Mapping[str, str], key: str) -> str:
    if not line.get(key):
        return ""
    low, high = line[f"{key}_low"], line[f"{key}_high"]
    return line[key] + (f" [{low}, {high}]" if low and high else "")


def _rule(head: list[str]) -> list[str]:
    return [_row(head), _row(["---"] * len(head))]


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    run_stage(main)
