"""Recipes: how one trained model comes about, resolved from config/ to one flat, checked dictionary.

A recipe's values come in layers, from the family that a data set names (config/families: network, views, optimiser) up
to the suite's overrides. A recipe lists the families it has settings for; on a data set of any other family it is
refused before a job exists, so no value of one kind of data ever serves another by accident. Needs no torch.
"""

import functools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pipeline import catalogue
from pipeline.data_set import check_below
from pipeline.layers import Layer, layers, merge
from pipeline.naming import ConfigError, require
from pipeline.signatures import Signature, check_settings, read_signature

METHODS = Path(__file__).resolve().parent.parent / "methods"
NO_METHODS = ("method", "__init__")  # files of methods/ that hold none
TREATMENTS = ("split_batch_norm", "frozen", "weights")  # keys of `network` that are no part of its architecture


def names() -> list[str]:
    """All recipes and variants: "mixem", "mixem-paper", ...; fragments that only serve `extends` are left out."""
    known: list[str] = []
    for path in catalogue.places("recipes").values():
        known += _names_in(path, path.stat().st_mtime_ns, catalogue.read_yaml)
    return known


@functools.lru_cache(maxsize=512)
def _names_in(path: Path, _mtime: int, read: Callable[[Path], Any]) -> tuple[str, ...]:
    """A recipe and its variants, of one state of its file."""
    variants = (read(path) or {}).get("variants") or {}
    return (path.stem, *(f"{path.stem}-{variant}" for variant in variants))


def resolve(
    name: str,
    dataset: str,
    overrides: Mapping[str, Mapping[str, Any]] | None = None,
    second_stages: tuple[str, ...] = (),
    known: dict[tuple[str, str], dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """The recipe `name` ("recipe" or "recipe-variant") for a data set, checked, with every layer merged.

    `overrides`: the suite's, recipe name or "*" -> values. A recipe with a base has the architecture of that base's
    network, whatever its own layers are silent about. Raises ConfigError for unknown names, keys and values, for a
    family without settings, for a network that differs from the base's, and for a base that starts from itself.
    `second_stages`: the recipes whose base this one is. `known`: bases that are resolved already, (recipe, data set) ->
    recipe with the same overrides; it is added to, and what it holds must not be changed.
    """
    if name in second_stages:
        line = " <- ".join([*second_stages, name])
        raise ConfigError(f"recipe {name!r} starts from itself: {line}; `base: null` in one of them ends the circle")
    stack = layers(name, dataset, overrides)
    where = catalogue.short(catalogue.places("recipes")[name.partition("-")[0]])
    where += f", variant {name.partition('-')[2]}" if "-" in name else ""
    merged: dict[str, Any] = {}
    for layer in stack:
        merged = merge(merged, layer.content)
    if isinstance(merged.get("network"), dict):
        merged["network"] = _network(merged, stack, dataset, overrides, where, (*second_stages, name), known)
    merged["augmentation"] = {key: value for key, value in merged["augmentation"].items() if value is not None}
    _check(merged, where + (" with the suite's overrides" if overrides else ""))
    return {"name": name, **merged}


def _check(recipe: dict[str, Any], where: str) -> None:
    catalogue.check(recipe, "recipe", where)
    catalogue.check(recipe["augmentation"], "augmentation", f"{where}: augmentation")
    _check_method(recipe, where)
    if path := recipe.get("labels", {}).get("list"):
        check_below(path, f"{where}: labels.list")


def _network(
    merged: Mapping[str, Any],
    stack: list[Layer],
    dataset: str,
    overrides: Mapping[str, Mapping[str, Any]] | None,
    where: str,
    second_stages: tuple[str, ...],
    known: dict[tuple[str, str], dict[str, Any]] | None,
) -> dict[str, Any]:
    """The recipe's network; with a base the base's architecture, and of its own what is no architecture."""
    network = {key: value for key, value in merged["network"].items() if value is not None}
    if not merged.get("base"):
        return network
    require(f"recipe of the base in {where}", merged["base"]["recipe"], names())
    other, of_base = merged["base"].get("dataset", dataset), merged["base"]["recipe"]
    known = {} if known is None else known
    try:
        if (of_base, other) not in known:
            known[of_base, other] = resolve(of_base, other, overrides, second_stages, known)
        base = architecture(known[of_base, other])
    except ConfigError as problem:
        raise ConfigError(f"{where}: its base: {problem}") from None
    _refuse_other_inputs(dataset, other, base, where)
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


def _refuse_other_inputs(dataset: str, other: str, network: Mapping[str, Any], where: str) -> None:
    """Weights learned on another data set fit if its images have as many channels; dense layers want the very shape."""
    shape, of_base = (catalogue.entry("data set", name)["shape"] for name in (dataset, other))
    dense = network["backbone"] in ("mlp", "none")
    if (shape != of_base) if dense else (shape[2] != of_base[2]):
        raise ConfigError(
            f"{where}: its base is trained on data set {other!r} of shape {of_base}, whose {network['backbone']} does "
            f"not fit {dataset!r} of shape {shape}; choose a base of the same shape"
        )


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


def method_names() -> list[str]:
    """Names of all methods: the modules of methods/ that hold one."""
    return sorted(path.stem for path in METHODS.glob("*.py") if path.stem not in NO_METHODS)


def train_splits(recipe: Mapping[str, Any], protocol: Mapping[str, Any]) -> list[str]:
    """The splits a run trains on. A method that uses labels gets the probes' training splits, never scored labels."""
    if not signature(recipe["method"]).literals.get("uses_labels"):
        return protocol["train"]
    if "probe" not in protocol:
        raise ConfigError(
            f"method {recipe['method']!r} learns from labels, on the probes' splits, of which the protocol has none; "
            "choose another protocol"
        )
    return protocol["probe"]["train"]


def splits_read(recipe: Mapping[str, Any], name: str, protocol: Mapping[str, Any]) -> dict[str, Any]:
    """The part of protocol `name` that training reads and its record holds: the scored splits where it watches them."""
    watched = {"score": protocol["score"]} if "watched" in recipe.get("neighbours", {}) else {}
    return {"name": name, "train": train_splits(recipe, protocol), **watched}


def signature(method: str) -> Signature:
    """Settings, loss terms and flags of a method, read from its source."""
    path = METHODS / f"{method}.py"
    if method in NO_METHODS or not path.is_file():
        require("method", method, method_names())
    return read_signature(path)


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
