"""Figures by name: the files of config/figures, and {kind}-{recipe}-{assigner} for the clusters of any run.

`gallery-mixem-argmax` is the gallery of MIX'EM's dominant components, `confusion-simclr-kmeans` the confusion matrix of
K-means on SimCLR: no file is needed for them. What a kind needs, its file in report/figures says as a literal:
`of_clusters` (each run comes with an assigner), `of_images` (no vectors), `of_labels`, and its `title`.
"""

import json
from collections.abc import Mapping
from typing import Any

from pipeline import catalogue, recipes, wings
from pipeline.data_set import are_vectors, without_labels
from pipeline.naming import ConfigError, require


def entry(name: str) -> dict[str, Any]:
    """The checked configuration of a figure. Raises ConfigError for an unknown name, kind, recipe or assigner."""
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


def check_clusters(where: str, figure: Mapping[str, Any], dataset: str, protocol: str) -> None:
    """The assigners of a figure are known, and its data set has what its kind shows. Raises ConfigError."""
    literals, spec = _literals(figure["kind"]), catalogue.entry("data set", dataset)
    for label, shown in figure["recipes"].items():
        recipe, assigner = named(shown)
        if assigner is not None:
            require(f"assigner in {where}:", assigner, catalogue.names("assigner"))
        elif literals.get("of_clusters"):
            raise ConfigError(
                f"{where}: kind {figure['kind']!r} shows clusters, but {label!r} names no assigner; write "
                f"{{recipe: {recipe}, assigner: kmeans}}"
            )
    if literals.get("of_images") and are_vectors(spec["shape"]):
        raise ConfigError(
            f"{where}: the rows of data set {dataset!r} are vectors, of which there are no images; leave it out"
        )
    unlabelled = without_labels(spec) or catalogue.entry("protocol", protocol)["score"] == ["unlabeled"]
    if literals.get("of_labels") and unlabelled:
        raise ConfigError(
            f"{where}: compares clusters with classes, and the scored rows of data set {dataset!r} have no labels; a "
            "gallery shows clusters without"
        )


def named(shown: str | Mapping[str, str]) -> tuple[str, str | None]:
    """(recipe, assigner or None) of one entry of a figure's `recipes`."""
    return (shown, None) if isinstance(shown, str) else (shown["recipe"], shown.get("assigner"))


def _literals(kind: str) -> dict[str, Any]:
    return dict(wings.signature("figure", kind).literals)
