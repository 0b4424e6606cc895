"""Recipes: how one trained model comes about, resolved from config/ to one flat, checked dictionary.

A recipe's values come in layers, from the family that a data set names (config/families: network, views, optimiser) up
to the suite's overrides. A recipe lists the families it has settings for; on a data set of any other family it is
refused before a job exists, so no value of one kind of data ever serves another by accident. Needs no torch.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline import catalogue
from pipeline.naming import ConfigError, require, suggestion
from pipeline.signatures import Signature, check_settings, read_signature

METHODS = Path(__file__).resolve().parent.parent / "methods"
TREATMENTS = ("split_batch_norm", "frozen", "weights")  # keys of `network` that are no part of its architecture


@dataclass(frozen=True)
class Layer:
    """One source of values: the file they stand in (None: the suite's overrides), the keys that lead to them there."""

    file: Path | None
    keys: tuple[str, ...]
    content: Mapping[str, Any]


def names() -> list[str]:
    """All recipes and variants: "mixem", "mixem-paper", ...; fragments that only serve `extends` are left out."""
    known = []
    for path in sorted((catalogue.CONFIG / "recipes").glob("*.yaml")):
        variants = catalogue.read_yaml(path).get("variants") or {}
        known += [path.stem, *(f"{path.stem}-{variant}" for variant in variants)]
    return known


def resolve(name: str, dataset: str, overrides: Mapping[str, Mapping[str, Any]] | None = None) -> dict[str, Any]:
    """The recipe `name` ("recipe" or "recipe-variant") for a data set, checked, with every layer merged.

    `overrides`: the suite's, recipe name or "*" -> values. A recipe with a base has the architecture of that base's
    network, whatever its own layers are silent about. Raises ConfigError for unknown names, keys and values, for a
    family without settings, and for a network that differs from the base's.
    """
    where = f"config/recipes/{name.partition('-')[0]}.yaml"
    where += f", variant {name.partition('-')[2]}" if "-" in name else ""
    stack = layers(name, dataset, overrides)
    merged: dict[str, Any] = {}
    for layer in stack:
        merged = merge(merged, layer.content)
    merged.pop("title", None)  # the family's
    if isinstance(merged.get("network"), dict):
        merged["network"] = _network(merged, stack, dataset, overrides, where)
    merged["augmentation"] = {key: value for key, value in merged["augmentation"].items() if value is not None}
    _check(merged, where + (" with the suite's overrides" if overrides else ""))
    return {"name": name, **merged}


def _check(recipe: dict[str, Any], where: str) -> None:
    catalogue.check(recipe, "recipe", where)
    catalogue.check(recipe["augmentation"], "augmentation", f"{where}: augmentation")
    _check_method(recipe, where)


def layers(name: str, dataset: str, overrides: Mapping[str, Mapping[str, Any]] | None = None) -> list[Layer]:
    """The sources of a recipe's values for a data set, lowest first.

    The family's defaults; of the files that the recipe extends and of the recipe itself what holds everywhere, what
    holds for the family, what holds for the data set; the same three of the variant; the overrides of "*", of the
    recipe and of the variant.
    """
    stem, _, variant = name.partition("-")
    require("recipe", stem, [path.stem for path in (catalogue.CONFIG / "recipes").glob("*.yaml")])
    family = catalogue.entry("data set", dataset)["family"]
    require(f"family of data set {dataset!r}", family, catalogue.names("family"))
    files = _chain(stem)
    path, own = files[-1]
    _refuse_without_settings(stem, files, family, dataset)
    family_file = catalogue.CONFIG / "families" / f"{family}.yaml"
    stack = [Layer(family_file, (), catalogue.entry("family", family))]
    parts: list[Part] = [(file, (), content) for file, content in files]
    stack += _parts(parts, family, dataset)
    if variant:
        variants = own.get("variants") or {}
        if variant not in variants:
            raise ConfigError(
                f"config/recipes/{stem}.yaml: unknown variant {variant!r}; {suggestion(variant, variants)}"
            )
        stack += _parts([(path, ("variants", variant), variants[variant] or {})], family, dataset)
    for key in dict.fromkeys(("*", stem, name)):
        if overrides and overrides.get(key):
            stack.append(Layer(None, ("overrides", key), overrides[key]))
    return [Layer(layer.file, layer.keys, _with_views(layer.content, layer.file)) for layer in stack]


SCOPES = ("families", "datasets")
Part = tuple[Path, tuple[str, ...], dict[str, Any]]  # file, keys that lead to the content there, content


def _parts(parts: list[Part], family: str, dataset: str) -> list[Layer]:
    """What each part says everywhere, then what each says for the family, then for the data set."""
    stack = []
    for file, keys, content in parts:
        for scope, kind in zip(SCOPES, ("family", "data set"), strict=True):
            for known in content.get(scope) or {}:
                require(f"{kind} in {file.name}", known, catalogue.names(kind))
        plain = {key: value for key, value in content.items() if key not in (*SCOPES, "variants", "extends")}
        stack.append(Layer(file, keys, plain))
    for scope, key in zip(SCOPES, (family, dataset), strict=True):
        for file, keys, content in parts:
            if settings := (content.get(scope) or {}).get(key):
                stack.append(Layer(file, (*keys, scope, key), settings))
    return stack


def _refuse_without_settings(stem: str, files: list[tuple[Path, dict[str, Any]]], family: str, dataset: str) -> None:
    """A recipe serves the families and data sets that it lists; null withdraws what an extended file lists."""
    listed: dict[str, Any] = {}
    for _, content in files:
        for scope in SCOPES:
            listed |= {f"{scope} {key}": value for key, value in (content.get(scope) or {}).items()}
    if listed.get(f"datasets {dataset}", listed.get(f"families {family}")) is None:
        known = sorted(key.partition(" ")[2] for key, value in listed.items() if value is not None)
        raise ConfigError(
            f"recipe {stem!r} has no settings for data set {dataset!r} (family {family!r}), only for "
            f"{', '.join(known) or 'none'}; write them under `families: {family}:` in config/recipes/{stem}.yaml, or "
            "leave the data set out"
        )


def _with_views(content: Mapping[str, Any], file: Path | None) -> dict[str, Any]:
    """The layer with a named augmentation ("moco_v2", or a `preset` with changes) written out."""
    views = content.get("augmentation")
    if isinstance(views, str):
        views = {"preset": views}
    if not isinstance(views, Mapping) or "preset" not in views:
        return dict(content)
    where = f"augmentation in {file.name if file else 'the overrides'}"
    require(where, views["preset"], catalogue.names("augmentation"))
    changes = {key: value for key, value in views.items() if key != "preset"}
    # `whole` tells merge() that nothing of the layers below stays.
    return {**content, "augmentation": Whole(merge(catalogue.entry("augmentation", views["preset"]), changes))}


class Whole(dict[str, Any]):
    """A value that replaces what lies below it instead of being merged key by key."""


# Another backbone, optimiser or schedule has other keys: naming one brings it whole.
NAMED_BY = {"network": "backbone", "optimiser": "name", "schedule": "name"}
ALTERNATIVES = ("labels",)  # its keys exclude each other


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """`above` laid over `below`, dictionaries key by key; neither is changed."""
    result = dict(below)
    for key, value in above.items():
        whole = isinstance(value, Whole) or key in ALTERNATIVES
        whole = whole or (isinstance(value, Mapping) and NAMED_BY.get(key, "") in value)
        if not whole and isinstance(value, Mapping) and isinstance(result.get(key), Mapping):
            result[key] = merge(result[key], value)
        else:
            result[key] = dict(value) if isinstance(value, Mapping) else value
    return result


def _network(
    merged: Mapping[str, Any],
    stack: list[Layer],
    dataset: str,
    overrides: Mapping[str, Mapping[str, Any]] | None,
    where: str,
) -> dict[str, Any]:
    """The recipe's network; with a base the base's architecture, and of its own what is no architecture."""
    network = {key: value for key, value in merged["network"].items() if value is not None}
    if not merged.get("base"):
        return network
    require(f"recipe of the base in {where}", merged["base"]["recipe"], names())
    base = architecture(resolve(merged["base"]["recipe"], merged["base"].get("dataset", dataset), overrides))
    said: dict[str, Any] = {}
    for layer in stack[1:]:  # the family's network is a default, not a statement
        said = merge(said, {"network": layer.content.get("network") or {}})
    for key, value in said["network"].items():
        if key not in TREATMENTS and base.get(key) != value:
            raise ConfigError(
                f"{where}: network.{key}: {value!r}, but the base {merged['base']['recipe']!r} has {base.get(key)!r} "
                f"on data set {dataset!r}; leave the key out, the recipe takes the network of its base"
            )
    return base | {key: value for key, value in network.items() if key in TREATMENTS}


def architecture(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """What weights must fit: the network without the ways it is treated."""
    return {key: value for key, value in recipe["network"].items() if key not in TREATMENTS}


def resolve_or_json(text: str, dataset: str) -> dict[str, Any]:
    """A resolved recipe from its name, or from JSON text of one (what the pipeline passes on command lines)."""
    if text.lstrip().startswith("{"):
        given = json.loads(text)
        content = {key: value for key, value in given.items() if key != "name"}
        _check(content, "recipe given as JSON")
        return given
    return resolve(text, dataset)


def _chain(stem: str, seen: tuple[str, ...] = ()) -> list[tuple[Path, dict[str, Any]]]:
    """(file, content) of all that a recipe or fragment extends, lowest first, and of itself."""
    if stem in seen:
        raise ConfigError(f"config/recipes/{stem}.yaml: extends itself through {' -> '.join([*seen, stem])}")
    folder = catalogue.CONFIG / "recipes"
    path = folder / f"{stem}.yaml"
    if not path.is_file():
        path = folder / "fragments" / f"{stem}.yaml"
    if not path.is_file():
        known = [file.stem for file in folder.rglob("*.yaml")]
        raise ConfigError(f"unknown recipe or fragment {stem!r}; {suggestion(stem, known)}")
    content = catalogue.read_yaml(path)
    below = content.get("extends", [])
    files: list[tuple[Path, dict[str, Any]]] = []
    for other in [below] if isinstance(below, str) else below:
        files += _chain(other, (*seen, stem))
    return [*files, (path, content)]


def method_names() -> list[str]:
    """Names of all methods: the modules of methods/ that hold one."""
    return sorted(path.stem for path in METHODS.glob("*.py") if path.stem not in ("method", "__init__"))


def train_splits(recipe: Mapping[str, Any], protocol: Mapping[str, Any]) -> list[str]:
    """The splits a run trains on. A method that uses labels gets the probes' training splits, never scored labels."""
    return protocol["probe"]["train"] if signature(recipe["method"]).literals.get("uses_labels") else protocol["train"]


def splits_read(recipe: Mapping[str, Any], name: str, protocol: Mapping[str, Any]) -> dict[str, Any]:
    """The part of protocol `name` that training reads and its record holds: the scored splits where it watches them."""
    watched = {"score": protocol["score"]} if "watched" in recipe.get("neighbours", {}) else {}
    return {"name": name, "train": train_splits(recipe, protocol), **watched}


def signature(method: str) -> Signature:
    """Settings, loss terms and flags of a method, read from its source."""
    require("method", method, method_names())
    return read_signature(METHODS / f"{method}.py")


def _check_method(recipe: Mapping[str, Any], where: str) -> None:
    method, declared = f"method {recipe['method']!r}", signature(recipe["method"])
    neighbours = declared.literals.get("uses_neighbours", False)
    if neighbours and not (recipe.get("neighbours") and recipe.get("base")):
        raise ConfigError(f"{where}: {method} needs `base` and `neighbours`, mined in its features")
    if recipe.get("neighbours") and not neighbours:
        raise ConfigError(f"{where}: {method} uses no neighbours; leave the key out")
    check_settings(recipe.get("settings", {}), declared, f"{where}: settings", method)
    terms, weights = declared.literals.get("terms", ()), recipe.get("weights", {})
    check_settings(weights, Signature(dict.fromkeys(terms, "float"), frozenset(), {}), f"{where}: weights", method)
