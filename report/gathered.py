"""What several results folders say of the papers: cells of tables against the papers' values, and verdicts of claims.

The plans are made anew from the suite that owns each folder, with the sources as they are: a result that is stale
counts as not run, whatever a table that was written earlier prints.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline import claims, parts, suites
from pipeline.places import DECIDE, RECORD
from pipeline.plan import Plan
from pipeline.record import StageError, read_json
from report.claims import judge
from report.effects import NOT_RUN
from report.reference import newest_plan
from report.tables import Table, build

Line = dict[str, str]  # a line of claims.csv


@dataclass(frozen=True)
class Counted:
    """A table of a paper in one suite: how many of its cells have which verdict (report/tables.py)."""

    paper: str
    table: str
    title: str
    suite: str
    counts: Counter[str] = dataclasses.field(default_factory=Counter)


@dataclass(frozen=True)
class Gathered:
    """All that the folders say."""

    tables: list[Counted]
    lines: list[Line]

    def of(self, paper: str) -> list[Line]:
        """The lines of a paper's claims."""
        return [line for line in self.lines if line["claim"].partition(".")[0] == paper]


def gather(folders: Iterable[Path]) -> Gathered:
    """Read the runs of each folder. Raises StageError for a folder without a finished suite, ConfigError for a suite
    that can no longer be planned.
    """
    tables: list[Counted] = []
    lines: list[Line] = []
    for folder in folders:
        plan = _plan(folder)
        suite = plan.config["suite"]
        for name, entry in plan.tables.items():
            if paper := paper_of(name, entry):
                found = build(plan.table_plan(name))
                tables.append(Counted(paper, name, found.title, suite, _counts(found)))
        lines += judge(plan.claims_plan()).lines
    return Gathered(tables, merged(lines) + _never_asked(lines))


def paper_of(name: str, table: Mapping[str, Any]) -> str:
    """The paper that a table is of: that of its reported values, else the one that its name begins with; else ""."""
    said = (table.get("reported", {}).get("table", ""), name)
    return next((paper for text in said for paper in claims.names() if text.casefold().startswith(paper)), "")


def merged(lines: Iterable[Line]) -> list[Line]:
    """Of the lines of several folders one for each claim, data set and protocol: that of most seeds, the first where
    they are alike. Of a claim that is judged anywhere those that were not run are left out.
    """
    found: dict[tuple[str, ...], Line] = {}
    for line in lines:
        key = tuple(line[part] for part in ("claim", "dataset", "protocol"))
        if key not in found or int(line["n"] or 0) > int(found[key]["n"] or 0):
            found[key] = line
    judged = {line["claim"] for line in found.values() if line["verdict"] != NOT_RUN}
    kept = [line for line in found.values() if line["verdict"] != NOT_RUN or line["claim"] not in judged]
    once = {line["claim"]: line for line in reversed(kept) if line["claim"] not in judged}
    return [line for line in kept if line["claim"] in judged or line is once[line["claim"]]]


def _never_asked(lines: Iterable[Line]) -> list[Line]:
    """The claims that no folder says anything of."""
    said = {line["claim"] for line in lines}
    return [
        dict.fromkeys(("dataset", "protocol", "stand_in", "n", "notes"), "")
        | {"claim": f"{of}.{name}", "says": claim["says"], "place": claim["place"], "verdict": NOT_RUN}
        for of in claims.names()
        for name, claim in claims.paper(of)["claims"].items()
        if f"{of}.{name}" not in said
    ]


def _counts(table: Table) -> Counter[str]:
    cells = (cell for row in table.rows for cell in row.cells.values())
    return Counter(cell.verdict for cell in cells if cell.verdict)


def _plan(folder: Path) -> Plan:
    """The plan of the suite that owns a results folder, with the seeds that ran there and the claims of all papers."""
    ran = {run["seed"] for row in newest_plan(folder)["rows"] for run in row["runs"]}
    own = read_json(folder / RECORD)
    if not isinstance(own, dict) or not {"suite", "overrides", "files", *DECIDE} <= set(own):
        raise StageError(f"{folder / RECORD}: it does not say whose folder it is; run the suite once more")
    files = [Path(file) for file in own["files"]]
    config = suites.configuration(files[-1] if files else None)
    config |= {"suite": own["suite"], "results": str(folder), "seeds": sorted(ran), "overrides": own["overrides"]}
    config |= {key: own[key] for key in DECIDE}
    return Plan(parts.whole(config) | {"claims": claims.names()}, files=files)


def titles() -> dict[str, str]:
    """Name -> title of every paper with claims."""
    return {name: claims.paper(name)["title"] for name in claims.names()}
