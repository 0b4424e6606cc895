"""Stage `tabulate`: plan file + metrics of its runs -> table as .csv, .md and .tex.

python -m report.tabulate --plan results/.plan/table2.json --out results/table2.csv

With --partial, where the pipeline failed: what there is goes into results/table2.partial.csv and .md, with the cause of
each missing run in the notes. The table itself appears only when it is complete.
"""

import dataclasses
import sys
from pathlib import Path

from pipeline.options import Parser
from pipeline.record import StageError, run_stage, whole
from pipeline.tables import read_plan
from report.latex import to_tex
from report.layouts import to_csv, to_markdown
from report.results import command_to_mend
from report.tables import Table, build

PARTIAL = (".partial.csv", ".partial.md")


def main() -> None:
    parser = Parser(description=__doc__)
    parser.add_argument("--plan", required=True, help="plan file of the table, written by the pipeline")
    parser.add_argument("--out", required=True, help="the .csv to write; .md and .tex appear beside it")
    parser.add_argument("--strict", action="store_true", help="stale, missing or diverged runs are an error")
    parser.add_argument("--partial", action="store_true", help="write what there is of a table with missing runs")
    arguments = parser.parse_args()
    table, out = build(read_plan(arguments.plan)), Path(arguments.out)
    if arguments.partial:
        write_partial(table, out)
        return
    for problem in table.problems:
        print(f"warning: {problem}", file=sys.stderr)
    if command := command_to_mend(table.problems, arguments.out):
        print(f"warning: to make what is stale or missing anew:\n{command}", file=sys.stderr)
    if table.problems and arguments.strict:
        raise StageError(
            f"{arguments.out}: {len(table.problems)} runs cannot be printed (named above), and strict is set"
        )
    text = to_markdown(table)
    write(out, {".csv": to_csv(table), ".md": text, ".tex": to_tex(table)})
    remove_partial(out)
    print(text)


def write(out: Path, texts: dict[str, str]) -> None:
    """Write a table's files: ending -> text, beside `out`."""
    for ending, text in texts.items():
        with whole(out.with_suffix(ending), "w") as file:
            file.write(text)


def write_partial(table: Table, out: Path) -> None:
    """Write what there is of a table that misses runs, and say which and why. `out` itself is left as it is."""
    missing = [problem for problem in table.problems if problem.outputs]
    for line in dict.fromkeys(map(str, missing)):
        print(f"missing: {line}", file=sys.stderr)
    finished = any(cell.values for row in table.rows for cell in row.cells.values())
    if not (missing and finished):
        remove_partial(out)
    if not missing:  # it was not for this table that the run failed
        return
    runs = len({problem.folder for problem in missing})
    said = f"{out} was not made: {runs} of its runs {'is' if runs == 1 else 'are'} missing, named above with the cause"
    if finished:
        part = dataclasses.replace(table, title=f"{table.title} (partial: runs are missing, see the notes)")
        write(out, dict(zip(PARTIAL, (to_csv(part), to_markdown(part)), strict=True)))
        said += f"; what there is stands in {' and '.join(str(out.with_suffix(ending)) for ending in PARTIAL)}"
    print(f"{said}; {out} itself is of an earlier run" if out.exists() else said, file=sys.stderr)


def remove_partial(out: Path) -> None:
    """Remove what an earlier run left of a table that was not complete then."""
    for ending in PARTIAL:
        try:
            out.with_suffix(ending).unlink(missing_ok=True)
        except OSError as problem:
            raise StageError(f"{out.with_suffix(ending)}: cannot be removed: {problem.strerror}") from None


if __name__ == "__main__":
    run_stage(main)
