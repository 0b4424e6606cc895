"""Recipes: how one trained model comes about, resolved from config/recipes to one flat, checked dictionary.

Needs no torch: the pipeline resolves every recipe before any job starts. A method's own keys are read from the
`Settings` of its file, so the file that uses a key is the file that declares it.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline import catalogue
from pipeline.catalogue import ConfigError
from pipeline.signatures import Signature, check_settings, read_signature

METHODS = Path(__file__).resolve().parent.parent / "methods"


def names() -> list[str]:
    """All recipes and variants: "mixem", "mixem-paper", ...; fragments that only serve `extends` are left out."""
    found = []
    for path in sorted((catalogue.CONFIG / "recipes").glob("*.yaml")):
        found.append(path.stem)
        found += [f"{path.stem}-{variant}" for variant in (_chain(path.stem).get("variants") or {})]
    return found


def resolve(name: str, dataset: str, overrides: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The recipe `name` ("recipe" or "recipe-variant") for a data set, checked, with every layer merged.

    Layers, later ones win: files named in `extends`, the recipe, its `per_dataset` entry, its variant, the variant's
    `per_dataset` entry, `overrides` (from the suite). Raises ConfigError for unknown names, keys and values.
    """
    stem, _, variant = name.partition("-")
    catalogue.require("recipe", stem, [path.stem for path in (catalogue.CONFIG / "recipes").glob("*.yaml")])
    recipe = _chain(stem)
    where = f"config/recipes/{stem}.yaml"
    variants = recipe.pop("variants", None) or {}
    layers = [recipe]
    if variant:
        if variant not in variants:
            raise ConfigError(f"{where}: unknown variant {variant!r}; {catalogue.suggestion(variant, variants)}")
        layers.append(variants[variant])
    merged: dict[str, Any] = {}
    for layer in layers:
        per_dataset = layer.pop("per_dataset", None) or {}
        for known in per_dataset:
            catalogue.require("data set", known, catalogue.names("data set"))
        merged = merge(merge(merged, layer), per_dataset.get(dataset, {}))
    if overrides:
        merged = merge(merged, overrides)
        where += " with the suite's overrides"
    catalogue.check(merged, "recipe", where if not variant else f"{where}, variant {variant}")
    _check_method(merged, where)
    return {"name": name, **merged}


def resolve_or_json(text: str, dataset: str) -> dict[str, Any]:
    """A resolved recipe from its name, or from JSON text of one (what the pipeline passes on command lines)."""
    if text.lstrip().startswith("{"):
        given = json.loads(text)
        content = {key: value for key, value in given.items() if key != "name"}
        catalogue.check(content, "recipe", "recipe given as JSON")
        _check_method(content, "recipe given as JSON")
        return given
    return resolve(text, dataset)


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """`above` laid over `below`, dictionaries key by key; neither is changed. A new backbone brings a whole network."""
    result = dict(below)
    for key, value in above.items():
        # Another backbone has other keys: nothing of the network below it stays.
        whole = key == "network" and isinstance(value, Mapping) and "backbone" in value
        if not whole and isinstance(value, Mapping) and isinstance(result.get(key), Mapping):
            result[key] = merge(result[key], value)
        else:
            result[key] = value
    return result


def _chain(stem: str, seen: tuple[str, ...] = ()) -> dict[str, Any]:
    """The file and all that it extends, merged."""
    if stem in seen:
        raise ConfigError(f"config/recipes/{stem}.yaml: extends itself through {' -> '.join([*seen, stem])}")
    folder = catalogue.CONFIG / "recipes"
    path = folder / f"{stem}.yaml"
    if not path.is_file():
        path = folder / "fragments" / f"{stem}.yaml"
    if not path.is_file():
        fragments = [p.stem for p in folder.rglob("*.yaml")]
        raise ConfigError(f"unknown recipe or fragment {stem!r}; {catalogue.suggestion(stem, fragments)}")
    recipe = catalogue.read_yaml(path)
    result: dict[str, Any] = {}
    below = recipe.pop("extends", [])
    for other in [below] if isinstance(below, str) else below:
        result = merge(result, _chain(other, (*seen, stem)))
    return merge(result, recipe)


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
    catalogue.require("method", method, method_names())
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
