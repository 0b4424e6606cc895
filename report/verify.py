"""Whether your finished run gives the published numbers: compares it with reference/{suite}.csv, cell by cell.

./run bench verify                              # the default suite
./run bench verify --results results/smoke --reference reference/smoke.csv

A cell is one number of one table row over its seeds. Of the seeds that both sides have, from best to worst: the same
bits; the same printed digits; means within the noise of seeds (twice the standard error of their difference, which
needs two seeds on each side); different. The last line counts them; the exit status is 1 where any is different. Seeds,
rows and data sets that only one side has are counted, not judged.
"""

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from pipeline import catalogue
from pipeline.options import Parser
from pipeline.places import RECORD
from pipeline.record import StageError, read_json, run_stage
from report.effects import WITHIN, Sample, against
from report.reference import CELL, PLACE, REFERENCE, lines_of, newest_plan, read_reference
from report.results import Problem

BITS, DIGITS, NOISE, DIFFERENT = "same bits", "same printed digits", "within the noise of seeds", "different"
LEVELS = (BITS, DIGITS, NOISE, DIFFERENT)
SIGNIFICANT = 6  # digits of a number that no table prints
Line = Mapping[str, str]
Cells = dict[tuple[str, ...], dict[int, Line]]  # cell -> seed -> line


def main(words: list[str] | None = None) -> None:
    """`words`: the command line without the program; by default sys.argv."""
    parser = Parser(prog="bench verify", description=__doc__)
    parser.add_argument("--results", default="results", help="results folder of the suite")
    parser.add_argument("--reference", help="the published .csv (default: reference/{suite}.csv)")
    arguments = parser.parse_args(words)
    results = Path(arguments.results)
    plan = newest_plan(results)
    path = Path(arguments.reference or REFERENCE / f"{read_json(results / RECORD)['suite']}.csv")
    ours = list(lines_of(plan, edited=True))
    for problem in dict.fromkeys(str(line) for line in ours if isinstance(line, Problem)):
        print(f"not compared: {problem}")
    found = [line for line in ours if not isinstance(line, Problem)]
    told, counts = compared(found, read_reference(path))
    print("\n".join(told))
    if counts[DIFFERENT]:
        raise SystemExit(1)


def compared(ours: Iterable[Line], published: Iterable[Line]) -> tuple[list[str], Counter[str]]:
    """What is told, the last line with the counts, and the cells of each level. Raises StageError if none is common."""
    here, there = _cells(ours), _cells(published)
    counts: Counter[str] = Counter()
    told = []
    pairs = []
    for cell, mine in here.items():
        theirs = there.get(cell, {})
        common = sorted(mine.keys() & theirs.keys())
        if not common:
            continue
        level = judged(cell[-1], mine, theirs)
        counts[level] += 1
        pairs += [(mine[seed], theirs[seed]) for seed in common]
        if level != BITS:
            seeds = ", ".join(f"seed {s}: {_said(mine[s])} here, {_said(theirs[s])} published" for s in common)
            told.append(f"{level}: {' '.join(filter(None, cell))}: {seeds}")
    if not counts:
        raise StageError("no cell of these results is in the reference: other data sets, protocols, recipes or seeds")
    told += _differing(pairs)
    only = [f"{len(one.keys() - other.keys())} {where}" for one, other, where in (
        (here, there, "only here"), (there, here, "only published"))]  # fmt: skip
    levels = [f"{counts[level]} {level}" for level in LEVELS]
    told.append(f"{sum(counts.values())} cells compared: {', '.join(levels)}; {', '.join(only)}")
    return told, counts


def judged(metric: str, mine: Mapping[int, Line], theirs: Mapping[int, Line]) -> str:
    """The level of one cell, {seed: line} on both sides, which have at least one seed in common."""
    common = mine.keys() & theirs.keys()
    if all(mine[seed]["value"] == theirs[seed]["value"] and _status(mine[seed]) == _status(theirs[seed])
           for seed in common):  # fmt: skip
        return BITS
    if any(_status(side[seed]) for side in (mine, theirs) for seed in common):
        return DIFFERENT  # a number on one side, or another failure
    if all(printed(metric, mine[seed]["value"]) == printed(metric, theirs[seed]["value"]) for seed in common):
        return DIGITS
    samples = [_sample(side) for side in (mine, theirs)]
    return NOISE if against(*samples) == WITHIN else DIFFERENT


def printed(metric: str, value: str) -> str:
    """A number as tables print it; one of no table with six significant digits."""
    name = metric.removeprefix("seen/")
    if name not in catalogue.names("metric"):
        return f"{float(value):.{SIGNIFICANT}g}"
    facts = catalogue.entry("metric", name)
    return f"{float(value) * facts['scale']:.{facts['digits']}f}"


def _sample(side: Mapping[int, Line]) -> Sample:
    """Mean and spread over all seeds of one side that have a number; of fewer than two seeds nothing is known."""
    values = [float(line["value"]) for line in side.values() if not _status(line)]
    spread = statistics.stdev(values) if len(values) > 1 else None
    return Sample(math.fsum(values) / len(values), spread, len(values))


def _status(line: Line) -> str:
    """Why a line has no number; empty where it has one."""
    return "" if line["metric"] else line["status"]


def _said(line: Line) -> str:
    return _status(line) or line["value"]


def _cells(lines: Iterable[Line]) -> Cells:
    cells: Cells = {}
    for line in lines:
        cells.setdefault(tuple(line[name] for name in CELL), {})[int(line["seed"])] = line
    return cells


def _differing(pairs: Iterable[tuple[Line, Line]]) -> list[str]:
    """What else differs between the results compared: that explains a number, or makes an equal one worth more."""
    told = []
    for name in ("fingerprint", *PLACE):
        differ = {(one[name], other[name]) for one, other in pairs if one[name] != other[name]}
        if differ and name == "fingerprint":
            told.append(f"results of other code, settings or data than published: {len(differ)}")
        elif differ:
            told += [
                f"{name}: {one or 'unknown'} here, {other or 'unknown'} published" for one, other in sorted(differ)
            ]
    return told


if __name__ == "__main__":
    run_stage(main)
