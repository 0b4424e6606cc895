"""What is refused of a figure before any job exists: what its kind cannot show, and rankings over too little."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline import catalogue, wings
from pipeline.cluster_figures import check_clusters
from pipeline.naming import ConfigError, require, suggestion
from pipeline.runs import Run, Table


def check_figure(
    name: str, figure: Mapping[str, Any], runs: Sequence[Run], tables: Mapping[str, Table], datasets: Sequence[str]
) -> None:
    """The kind of a figure can show what its entry asks for: `runs`, or the rows of one of a suite's `tables`, on its
    own or the suite's `datasets`. Raises ConfigError.
    """
    file, kind = catalogue.places("figures").get(name), figure["kind"]
    where = catalogue.short(file) if file else f"figure {name!r}"
    can = wings.signature("figure", kind).literals
    takes, other = ("table", "recipes") if can.get("of_table") else ("recipes", "table")
    if takes not in figure:
        raise ConfigError(f"{where}: kind {kind!r} needs the key {takes!r}, {other!r} found")
    for run in runs:
        require(f"data set in {where}", run.dataset, catalogue.names("data set"))
        check_clusters(where, figure, run.dataset, run.protocol)
    for key, values in (("datasets", {run.dataset for run in runs}), ("seeds", {run.seed for run in runs})):
        if len(values) > 1 and not can.get("several"):
            raise ConfigError(
                f"{where}: {key}: {len(values)} asked for, but a figure of kind {kind!r} shows one; name one"
            )
    if takes == "table":
        _check_table(where, figure, tables, datasets)


def _check_table(where: str, figure: Mapping[str, Any], tables: Mapping[str, Table], datasets: Sequence[str]) -> None:
    """The suite makes the table, with the metric, over enough data sets."""
    name = figure["table"]
    require(f"table in {where}", name, catalogue.names("table"))
    if name not in tables:
        raise ConfigError(
            f"{where}: compares rows of table {name!r}, which this suite does not make; name one of its tables "
            f"({', '.join(tables)}), or add {name!r} to them"
        )
    table = tables[name]
    if figure["metric"] not in table["metrics"]:
        raise ConfigError(
            f"{where}: metric {figure['metric']!r} is none of table {name!r}; "
            f"{suggestion(figure['metric'], table['metrics'])}"
        )
    if catalogue.entry("metric", figure["metric"])["better"] == "neither":
        raise ConfigError(
            f"{where}: metric {figure['metric']!r}: neither more nor less of it is better, so it cannot rank"
        )
    over = table.get("datasets", datasets)
    if len(over) < 2:
        raise ConfigError(
            f"{where}: methods are ranked over data sets, at least 2, and table {name!r} has {len(over)} in this suite "
            f"({', '.join(over)}); seeds of one data set are no independent data sets and cannot take their place; "
            "give more: --config datasets=[...]"
        )
