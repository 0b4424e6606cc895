"""Stage `tabulate`: plan file + metrics of its runs -> table as .csv, .md and .tex.

python -m report.tabulate --plan results/.plan/table2.json --out results/table2.csv
"""

import argparse
import sys
from pathlib import Path

from pipeline.record import StageError, run_stage, whole
from pipeline.tables import read_plan
from report.layouts import to_csv, to_markdown, to_tex
from report.results import command_to_mend
from report.tables import build


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", required=True, help="plan file of the table, written by the pipeline")
    parser.add_argument("--out", required=True, help="the .csv to write; .md and .tex appear beside it")
    parser.add_argument("--strict", action="store_true", help="stale, missing or diverged runs are an error")
    arguments = parser.parse_args()
    table = build(read_plan(arguments.plan))
    for problem in table.problems:
        print(f"warning: {problem}", file=sys.stderr)
    if command := command_to_mend(table.problems, arguments.out):
        print(f"warning: to make what is stale or missing anew:\n{command}", file=sys.stderr)
    if table.problems and arguments.strict:
        raise StageError(
            f"{arguments.out}: {len(table.problems)} runs cannot be printed (named above), and strict is set"
        )
    out = Path(arguments.out)
    for path, text in (
        (out, to_csv(table)),
        (out.with_suffix(".md"), to_markdown(table)),
        (out.with_suffix(".tex"), to_tex(table)),
    ):
        with whole(path, "w") as file:
            file.write(text)
    print(out.with_suffix(".md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    run_stage(main)
