"""Results of a finished suite -> reference/{suite}.csv: one line for each number of each seed, and where it comes from.

./run bench publish                             # of the default suite
./run bench publish --results results/smoke

Nothing is published of a suite that is not finished, stale or damaged, or that ran with edited sources. What could not
be had (diverged, not possible) is a line with its status.
"""

from pathlib import Path

from pipeline.options import Parser
from pipeline.places import RECORD
from pipeline.record import StageError, read_json, run_stage
from report.reference import REFERENCE, lines_of, newest_plan, write_reference
from report.results import Problem

FAILED = "failed"
SHOWN = 5  # problems that an error names


def main(words: list[str] | None = None) -> None:
    """`words`: the command line without the program; by default sys.argv."""
    parser = Parser(prog="bench publish", description=__doc__)
    parser.add_argument("--results", default="results", help="results folder of the suite")
    parser.add_argument("--out", help="the .csv to write (default: reference/{suite}.csv)")
    arguments = parser.parse_args(words)
    results = Path(arguments.results)
    plan = newest_plan(results)
    out = Path(arguments.out) if arguments.out else REFERENCE / f"{read_json(results / RECORD)['suite']}.csv"
    lines, problems = [], []
    for line in lines_of(plan):
        if isinstance(line, Problem):
            problems.append(str(line))
        elif line["status"] == FAILED:
            problems.append(f"{'/'.join(line[key] for key in ('dataset', 'protocol', 'recipe', 'seed'))}: failed")
        else:
            lines.append(line)
    if problems:
        said = list(dict.fromkeys(problems))
        more = f"; and {len(said) - SHOWN} more" if len(said) > SHOWN else ""
        raise StageError(
            f"{results}: {len(said)} results cannot be published, finish it first: {'; '.join(said[:SHOWN])}{more}"
        )
    if not lines:
        raise StageError(f"{results}: its plan asks for no result")
    write_reference(lines, out)
    runs = {tuple(line[key] for key in ("dataset", "protocol", "recipe", "seed")) for line in lines}
    print(f"{out}: {len(lines)} lines of {len(runs)} runs")


if __name__ == "__main__":
    run_stage(main)
