"""Figures that a suite can draw, by name: files of config/figures, and {kind}-{recipe}-{assigner} for the clusters of
any run, such as gallery-mixem-argmax, for which no file is needed.

What a kind can show, its file in report/figures says as literals (report/figure.py). What it cannot is refused here,
before any job exists.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from pipeline import catalogue, recipes, wings
from pipeline.checks import check_run
from pipeline.data_set import are_vectors, without_labels
from pipeline.naming import ConfigError, require, suggestion
from pipeline.runs import Run, Runs, Table


class Shown(NamedTuple):
    """A run in a figure, its label there, and the assigner whose clusters are shown, None where no clusters are."""

    label: str
    run: Run
    assigner: str | None


class Figures:
    """The figures of a suite's runs; whoever asks for one by name gets it checked."""

    def __init__(self, runs: Runs):
        self.runs, self.config = runs, runs.config
        self._checked: dict[str, dict[str, Any]] = {}

    def entry(self, name: str) -> dict[str, Any]:
        """The configuration of a figure. Raises ConfigError for one that this suite cannot draw."""
        if name not in self._checked:
            figure = {**entry(name), **self.config.get("of_figures", {}).get(name, {})}
            self._check(name, figure)
            self._checked[name] = figure
        return self._checked[name]

    def shown(self, name: str) -> list[Shown]:
        """All that a figure shows, nothing for one that compares rows of a table. Of the protocols it is the first."""
        return self._shown(name, self.entry(name))

    def _shown(self, name: str, figure: Mapping[str, Any]) -> list[Shown]:
        found = []
        for label, of in figure.get("recipes", {}).items():
            recipe, assigner = named(of)
            require(f"recipe in figure {name!r}:", recipe, recipes.names())
            found += [
                Shown(label, Run(dataset, self._protocol(figure), recipe, seed), assigner)
                for dataset in self._asked(figure, "datasets")
                for seed in self._asked(figure, "seeds")
            ]
        return found

    def _asked(self, figure: Mapping[str, Any], key: str) -> list[Any]:
        """The data sets or seeds of a figure: those it lists, all of the suite's, or the first of them."""
        suite = list(self.config[key])
        asked = figure.get(key, suite[:1])
        return suite if asked == "all" else asked

    def _protocol(self, figure: Mapping[str, Any]) -> str:
        """The protocol of a figure: its own, or the suite's first."""
        return figure.get("protocol", self.config["protocols"][0])

    def _check(self, name: str, figure: Mapping[str, Any]) -> None:
        """The kind can show what the entry asks for, and the runs behind it are possible. Raises ConfigError."""
        file = catalogue.places("figures").get(name)
        where = catalogue.short(file) if file else f"figure {name!r}"
        literals = _literals(figure["kind"])
        takes, other = ("table", "recipes") if literals.get("of_table") else ("recipes", "table")
        if takes not in figure:
            raise ConfigError(f"{where}: kind {figure['kind']!r} needs the key {takes!r}, {other!r} found")
        if takes == "table":
            _check_table(where, figure, self.runs)
            return
        shown = self._shown(name, figure)
        for key, values in (("datasets", {of.run.dataset for of in shown}), ("seeds", {of.run.seed for of in shown})):
            if len(values) > 1 and not literals.get("several"):
                raise ConfigError(
                    f"{where}: {key}: {len(values)} asked for, but a figure of kind {figure['kind']!r} shows one; "
                    "name one"
                )
        for dataset in dict.fromkeys(of.run.dataset for of in shown):
            require(f"data set in {where}", dataset, catalogue.names("data set"))
            _check_data(where, literals, dataset, self._protocol(figure))
        for of in shown:
            _check_assigner(where, figure["kind"], literals, of)
        for run in self.runs.with_bases(of.run for of in shown):
            assigners = [of.assigner for of in shown if of.run == run and of.assigner]
            check_run(run, self.runs.recipe(run), assigners, ())


def entry(name: str) -> dict[str, Any]:
    """The configuration of a figure, as far as no suite is needed to check it. Raises ConfigError."""
    kind, _, rest = name.partition("-")
    recipe, _, assigner = rest.rpartition("-")
    if not recipe:
        return catalogue.entry("figure", name)
    for what, found, known in (
        ("kind of figures of clusters", kind, of_clusters()),
        ("recipe", recipe, recipes.names()),
        ("assigner", assigner, catalogue.names("assigner")),
    ):
        require(f"{what} in figure {name!r}:", found, known)
    made = {
        "name": name,
        "title": _literals(kind)["title"],
        "kind": kind,
        "recipes": {f"{recipe}, {assigner}": {"recipe": recipe, "assigner": assigner}},
    }
    return catalogue.entry_or_json("figure", json.dumps(made))[1]


def of_clusters() -> list[str]:
    """The kinds that show the clusters of an assigner."""
    return [kind for kind in wings.wing_names("figure") if _literals(kind).get("of_clusters")]


def named(shown: str | Mapping[str, str]) -> tuple[str, str | None]:
    """(recipe, assigner or None) of one entry of a figure's `recipes`."""
    return (shown, None) if isinstance(shown, str) else (shown["recipe"], shown.get("assigner"))


def _literals(kind: str) -> Mapping[str, Any]:
    return wings.signature("figure", kind).literals


def _check_assigner(where: str, kind: str, literals: Mapping[str, Any], of: Shown) -> None:
    """A figure of clusters names whose they are, a figure of anything else does not."""
    if of.assigner is None and literals.get("of_clusters"):
        raise ConfigError(
            f"{where}: kind {kind!r} shows clusters, but {of.label!r} names no assigner; write "
            f"{{recipe: {of.run.recipe}, assigner: kmeans}}"
        )
    if of.assigner is not None:
        require(f"assigner in {where}:", of.assigner, catalogue.names("assigner"))
        if not literals.get("of_clusters"):
            raise ConfigError(f"{where}: kind {kind!r} shows no clusters; leave the assigner of {of.label!r} out")


def _check_data(where: str, literals: Mapping[str, Any], dataset: str, protocol: str) -> None:
    """The scored rows of a data set have what the kind shows."""
    spec = catalogue.entry("data set", dataset)
    if literals.get("of_images") and are_vectors(spec["shape"]):
        raise ConfigError(f"{where}: the rows of data set {dataset!r} are vectors, and there is no image of a vector")
    unlabelled = without_labels(spec) or catalogue.entry("protocol", protocol)["score"] == ["unlabeled"]
    if literals.get("of_labels") and unlabelled:
        raise ConfigError(
            f"{where}: compares clusters with classes, and the scored rows of data set {dataset!r} have no labels; a "
            "gallery shows clusters without"
        )


def _check_table(where: str, figure: Mapping[str, Any], runs: Runs) -> None:
    """The suite makes the table, with the metric, over enough data sets and methods."""
    name = figure["table"]
    require(f"table in {where}", name, catalogue.names("table"))
    if name not in runs.tables:
        raise ConfigError(
            f"{where}: compares rows of table {name!r}, which this suite does not make; name one of its tables "
            f"({', '.join(runs.tables)}), or add {name!r} to them"
        )
    table, metric = runs.tables[name], figure["metric"]
    if metric not in table["metrics"]:
        raise ConfigError(
            f"{where}: metric {metric!r} is none of table {name!r}; {suggestion(metric, table['metrics'])}"
        )
    if catalogue.entry("metric", metric)["better"] == "neither":
        raise ConfigError(f"{where}: metric {metric!r}: neither more nor less of it is better, so it cannot rank")
    over = runs.datasets(table)
    if len(over) < 2:
        raise ConfigError(
            f"{where}: methods are ranked over data sets, at least 2, and table {name!r} has {len(over)} in this suite "
            f"({', '.join(over)}); seeds of one data set are no independent data sets and cannot take their place; "
            "give more: --config datasets=[...]"
        )
    methods = _methods(table, figure)
    if len(methods) < 3:
        raise ConfigError(
            f"{where}: at least 3 methods can be ranked, and table {name!r} has {len(methods)} "
            f"({', '.join(methods) or 'none'}) of {figure.get('of', 'clustering')!r} that are no controls; "
            "`controls: true` ranks those too"
        )


def _methods(table: Table, figure: Mapping[str, Any]) -> list[str]:
    """Labels of the rows that compete: with figures of clusters, or of the probe that the entry names."""
    rows = [row for row in table["rows"] if "recipe" in row and (figure.get("controls") or not row.get("control"))]
    return [
        row["label"]
        for row in rows
        if ("clustering" if "assigner" in row else row["probe"]) == figure.get("of", "clustering")
    ]
