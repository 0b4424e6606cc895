"""The claims of papers, config/claims: which of them a suite asks for, on which of its data sets, and with which runs.

A claim is judged on each data set and protocol of the suite. On those of the paper it counts as the paper's; elsewhere
the result stands in for it and never counts. The rows that are compared become tables of the plan (Claims.tables), so
that every check and every job of a table holds for them too. What a verdict is, report/effects.py says.
"""

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pipeline import catalogue, recipes
from pipeline.checks import check_run
from pipeline.naming import ConfigError, require
from pipeline.runs import Run, Runs, Table

# kind -> the keys it needs, and those it may have besides
KEYS = {
    "better": ({"than", "metrics"}, {"by"}),
    "not_worse": ({"than", "metrics"}, {"by"}),
    "higher": ({"than", "metrics"}, {"by"}),
    "lower": ({"than", "metrics"}, {"by"}),
    "ratio": ({"than", "metrics"}, {"at_least", "at_most"}),
    "unchanged": ({"than", "metrics", "within"}, set()),
    "value": ({"metrics"}, {"from", "to"}),
    "spread": ({"metrics", "at_most"}, {"than"}),
    "degenerate": ({"is"}, set()),
}
OF_KINDS = {"than", "metrics", "by", "at_least", "at_most", "within", "from", "to", "is"}
ONE_OF = {"ratio": {"at_least", "at_most"}, "value": {"from", "to"}}  # at least one of these
Figure = Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """A claim on one data set under one protocol; `why_not`: what keeps it from being judged there."""

    claim: str  # PAPER.NAME
    dataset: str
    protocol: str
    stand_in: str  # what differs from the paper, empty where nothing does
    why_not: str = ""


class Claims:
    """The claims that a suite asks for: `claims` of its configuration, each a paper or PAPER.NAME."""

    def __init__(self, config: Mapping[str, Any], tables: Mapping[str, Table]):
        """`tables`: those of the suite, whose own data sets and protocols are judged too where they are the paper's."""
        self.config, self._recipes = config, Runs(config, {})
        self._held = {
            key: list(
                dict.fromkeys([*config[key], *(name for table in tables.values() for name in table.get(key, []))])
            )
            for key in ("datasets", "protocols")
        }
        self.papers = {name: paper(name) for name in dict.fromkeys(key.partition(".")[0] for key in config["claims"])}
        self.asked = list(dict.fromkeys(name for key in config["claims"] for name in self._named(key)))
        self.cases = [case for name in self.asked for case in self._cases(name)]
        if self.asked and all(case.why_not for case in self.cases):
            raise ConfigError(
                f"claims: none of {', '.join(config['claims'])} can be judged on {', '.join(config['datasets'])}; "
                f"{self.cases[0].claim}: {self.cases[0].why_not}"
            )

    def claim(self, name: str) -> dict[str, Any]:
        """The configuration of PAPER.NAME, its protocols filled in."""
        of, _, key = name.partition(".")
        found = self.papers[of]
        return {"protocols": found["protocols"], "stand_ins": True, **found["claims"][key]}

    def tables(self) -> Mapping[str, Table]:
        """The rows that are compared, as tables of one data set and one protocol each; their names are no names of
        tables.
        """
        found: dict[str, dict[str, Any]] = {}
        for case in self.cases:
            for dataset, protocol, row, metrics in self._rows(case):
                name = f"claims of {dataset}, {protocol}"
                empty = {"title": name, "metrics": [], "datasets": [dataset], "protocols": [protocol], "rows": []}
                table = found.setdefault(name, empty)
                table["metrics"] += [metric for metric in metrics if metric not in table["metrics"]]
                if row not in table["rows"]:
                    table["rows"].append(row)
        return found

    def runs(self) -> list[Run]:
        """The runs behind the claims, without those that they start from."""
        seeds = self.config["seeds"]
        rows = [row for case in self.cases for row in self._rows(case)]
        runs = (Run(dataset, protocol, row["recipe"], seed) for dataset, protocol, row, _ in rows for seed in seeds)
        return list(dict.fromkeys(runs))

    def row(self, name: str, of: str) -> dict[str, Any]:
        """A row of the paper `of`, as one of a table."""
        row = self.papers[of]["rows"][name]
        return {key: row[key] for key in ("label", "recipe", "assigner", "probe", "seen") if key in row}

    def _named(self, key: str) -> list[str]:
        of, dot, name = key.partition(".")
        if dot:
            require(f"claim of {of}", name, self.papers[of]["claims"])
        return [key] if dot else [f"{of}.{name}" for name in self.papers[of]["claims"]]

    def _cases(self, name: str) -> Iterator[Case]:
        """The claim on each data set and protocol of the suite, and once where it is judged on none of them."""
        claim = self.claim(name)
        if "lacks" in claim:
            yield Case(name, claim["datasets"][0], claim["protocols"][0], "", claim["lacks"])
            return
        found = 0
        for protocol in self._held["protocols"] if _free(claim) else claim["protocols"][:1]:
            for dataset in self._held["datasets"]:
                if not self._is_for(claim, dataset, protocol):
                    continue
                differs = [
                    what
                    for what, here, own in (("data set", dataset, "datasets"), ("protocol", protocol, "protocols"))
                    if here not in claim[own]
                ]
                case = Case(name, dataset, protocol, ", ".join(differs))
                found += 1
                yield dataclasses.replace(case, why_not=self._why_not(case))
        if not found:
            said = f"only on {', '.join(claim['datasets'])} under {', '.join(claim['protocols'])}"
            yield Case(name, claim["datasets"][0], claim["protocols"][0], "", f"not of this suite: {said}")

    def _is_for(self, claim: Mapping[str, Any], dataset: str, protocol: str) -> bool:
        fixed = {figure["dataset"] for figure in figures(claim) if "dataset" in figure}
        if not fixed <= set(self._held["datasets"]) or dataset in claim.get("not_on", []):
            return False
        of_paper = dataset in claim["datasets"] and protocol in claim["protocols"]
        asked = dataset in self.config["datasets"] and (protocol in self.config["protocols"] or not _free(claim))
        return of_paper or (asked and claim["stand_ins"])

    def _why_not(self, case: Case) -> str:
        """Why a data set does not allow a run of the claim, empty where it does."""
        rows = ((dataset, protocol, row) for dataset, protocol, row, _ in self._rows(case))
        said = (
            self._refusal(data, prot, row["recipe"], row.get("assigner"), row.get("probe")) for data, prot, row in rows
        )
        return next(filter(None, said), "")

    @functools.cache  # noqa: B019 - many claims share their rows
    def _refusal(self, dataset: str, protocol: str, recipe: str, assigner: str | None, probe: str | None) -> str:
        run = Run(dataset, protocol, recipe, self.config["seeds"][0])
        try:
            for each in self._recipes.with_bases([run]):
                asked = [[name] if name and each == run else [] for name in (assigner, probe)]
                check_run(each, self._recipes.recipe(each), *asked)
        except ConfigError as problem:
            return str(problem)
        return ""

    def _rows(self, case: Case) -> list[tuple[str, str, dict[str, Any], list[str]]]:
        """(data set, protocol, row, metrics) of every figure of a claim that is judged."""
        claim, of = self.claim(case.claim), case.claim.partition(".")[0]
        metrics = claim.get("metrics", [])
        return [] if case.why_not else [
            (
                figure.get("dataset", case.dataset),
                figure.get("protocol", case.protocol),
                self.row(figure["row"], of),
                [figure["metric"]] if "metric" in figure else metrics,
            )
            for figure in figures(claim)
        ]  # fmt: skip


def figures(claim: Mapping[str, Any]) -> Iterator[Figure]:
    """Every figure that a claim compares, those that are taken off others among them."""
    for figure in [claim["row"], *claim.get("than", [])] if "row" in claim else []:
        while figure is not None:
            figure = {"row": figure} if isinstance(figure, str) else figure
            yield figure
            figure = figure.get("minus")


def _free(claim: Mapping[str, Any]) -> bool:
    """Whether a claim is judged under the protocols of the suite: not where it compares protocols."""
    return not all("protocol" in figure for figure in figures(claim))


def names() -> list[str]:
    """The papers with claims."""
    return sorted(catalogue.places("claims"))


def paper(name: str) -> dict[str, Any]:
    """The checked claims of a paper. Raises ConfigError for a name, key or value that cannot be."""
    require("paper with claims", name, names())
    path = catalogue.places("claims")[name]
    found, where = catalogue.read_yaml(path), catalogue.short(path)
    catalogue.check(found, "claims", where)
    for key, row in found["rows"].items():
        require(f"recipe in {where}, row {key!r}:", row["recipe"], recipes.names())
        for kind in ("assigner", "probe"):
            if kind in row:
                require(f"{kind} in {where}, row {key!r}:", row[kind], catalogue.names(kind))
    _check_names(where, "protocol", found["protocols"])
    for key, claim in found["claims"].items():
        _check_claim(f"{where}, claim {key!r}", claim, found["rows"])
    return found


def _check_claim(at: str, claim: Mapping[str, Any], rows: Iterable[str]) -> None:
    _check_names(at, "data set", [*claim["datasets"], *claim.get("not_on", [])])
    _check_names(at, "protocol", claim.get("protocols", []))
    _check_names(at, "metric", claim.get("metrics", []))
    for figure in figures(claim):
        require(f"row in {at}:", figure["row"], rows)
        for kind, key in (("data set", "dataset"), ("protocol", "protocol"), ("metric", "metric")):
            _check_names(at, kind, [figure[key]] if key in figure else [])
    if "lacks" in claim:
        return
    needed, allowed = KEYS[claim["kind"]]
    given = OF_KINDS & set(claim)
    if missing := sorted(needed - given):
        raise ConfigError(f"{at}: kind {claim['kind']!r} needs the key {missing[0]!r}")
    if extra := sorted(given - needed - allowed):
        raise ConfigError(f"{at}: kind {claim['kind']!r} has no key {extra[0]!r}")
    one_of = ONE_OF.get(claim["kind"], set())
    if one_of and not one_of & given:
        raise ConfigError(f"{at}: kind {claim['kind']!r} needs one of the keys {', '.join(sorted(one_of))}")
    if claim["kind"] in ("better", "not_worse"):
        for metric in claim["metrics"]:
            if catalogue.entry("metric", metric)["better"] == "neither":
                raise ConfigError(f"{at}: neither more nor less of {metric!r} is better; say kind higher or lower")


def _check_names(where: str, kind: str, found: Iterable[str]) -> None:
    for name in found:
        require(f"{kind} in {where}:", name, catalogue.names(kind))
