"""Recipes: how one trained model comes about, resolved from config/recipes to one flat, checked dictionary.

Needs no torch: the pipeline resolves every recipe before any job starts. A method's own keys are read from the
signature of its class, so the file that uses a key is the file that declares it.
"""

import ast
import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline import catalogue
from pipeline.catalogue import ConfigError

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
    return protocol["probe"]["train"] if signature(recipe["method"])[2] else protocol["train"]


def splits_read(recipe: Mapping[str, Any], name: str, protocol: Mapping[str, Any]) -> dict[str, Any]:
    """The part of protocol `name` that training reads and its record holds: the scored splits where it watches them."""
    watched = {"score": protocol["score"]} if "watched" in recipe.get("neighbours", {}) else {}
    return {"name": name, "train": train_splits(recipe, protocol), **watched}


def signature(method: str) -> tuple[dict[str, str], tuple[str, ...], bool, bool]:
    """({setting: annotation}, loss terms, uses labels, uses neighbours) of a method, from its source, not imported."""
    catalogue.require("method", method, method_names())
    path = METHODS / f"{method}.py"
    return _signature(path, path.read_text(encoding="utf-8"))


@functools.lru_cache(maxsize=128)
def _signature(path: Path, text: str) -> tuple[dict[str, str], tuple[str, ...], bool, bool]:
    tree = ast.parse(text, str(path))
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    chosen = next(
        node.value.id
        for node in tree.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "METHOD"
    )
    settings: dict[str, str] = {}
    literals: dict[str, Any] = {"terms": (), "uses_labels": False, "uses_neighbours": False}
    for node in classes[chosen].body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            settings = {argument.arg: ast.unparse(argument.annotation) for argument in node.args.kwonlyargs}
            if node.args.kwarg:  # the settings of the method it extends, passed on
                settings = signature(_extended(tree, classes[chosen].bases[0].id))[0] | settings
        if isinstance(node, ast.Assign) and (name := getattr(node.targets[0], "id", "")) in literals:
            literals[name] = ast.literal_eval(node.value)
    return settings, literals["terms"], literals["uses_labels"], literals["uses_neighbours"]


def _extended(tree: ast.Module, name: str) -> str:
    """The module of methods/ from which `name` is imported."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and name in [alias.name for alias in node.names]:
            return node.module.removeprefix("methods.")
    raise ConfigError(f"class {name!r}, whose settings are passed on, is not imported from methods/")


def _check_method(recipe: Mapping[str, Any], where: str) -> None:
    settings, terms, _, neighbours = signature(recipe["method"])
    if neighbours and not (recipe.get("neighbours") and recipe.get("base")):
        raise ConfigError(f"{where}: method {recipe['method']!r} needs `base` and `neighbours`, mined in its features")
    if recipe.get("neighbours") and not neighbours:
        raise ConfigError(f"{where}: method {recipe['method']!r} uses no neighbours; leave the key out")
    for key, known in (("settings", settings), ("weights", terms)):
        given = recipe.get(key, {})
        for extra in given:
            if extra not in known:
                raise ConfigError(f"{where}: {key}: unknown key {extra!r}; {catalogue.suggestion(extra, known)}")
        missing = [name for name in known if name not in given]
        if missing:
            raise ConfigError(f"{where}: {key}: {missing[0]!r} is missing; method {recipe['method']!r} needs it")
    for key, annotation in settings.items():
        if not _fits(recipe["settings"][key], annotation):
            raise ConfigError(f"{where}: settings.{key}: {recipe['settings'][key]!r} found, {annotation} expected")


def _fits(value: Any, annotation: str) -> bool:
    kinds = {"int": int, "float": int | float, "bool": bool, "str": str, "list": list, "dict": dict}
    stack = [ast.parse(annotation, mode="eval").body]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.BinOp):
            stack += [node.left, node.right]
        elif isinstance(node, ast.Constant) and node.value is None:
            if value is None:
                return True
        elif isinstance(node, ast.Subscript) and getattr(node.value, "id", "") == "Literal":
            options = ast.literal_eval(node.slice)
            if value in (options if isinstance(options, tuple) else (options,)):
                return True
        else:
            base = node.value.id if isinstance(node, ast.Subscript) else node.id
            if isinstance(value, kinds[base]) and (base == "bool" or not isinstance(value, bool)):
                return True
    return False
