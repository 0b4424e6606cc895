"""The plan of the claims: what the stage must know, the runs behind each figure, what their records must say."""

import functools
from collections.abc import Mapping
from typing import Any

from pipeline import catalogue
from pipeline.claims import Case, Claims, Figure
from pipeline.stages import Stages
from pipeline.tables import read_reported, reported_file, runs_of_row

PREDICATE = ("kind", "by", "at_least", "at_most", "within", "from", "to", "is")
Reported = Mapping[tuple[str, ...], Mapping[str, str]]  # (table, method, data set, setting, metric) -> its row


def claims_plan(stages: Stages, results: str, claims: Claims, csv_path: str) -> dict[str, Any]:
    """The plan of claims.csv. Of each case `parts`: first and second figure by one metric; a figure names an entry of
    `rows`, and what is taken off it.
    """
    rows: dict[str, Any] = {}
    cases = [_case(stages, results, claims, case, rows) for case in claims.cases]
    metrics = {metric for case in cases for part in case["parts"] for metric in part["metrics"]}
    used = {case.dataset for case in claims.cases} | {row["dataset"] for row in rows.values()}
    protocols = {case.protocol for case in claims.cases} | {row["protocol"] for row in rows.values()}
    return {
        "name": "claims",
        "csv": csv_path,
        "suite": claims.config["suite"],
        "results": results,
        "metrics": {metric: catalogue.entry("metric", metric) for metric in sorted(metrics)},
        "datasets": {name: catalogue.entry("data set", name)["title"] for name in sorted(used)},
        "protocols": {name: catalogue.entry("protocol", name)["title"] for name in sorted(protocols)},
        "papers": {name: paper["title"] for name, paper in claims.papers.items()},
        "rows": rows,
        "cases": cases,
    }


def _case(stages: Stages, results: str, claims: Claims, case: Case, rows: dict[str, Any]) -> dict[str, Any]:
    claim, of = claims.claim(case.claim), case.claim.partition(".")[0]
    parts = []
    for metric in claim.get("metrics", [None]) if "row" in claim and not case.why_not else []:
        for second in claim.get("than", [None]):
            pair = (claim["row"], second)
            found = [_figure(stages, results, claims, case, figure, metric, rows) for figure in pair]
            parts.append({"metrics": sorted(_metrics(found)), "first": found[0], "second": found[1]})
    return {
        "claim": case.claim,
        "paper": of,
        **{key: claim.get(key, "") for key in ("says", "place", "disagrees")},
        **{key: claim[key] for key in PREDICATE if key in claim},
        "dataset": case.dataset,
        "protocol": case.protocol,
        "stand_in": case.stand_in,
        "why_not": case.why_not,
        "parts": parts,
        "reported": papers_own(claims.papers[of], claim),
    }


def _metrics(found: list[Any]) -> set[str]:
    """The metrics of figures and of what is taken off them."""
    metrics = set()
    for figure in found:
        while figure is not None:
            metrics |= {figure["metric"]} - {None}
            figure = figure["minus"]
    return metrics


def _figure(
    stages: Stages, results: str, claims: Claims, case: Case, asked: Any, metric: str | None, rows: dict[str, Any]
) -> dict[str, Any] | None:
    """A figure as the stage reads it; its row is added to `rows` with its runs."""
    if asked is None:
        return None
    figure: Figure = {"row": asked} if isinstance(asked, str) else asked
    dataset, protocol = figure.get("dataset", case.dataset), figure.get("protocol", case.protocol)
    row, metric = claims.row(figure["row"], case.claim.partition(".")[0]), figure.get("metric", metric)
    key = f"{case.claim.partition('.')[0]}.{figure['row']} {dataset} {protocol}"
    table = {"datasets": [dataset], "protocols": [protocol], "rows": [row]}
    if key not in rows:
        rows[key] = {**row, "dataset": dataset, "protocol": protocol, "runs": runs_of_row(stages, results, table, row)}
    less = figure.get("minus")
    other = [value for value, own in ((dataset, case.dataset), (protocol, case.protocol)) if value != own]
    return {
        "row": key,
        "label": ", ".join([row["label"], *other]),
        "metric": metric,
        "minus": _figure(stages, results, claims, case, less, metric, rows) if less is not None else None,
    }


def papers_own(paper: Mapping[str, Any], claim: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The paper's own figures of a claim, as printed here: data set, metric, first, second with its label (None where
    the claim has none). Only what the paper still has on both sides.
    """
    if "reported" not in claim or "row" not in claim:
        return []
    values = _values(paper["reported"])
    found = []
    for dataset in claim["datasets"]:
        for metric in claim.get("metrics", []):
            for second in claim.get("than", [None]):
                one = _reported(paper, claim, claim["row"], dataset, metric, values)
                other = None if second is None else _reported(paper, claim, second, dataset, metric, values)
                if one is None or (second is not None and other is None):
                    continue
                title = catalogue.entry("data set", dataset)["title"]
                label = "" if second is None else paper["rows"][_named(second)["row"]]["label"]
                found.append({"dataset": title, "metric": metric, "first": one, "second": other, "than": label})
    return found


@functools.cache
def _values(file: str) -> Reported:
    keys = ("table", "method", "dataset", "setting", "metric")
    return {tuple(row[key] for key in keys): row for row in read_reported(reported_file(file)) if row["mean"]}


def _named(figure: Any) -> Figure:
    return {"row": figure} if isinstance(figure, str) else figure


def _reported(
    paper: Mapping[str, Any], claim: Mapping[str, Any], asked: Any, dataset: str, metric: str, values: Reported
) -> float | None:
    """One figure of the paper in printed units, None where it has none."""
    figure = _named(asked)
    method = paper["rows"][figure["row"]].get("reported", {}).get(claim["reported"])
    if method is None:
        return None
    method = {"method": method} if isinstance(method, str) else method
    title = catalogue.entry("data set", figure.get("dataset", dataset))["title"]
    title = paper.get("reported_datasets", {}).get(title, title) + method.get("part", "")
    own = figure.get("metric", metric)
    name = claim.get("reported_metrics", {}).get(own, own)
    row = values.get((claim["reported"], method["method"], title, method.get("setting", ""), name))
    if row is None:
        return None
    value = float(row["mean"]) * (catalogue.entry("metric", own)["scale"] if row["unit"] == "fraction" else 1)
    if "minus" not in figure:
        return value
    less = _reported(paper, claim, figure["minus"], dataset, metric, values)
    return None if less is None else value - less
