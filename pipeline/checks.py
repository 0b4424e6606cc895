"""What is refused before any job exists.

Unknown names, rows that do not say what they show, and runs that their data set does not allow.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pipeline import catalogue, recipes, wings
from pipeline.data_set import are_vectors, stays_files, without_labels
from pipeline.naming import ConfigError, require
from pipeline.runs import Run


def check_suite(config: Mapping[str, Any]) -> None:
    """Every name in the suite's configuration is known, and every entry of its lists counts once."""
    catalogue.check(config, "suite", "configuration")
    for kind, key in (("data set", "datasets"), ("protocol", "protocols"), ("table", "tables")):
        for name in config[key]:
            require(kind, name, catalogue.names(kind))
    for key in ("datasets", "protocols", "seeds", "tables", "claims"):
        repeated = [value for value in config[key] if config[key].count(value) > 1]
        if repeated:
            raise ConfigError(f"configuration: {key}: {repeated[0]!r} stands twice; every entry counts once")
    for kind, key in (("table", "of_tables"), ("figure", "of_figures")):
        for name in config.get(key, {}):
            require(f"{kind} in {key}", name, catalogue.names(kind))
    for name in config["tables"]:
        if name in ("results", "suite", "claims"):
            raise ConfigError(
                f"table {name!r}: plans of the pipeline itself have this name; give the table another one"
            )
    for name, values in config["overrides"].items():
        if name != "*":
            require("recipe in overrides", name, recipes.names())
        for key in values:  # also those of recipes that no table asks for, whose values are never looked at
            require(f"key of overrides.{name}", key, catalogue.schema("recipe")["properties"])


def check_table(name: str, table: Mapping[str, Any], datasets: Iterable[str], protocols: Iterable[str]) -> None:
    """Every name in a table is known, and each row says what it shows. Raises ConfigError."""
    where = catalogue.short(catalogue.places("tables").get(name, catalogue.CONFIG / "tables" / f"{name}.yaml"))
    for metric in table["metrics"]:
        require(f"metric in {where}", metric, catalogue.names("metric"))
    if isinstance(asked := table.get("paper_columns"), list):
        for dataset in asked:
            require(f"data set of paper_columns in {where}", dataset, catalogue.names("data set"))
    for kind, values, part in (("data set", datasets, "columns"), ("protocol", protocols, "rows")):
        _check_titles(where, kind, values, part)
    for row in table["rows"]:
        at = f"{where}, row {row['label']!r}"
        if "recipe" not in row:
            if "reported" not in row:
                raise ConfigError(f"{at}: neither a recipe nor reported values; give one of them")
            continue
        if ("assigner" in row) == ("probe" in row):
            raise ConfigError(f"{at}: exactly one of assigner and probe is needed")
        require(f"recipe in {where}", row["recipe"], recipes.names())
        for key in ("assigner", "probe"):
            if key in row:
                require(f"{key} in {where}", row[key], catalogue.names(key))
        if row.get("lowest_own_loss") and not any(_is_mean_of(row, other) for other in table["rows"]):
            raise ConfigError(
                f"{at}: lowest_own_loss: one run of several never stands in place of their mean; add the same row "
                "without this key"
            )


def _is_mean_of(chosen: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    """Whether a row is the mean over all the runs that a row of one chosen run chooses from."""
    alike = ("recipe", "assigner", "probe", "seen", "protocol", "datasets", "metrics")
    return not row.get("lowest_own_loss") and all(row.get(key) == chosen.get(key) for key in alike)


def _check_titles(where: str, kind: str, values: Iterable[str], part: str) -> None:
    """Names of `kind` that are known, each once, with titles that a reader of the table can tell apart."""
    titles: dict[str, str] = {}
    for value in values:
        require(f"{kind} in {where}", value, catalogue.names(kind))
        title = catalogue.entry(kind, value)["title"]
        other = titles.setdefault(" ".join(title.split()).casefold(), value)
        if other == value and list(values).count(value) > 1:
            raise ConfigError(f"{where}: {kind} {value!r} stands twice; every entry counts once")
        if other != value:
            raise ConfigError(
                f"{where}: {kind}s {other!r} and {value!r} both have the title {title!r}, so their {part} could not be "
                "told apart; give one of them another title"
            )


def check_run(run: Run, recipe: Mapping[str, Any], assigners: Iterable[str], probes: Iterable[str]) -> None:
    """The data set has the splits of the protocol, rows enough for batch, neighbours and clusters, and labels of the
    kind that is scored. Raises ConfigError.
    """
    spec, protocol = catalogue.entry("data set", run.dataset), catalogue.entry("protocol", run.protocol)
    here = f"on data set {run.dataset!r}"
    _check_labels(run, recipe, probes, spec, protocol)
    train = _rows(spec, run, recipes.train_splits(recipe, protocol), "train")
    fit, score = _rows(spec, run, protocol["fit"], "fit"), _rows(spec, run, protocol["score"], "score")
    if recipe["schedule"]["epochs"] and train < recipe["batch_size"]:
        raise ConfigError(
            f"recipe {run.recipe!r} {here}: N={train} < batch {recipe['batch_size']}: not one full batch; lower "
            "batch_size for this data set"
        )
    limit = recipes.signature(recipe["method"]).literals.get("max_rows")
    if limit and train > limit:
        raise ConfigError(
            f"recipe {run.recipe!r} {here}: N={train} training rows; the memory of method {recipe['method']!r} grows "
            f"with their square: at most {limit}; leave it out here (`datasets` of a table's row)"
        )
    for key, among in (("count", train), ("watched", score)):
        if (wanted := recipe.get("neighbours", {}).get(key, 0)) >= among:
            raise ConfigError(
                f"recipe {run.recipe!r} {here}: neighbours.{key}: {wanted} of N={among} rows, itself not counted; at "
                f"most {among - 1}"
            )
    for name in assigners:
        clusters = catalogue.entry("assigner", name).get("clusters", 1)
        count = spec["classes"] if clusters == "classes" else clusters
        if count > fit:
            raise ConfigError(f"assigner {name!r} {here}: K={count} clusters, but it is fitted on N={fit} rows")
    _check_inputs(run, recipe, spec)
    if spec.get("multilabel"):
        _check_several_labels(run, recipe, assigners, probes)


def _check_inputs(run: Run, recipe: Mapping[str, Any], spec: Mapping[str, Any]) -> None:
    """Network and augmentation suit what the rows are: vectors, images in memory or image files."""
    here, backbone = f"recipe {run.recipe!r} on data set {run.dataset!r}", recipe["network"]["backbone"]
    if are_vectors(spec["shape"]):
        if backbone not in ("mlp", "none"):
            raise ConfigError(
                f"{here}: vectors of shape {spec['shape']}, but {backbone} sees images; set `family: vectors` in "
                f"config/datasets/{run.dataset}.yaml, or the backbone mlp in the recipe"
            )
        if "sobel" in recipe["network"]:
            raise ConfigError(
                f"{here}: vectors of shape {spec['shape']}, but network.sobel is for images; set `network: {{sobel: "
                "null}` in the recipe for its family"
            )
        if recipe["augmentation"]:
            raise ConfigError(
                f"{here}: vectors of shape {spec['shape']}, but augmentation {next(iter(recipe['augmentation']))!r} is "
                "for images; set `augmentation: none`"
            )
    elif stays_files(spec):
        if backbone == "mlp":
            raise ConfigError(
                f"{here}: photographs of shape {spec['shape']}, but {backbone} is for vectors and small images; set a "
                f"family of photographs in config/datasets/{run.dataset}.yaml, or another backbone in the recipe"
            )
        if "size" in recipe["augmentation"].get("crop", {}):
            raise ConfigError(
                f"{here}: augmentation.crop.size: image files are cut to the shape of the data set, {spec['shape']}; "
                "leave the key out"
            )


def _check_labels(
    run: Run, recipe: Mapping[str, Any], probes: Iterable[str], spec: Mapping[str, Any], protocol: Mapping[str, Any]
) -> None:
    """What needs labels has some: the data set has a labelled split, the protocol splits for probes."""
    if "probe" in protocol and not without_labels(spec):
        return
    needing = [f"probe {name!r}" for name in probes]
    if recipes.signature(recipe["method"]).literals.get("uses_labels") or "labels" in recipe:
        needing.insert(0, f"recipe {run.recipe!r}")
    if needing:
        where = f"data set {run.dataset!r}" if without_labels(spec) else f"protocol {run.protocol!r}"
        raise ConfigError(
            f"{needing[0]} needs labels, and {where} has none for it; leave it out of the suite's tables and figures"
        )


def _rows(spec: Mapping[str, Any], run: Run, splits: list[str], use: str) -> int:
    sizes = spec["splits"]
    cure = "use protocol 'clusters'" if without_labels(spec) else "choose another protocol for it"
    if splits == ["all"] and not without_labels(spec):
        return sum(size for name, size in sizes.items() if name != "unlabeled")
    for split in splits:
        if split not in sizes:
            raise ConfigError(
                f"protocol {run.protocol!r} uses split {split!r} to {use}, which data set {run.dataset!r} does not "
                f"have (it has {', '.join(sizes)}); {cure}"
            )
    return sum(sizes[split] for split in splits)


def for_several_labels() -> list[str]:
    """The probes' algorithms that score images with several labels: their files say `several_labels = True`."""
    return [name for name in wings.wing_names("probe") if wings.signature("probe", name).literals.get("several_labels")]


def _check_several_labels(run: Run, recipe: Mapping[str, Any], assigners: Iterable[str], probes: Iterable[str]) -> None:
    """Images with several labels go to probes that say they can use them, and to nothing else."""
    able = for_several_labels()
    unable = [*assigners, *(name for name in probes if catalogue.entry("probe", name)["algorithm"] not in able)]
    if recipes.signature(recipe["method"]).literals.get("uses_labels"):
        unable.append(f"method {recipe['method']}")
    if unable:
        raise ConfigError(
            f"data set {run.dataset!r}: its images have several labels, which {unable[0]!r} cannot use; ask for a "
            f"probe of {', '.join(able)}"
        )
