"""Stage `claims`: plan file + metrics of its runs -> the verdict of every claim, as .csv and .md.

python -m report.claims --plan results/.plan/claims-0123456789abcdef.json --out results/claims.csv

Reads results as tables do: one that is missing, stale or damaged is not there. A verdict on a data set or under a
protocol that is not the paper's is marked as a stand-in's and never counted as the paper's. With --partial, where the
pipeline failed: what there is goes into results/claims.partial.csv and .md.
"""

import csv
import io
import statistics
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.options import Parser
from pipeline.record import StageError, run_stage
from pipeline.tables import read_plan
from report.effects import CONTRADICTED, NOT_RUN, SUPPORTED, UNDECIDED, Bounds, Effect, Values, bounds, effect, joined
from report.results import Problem, Read, command_to_mend, marks
from report.tables import read_runs
from report.tabulate import PARTIAL, remove_partial, write

VERDICTS = (SUPPORTED, CONTRADICTED, UNDECIDED, NOT_RUN)
COLUMNS = ["claim", "place", "says", "suite", "dataset", "protocol", "stand_in", "kind", "metric", "first", "second",
           "first_mean", "second_mean", "n", "effect", "low", "high", "holds_if", "verdict", "parts", "paper",
           "paper_disagrees", "notes"]  # fmt: skip

SHOWN = ["claim", "place", "data", "effect", "n", "verdict", "the paper's own", "notes"]
LEGEND = (
    "Effect: first less second, or the ratio, over paired seeds, with its 95 % interval; of a claim that says several\n"
    "things the comparison that decides. A stand-in (another data set or protocol) never counts as the paper's."
)


@dataclass(frozen=True)
class Part:
    """One comparison of a claim: two figures by one metric."""

    metric: str
    labels: tuple[str, str]
    means: tuple[float | None, float | None]
    within: Bounds
    effect: Effect
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Ledger:
    """The verdicts: a line of strings for every case, and what kept results from being read."""

    lines: list[dict[str, str]]
    problems: list[Problem]


def main() -> None:
    parser = Parser(description=__doc__)
    parser.add_argument("--plan", required=True, help="plan file of the claims, written by the pipeline")
    parser.add_argument("--out", required=True, help="the .csv to write; .md appears beside it")
    parser.add_argument("--strict", action="store_true", help="stale, missing or diverged runs are an error")
    parser.add_argument("--partial", action="store_true", help="judge what there is into OUT.partial.csv and .md")
    arguments = parser.parse_args()
    plan, out = read_plan(arguments.plan), Path(arguments.out)
    ledger = judge(plan)
    for problem in ledger.problems:
        print(f"warning: {problem}", file=sys.stderr)
    if command := command_to_mend(ledger.problems, arguments.out):
        print(f"warning: to make what is stale or missing anew:\n{command}", file=sys.stderr)
    if ledger.problems and arguments.strict and not arguments.partial:
        raise StageError(f"{out}: {len(ledger.problems)} runs cannot be read (named above), and strict is set")
    ends = PARTIAL if arguments.partial else (".csv", ".md")
    write(out, dict(zip(ends, (to_csv(ledger), to_markdown(plan, ledger)), strict=True)))
    if not arguments.partial:
        remove_partial(out)


def judge(plan: Mapping[str, Any]) -> Ledger:
    """Read the runs behind the plan's rows and judge every case."""
    asked = {key: _metrics_of(key, plan["cases"]) for key in plan["rows"]}
    reads = {key: read_runs(row, row["runs"], sorted(asked[key])) for key, row in plan["rows"].items()}
    problems = [read for row in reads.values() for _, read in row if isinstance(read, Problem)]
    lines = [_line(plan, case, [_part(plan, case, part, reads) for part in case["parts"]]) for case in plan["cases"]]
    return Ledger(lines, list(dict.fromkeys(problems)))


def _metrics_of(key: str, cases: Iterable[Mapping[str, Any]]) -> set[str]:
    """The metrics that any figure of a row asks for."""
    found = set()
    for part in (part for case in cases for part in case["parts"]):
        for figure in (part["first"], part["second"]):
            while figure is not None:
                found |= {figure["metric"]} - {None} if figure["row"] == key else set()
                figure = figure["minus"]
    return found


def _part(plan: Mapping[str, Any], case: Mapping[str, Any], part: Mapping[str, Any], reads: Mapping[str, Any]) -> Part:
    first, second = part["first"], part["second"]
    metric = first["metric"] or ""
    within = bounds(case, plan["metrics"].get(metric, {}).get("better", "higher"))
    values = [None if figure is None else _values(plan, case, figure, reads) for figure in (first, second)]
    ours, theirs = values[0] or {}, values[1]
    found = effect(case["kind"], within, ours, theirs)
    shared = set(ours) if theirs is None else set(ours) & set(theirs)  # the seeds of the effect, where there is one
    means = [_mean([value for seed, value in (side or {}).items() if seed in shared or not shared]) for side in values]
    labels = tuple("" if figure is None else _label(figure) for figure in (first, second))
    notes = [note for figure in (first, second) if figure is not None for note in _notes(figure, reads)]
    if found.note:
        notes.insert(0, found.note)
    return Part(metric, (labels[0], labels[1]), (means[0], means[1]), within, found, tuple(dict.fromkeys(notes)))


def _values(plan: Mapping[str, Any], case: Mapping[str, Any], figure: Mapping[str, Any], reads: Mapping) -> Values:
    """seed -> figure in printed units; of a degenerate case 1 or 0, a run that diverged or collapsed being one."""
    if case["kind"] == "degenerate":
        return {run["seed"]: _failed(read) for run, read in reads[figure["row"]] if _ended(read)}
    name = figure["metric"]
    scale = plan["metrics"][name]["scale"]
    found = {
        run["seed"]: read.result[name] * scale
        for run, read in reads[figure["row"]]
        if isinstance(read, Read) and name in read.result
    }
    if figure["minus"] is None:
        return found
    less = _values(plan, case, figure["minus"], reads)
    return {seed: value - less[seed] for seed, value in found.items() if seed in less}


def _mean(values: list[float]) -> float | None:
    return statistics.fmean(values) if values else None


def _ended(read: Read | Problem) -> bool:
    """Whether a run came to an end of which one can say if it failed."""
    return isinstance(read, Read) or read.kind == "diverged"


def _failed(read: Read | Problem) -> float:
    if isinstance(read, Problem):
        return 1.0
    return float(bool(read.result.get("degenerate") or read.train.get("at_chance")))


def _label(figure: Mapping[str, Any]) -> str:
    return figure["label"] if figure["minus"] is None else f"{figure['label']} less {_label(figure['minus'])}"


def _notes(figure: Mapping[str, Any], reads: Mapping[str, Any]) -> list[str]:
    """What a reader must know of the runs of a figure."""
    said: dict[str, list[int]] = {}
    for run, read in reads[figure["row"]]:
        for what in [read.reason] if isinstance(read, Problem) else marks(read):
            said.setdefault(what, []).append(run["seed"])
    own = [f"{figure['label']}, seed {', '.join(map(str, seeds))}: {what}" for what, seeds in said.items()]
    return own + (_notes(figure["minus"], reads) if figure["minus"] is not None else [])


def _line(plan: Mapping[str, Any], case: Mapping[str, Any], parts: list[Part]) -> dict[str, str]:
    verdict = joined(part.effect.verdict for part in parts) if parts else NOT_RUN
    line = dict.fromkeys(COLUMNS, "") | {key: case[key] for key in ("claim", "place", "says", "stand_in")}
    line |= {"suite": plan["suite"], "kind": case.get("kind", ""), "verdict": verdict}
    line |= {"dataset": plan["datasets"][case["dataset"]], "protocol": plan["protocols"][case["protocol"]]}
    line |= {"paper": _paper(plan, case), "paper_disagrees": case["disagrees"], "notes": case["why_not"]}
    if not parts:
        return line
    shown = _decisive(parts, verdict)
    held = Counter(part.effect.verdict for part in parts)
    return line | {
        "metric": shown.metric,
        **dict(zip(("first", "second"), shown.labels, strict=True)),
        **dict(zip(("first_mean", "second_mean"), map(_number, shown.means), strict=True)),
        "n": str(shown.effect.n),
        "effect": _number(shown.effect.value),
        "low": _number(shown.effect.low),
        "high": _number(shown.effect.high),
        "holds_if": str(shown.within),
        "parts": f"{held[SUPPORTED]} of {len(parts)} supported" if len(parts) > 1 else "",
        "notes": "; ".join(shown.notes),
    }


def _decisive(parts: list[Part], verdict: str) -> Part:
    """Of the comparisons that have the claim's verdict, the one whose effect lies furthest from where it should."""
    alike = [part for part in parts if part.effect.verdict == verdict]
    return min(alike, key=_inside)


def _inside(part: Part) -> float:
    """How far an effect lies inside its bounds, below 0 outside."""
    if part.effect.value is None:
        return 0.0
    return min(part.effect.value - part.within.low, part.within.high - part.effect.value)


def _paper(plan: Mapping[str, Any], case: Mapping[str, Any]) -> str:
    """The paper's own figures in words; always with their data set, which may not be that of the line."""
    said = []
    for own in case["reported"]:
        text = f"{own['dataset']} {own['metric']} {_number(own['first'])}"
        said.append(text if own["second"] is None else f"{text} against {_number(own['second'])} ({own['than']})")
    return "; ".join(said)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.5g}"


def to_csv(ledger: Ledger) -> str:
    """A line of the header and one for every claim on every data set and protocol."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(ledger.lines)
    return text.getvalue()


def to_markdown(plan: Mapping[str, Any], ledger: Ledger) -> str:
    """The score of each paper, its own data sets apart from stand-ins, then its claims."""
    head = ["paper", "judged on", *VERDICTS]
    text = ["# Claims", "", *header(head)]
    for paper, title in plan["papers"].items():
        for name, stands in (("its own data", False), ("stand-ins", True)):
            lines = [line for line in _of(ledger, paper) if bool(line["stand_in"]) is stands]
            counts = Counter(line["verdict"] for line in lines)
            if lines:
                text.append(markdown_row([title, name, *(str(counts[verdict]) for verdict in VERDICTS)]))
    text += ["", LEGEND]
    for paper, title in plan["papers"].items():
        text += ["", f"## {title}", "", *header(SHOWN)]
        text += [markdown_row(cells(line)) for line in _of(ledger, paper)]
    return "\n".join(text) + "\n"


def _of(ledger: Ledger, paper: str) -> list[dict[str, str]]:
    return [line for line in ledger.lines if line["claim"].partition(".")[0] == paper]


def cells(line: Mapping[str, str]) -> list[str]:
    """A line of the ledger as it is shown: columns SHOWN. One of a claim that nothing was asked of lacks keys."""
    line = dict.fromkeys(COLUMNS, "") | dict(line)
    data = ", ".join(filter(None, (line["dataset"], line["protocol"])))
    data += f" (stand-in: {line['stand_in']})" if line["stand_in"] else ""
    found = ""
    if line["effect"]:
        interval = f" [{line['low']}, {line['high']}]" if line["low"] else ""
        sides = " against ".join(f"{line[side]} {line[f'{side}_mean']}" for side in ("first", "second") if line[side])
        found = f"{line['effect']}{interval}, holds if {line['holds_if']}: {line['metric']} of {sides}"
    own = line["paper"] + (f" **The paper disagrees: {line['paper_disagrees']}**" if line["paper_disagrees"] else "")
    notes = "; ".join(filter(None, [line["parts"], line["notes"]]))
    return [line["says"], line["place"], data, found, line["n"], line["verdict"], own, notes]


def header(head: list[str]) -> list[str]:
    """The first two lines of a Markdown table."""
    return [markdown_row(head), markdown_row(["---"] * len(head))]


def markdown_row(parts: Iterable[str]) -> str:
    """A line of a Markdown table; what a note says may hold a bar."""
    return "| " + " | ".join(part.replace("|", "\\|") for part in parts) + " |"


if __name__ == "__main__":
    run_stage(main)
