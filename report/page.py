"""Stage `page`: all that a suite found on one page that needs no network: results/report/index.html.

python -m report.page --results results

Tables with the provenance of every number, figures, curves of training, data sets, costs. It shows what there is, also
of a suite that is not finished; tables and figures are copied beside it, so that its folder can be given away whole.

With --partial, where the pipeline failed: the page goes into results/report/index.partial.html, and is not made if the
page itself has nothing to wait for.
"""

import base64
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from pipeline.options import Parser
from pipeline.provenance import ROOT
from pipeline.record import StageError, reading, run_stage, whole
from pipeline.tables import read_plan
from report.page_cards import cards, costs
from report.page_curves import HEIGHT, WIDTH, curves
from report.page_files import pictures, table_files
from report.page_tables import Column, Line, heads, lines, minute, table_columns
from report.results import Problem, Read, command_to_mend
from report.tables import Table, build

WEB = ROOT / "report" / "web"
Sources = list[Mapping[str, str]]


@dataclass(frozen=True)
class Shown:
    """A table as the page shows it."""

    name: str
    table: Table
    columns: list[Column]
    heads: list[tuple[str, int]]  # data set, number of its columns
    lines: list[Line]
    files: list[str]  # copies beside the page
    command: str  # makes anew what is missing; empty where nothing is, or nothing would help


def main() -> None:
    parser = Parser(description=__doc__)
    parser.add_argument("--results", required=True, help="results folder of the suite")
    parser.add_argument(
        "--plans", nargs="*", help="plan files of its tables, written by the pipeline (default: the newest in .plan)"
    )
    parser.add_argument(
        "--figures", nargs="*", default=[], help="the .png that the suite keeps up to date; others are shown with dates"
    )
    parser.add_argument("--out", help="the .html to write (default: report/index.html in the results folder)")
    parser.add_argument("--partial", action="store_true", help="the run failed: write what there is beside the page")
    arguments = parser.parse_args()
    results = Path(arguments.results)
    out = Path(arguments.out) if arguments.out else results / "report" / "index.html"
    plans = [read_plan(path) for path in (newest_plans(results) if arguments.plans is None else arguments.plans)]
    figures, partial = {Path(figure) for figure in arguments.figures}, out.with_suffix(".partial.html")
    if not arguments.partial or (waits := not out.is_file() or lacks(plans, figures)):
        with whole(partial if arguments.partial else out, "w") as file:
            file.write(render(results, plans, figures, out.parent, arguments.partial))
        print(partial if arguments.partial else out)
    if not (arguments.partial and waits):
        partial.unlink(missing_ok=True)


def lacks(plans: Iterable[Mapping[str, Any]], figures: Iterable[Path]) -> bool:
    """Whether the page of a suite will be made anew once what failed is mended."""
    tables = [build(plan) for plan in plans if "rows" in plan]
    missing = any(problem.outputs for table in tables for problem in table.problems)
    return missing or not all(path.is_file() for path in figures)


def newest_plans(results: Path) -> list[Path]:
    """The newest plan of the suite and of every table. Raises StageError where there is none at all."""
    plans: dict[str, Path] = {}
    with reading(results):
        list(results.iterdir())
        for path in sorted((results / ".plan").glob("*.json"), key=lambda path: path.stat().st_mtime_ns):
            plans[path.stem.rpartition("-")[0]] = path
    plans.pop("results", None)  # all numbers once more, without the layout of a table
    if not plans:
        raise StageError(f"{results}/.plan: no plan of a table in it; run the suite once, or name its results folder")
    return [plans[name] for name in sorted(plans)]


def render(results: Path, plans: list[dict[str, Any]], asked: set[Path], folder: Path, partial: bool = False) -> str:
    """The page as HTML; copies of tables and figures are written into `folder`.

    `plans`: of tables, and of the suite, which may be missing; `asked`: the figures that the suite names; `partial`:
    whether the run that asked for the page failed.
    """
    suite = next((plan["suite"] for plan in plans), results.name)
    shown = [_shown(plan, results, folder, partial) for plan in plans if "rows" in plan]
    sources = _sources(plans)
    drawn = curves(sources)
    script = (WEB / "page.js").read_text(encoding="utf-8")
    loader = jinja2.FileSystemLoader(WEB)
    # All text is escaped but for the two files of our own that stand in the page as they are.
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("page.html").render(
        suite=suite,
        partial=partial,
        tables=shown,
        counts=_counts(shown),
        period=_period(shown),
        pictures=pictures(results, asked, folder),
        curves=[found for found in drawn if found.charts or found.notes],
        untrained=list(dict.fromkeys(found.run.recipe for found in drawn if not (found.charts or found.notes))),
        cards=cards(sources),
        costs=costs(sources),
        size=(WIDTH, HEIGHT),
        style=Markup((WEB / "page.css").read_text(encoding="utf-8")),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _shown(plan: Mapping[str, Any], results: Path, folder: Path, partial: bool) -> Shown:
    table = build(plan)
    columns = table_columns(table)
    command = command_to_mend(table.problems, plan["csv"])
    # Where runs of it are missing, a table's files are those of an earlier run.
    files = [] if partial and command else table_files(Path(plan["csv"]), results, folder)
    return Shown(plan["name"], table, columns, heads(table, columns), lines(table, columns), files, command)


def _sources(plans: Iterable[Mapping[str, Any]]) -> Sources:
    """What all rows of all tables are made from (pipeline/sources.py), each stage of each record once."""
    found: dict[tuple[str, str], Mapping[str, str]] = {}
    for plan in plans:
        for row in plan.get("rows", ()):
            for run in row["runs"]:
                for source in run["sources"]:
                    found.setdefault((source["record"], source["stage"]), source)
    return list(found.values())


def _reads(shown: Iterable[Shown]) -> list[tuple[Mapping[str, Any], Read | Problem]]:
    return [read for one in shown for row in one.table.rows for read in row.reads]


def _counts(shown: Iterable[Shown]) -> dict[str, int]:
    """Kind of what became of a result -> how many runs and rows of tables ended so."""
    counts: dict[str, int] = {"printed": 0}
    for _, read in _reads(shown):
        kind = "printed" if isinstance(read, Read) else read.kind
        counts[kind] = counts.get(kind, 0) + 1
    return counts


def _period(shown: Iterable[Shown]) -> tuple[str, str] | None:
    """When the first and the last of the stages behind the printed results ended."""
    ended = sorted(
        record["ended"]
        for _, read in _reads(shown)
        if isinstance(read, Read)
        for record in read.records.values()
        if "ended" in record
    )
    return (minute(ended[0]), minute(ended[-1])) if ended else None


if __name__ == "__main__":
    run_stage(main)
