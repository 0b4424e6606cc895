"""What is refused before any job exists: unknown names in tables, and runs that their data set does not allow."""

from collections.abc import Iterable, Mapping
from typing import Any

from pipeline import catalogue, recipes
from pipeline.catalogue import ConfigError
from pipeline.wings import signature, wing_names


def check_table(name: str, table: Mapping[str, Any], datasets: Iterable[str], protocols: Iterable[str]) -> None:
    """Every name in a table is known, and each row says what it shows. Raises ConfigError."""
    where = f"config/tables/{name}.yaml"
    for metric in table["metrics"]:
        catalogue.require(f"metric in {where}", metric, catalogue.names("metric"))
    for kind, values in (("data set", datasets), ("protocol", protocols)):
        for value in values:
            catalogue.require(f"{kind} in {where}", value, catalogue.names(kind))
    for row in table["rows"]:
        at = f"{where}, row {row['label']!r}"
        if "recipe" not in row:
            if "reported" not in row:
                raise ConfigError(f"{at}: neither a recipe nor reported values; give one of them")
            continue
        if ("assigner" in row) == ("probe" in row):
            raise ConfigError(f"{at}: exactly one of assigner and probe is needed")
        catalogue.require(f"recipe in {where}", row["recipe"], recipes.names())
        for key in ("assigner", "probe"):
            if key in row:
                catalogue.require(f"{key} in {where}", row[key], catalogue.names(key))


def for_several_labels() -> list[str]:
    """The probes' algorithms that score images with several labels: their files say `several_labels = True`."""
    return [name for name in wing_names("probe") if signature("probe", name).literals.get("several_labels")]


def check_run(
    dataset: str, protocol: str, recipe: Mapping[str, Any], assigners: Iterable[str], probes: Iterable[str]
) -> None:
    """The data set has the splits of the protocol, rows enough for batch, neighbours and clusters, and labels of the
    kind that is scored. Raises ConfigError.
    """
    spec, splits_of = catalogue.entry("data set", dataset), catalogue.entry("protocol", protocol)

    def rows(splits: list[str], use: str) -> int:
        sizes = spec["splits"]
        if splits == ["all"]:
            return sum(size for name, size in sizes.items() if name != "unlabeled")
        for split in splits:
            if split not in sizes:
                raise ConfigError(
                    f"protocol {protocol!r} uses split {split!r} to {use}, which data set {dataset!r} does "
                    f"not have (it has {', '.join(sizes)}); choose another protocol for it"
                )
        return sum(sizes[split] for split in splits)

    train, fit = rows(recipes.train_splits(recipe, splits_of), "train"), rows(splits_of["fit"], "fit")
    score = rows(splits_of["score"], "score")
    if recipe["schedule"]["epochs"] and train < recipe["batch_size"]:
        raise ConfigError(
            f"recipe {recipe['name']!r} on data set {dataset!r}: N={train} < batch {recipe['batch_size']}: not one "
            "full batch; lower batch_size for this data set"
        )
    for key, among in (("count", train), ("watched", score)):
        if (wanted := recipe.get("neighbours", {}).get(key, 0)) >= among:
            raise ConfigError(
                f"recipe {recipe['name']!r} on data set {dataset!r}: neighbours.{key}: {wanted} of N={among} rows, "
                f"itself not counted; at most {among - 1}"
            )
    for name in assigners:
        clusters = catalogue.entry("assigner", name).get("clusters", 1)
        if (spec["classes"] if clusters == "classes" else clusters) > fit:
            raise ConfigError(
                f"assigner {name!r} on data set {dataset!r}: K={clusters} clusters, but it is fitted on N={fit} rows"
            )
    if spec.get("multilabel"):
        able = for_several_labels()
        wrong = [*assigners, *(name for name in probes if catalogue.entry("probe", name)["algorithm"] not in able)]
        if recipes.signature(recipe["method"])[2]:
            wrong.append(f"method {recipe['method']}")
        if wrong:
            raise ConfigError(
                f"data set {dataset!r}: its images have several labels, which {wrong[0]!r} cannot use; ask for one of "
                f"{', '.join(able)}"
            )
