"""Layers: where a recipe's values come from, one upon the other, each with the file it stands in."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline import catalogue
from pipeline.naming import ConfigError, require, suggestion


@dataclass(frozen=True)
class Layer:
    """One source of values: the file they stand in (None: the suite's overrides), the keys that lead to them there."""

    file: Path | None
    keys: tuple[str, ...]
    content: Mapping[str, Any]


def layers(name: str, dataset: str, overrides: Mapping[str, Mapping[str, Any]] | None = None) -> list[Layer]:
    """The sources of a recipe's values for a data set, lowest first.

    The family's defaults; of the files that the recipe extends and of the recipe itself what holds everywhere, what
    holds for the family, what holds for the data set; the same three of the variant; the overrides of "*", of the
    recipe and of the variant.
    """
    stem, _, variant = name.partition("-")
    require("recipe", stem, catalogue.places("recipes"))
    family = catalogue.entry("data set", dataset)["family"]
    require(f"family of data set {dataset!r}", family, catalogue.names("family"))
    files = _chain(stem)
    path, recipe = files[-1]
    _refuse_without_settings(stem, files, family, dataset)
    family_file = catalogue.places("families")[family]
    defaults = {key: value for key, value in catalogue.entry("family", family).items() if key != "title"}
    stack = [Layer(family_file, (), defaults)]
    parts: list[Part] = [(file, (), content) for file, content in files]
    stack += _parts(parts, family, dataset)
    if variant:
        variants = recipe.get("variants") or {}
        if variant not in variants:
            raise ConfigError(f"{catalogue.short(path)}: unknown variant {variant!r}; {suggestion(variant, variants)}")
        _refuse_unserved(f"{stem}-{variant}", variants[variant], family, dataset)
        stack += _parts([(path, ("variants", variant), variants[variant])], family, dataset)
    for key in dict.fromkeys(("*", stem, name)):
        if overrides and overrides.get(key):
            stack.append(Layer(None, ("overrides", key), overrides[key]))
    for layer in stack:
        _refuse_unknown_nulls(layer)
    return [Layer(layer.file, layer.keys, _with_views(layer.content, layer.file)) for layer in stack]


SCOPES = ("families", "datasets")
Part = tuple[Path, tuple[str, ...], dict[str, Any]]  # file, keys that lead to the content there, content


def _parts(parts: list[Part], family: str, dataset: str) -> list[Layer]:
    """What each part says everywhere, then what each says for the family, then for the data set."""
    stack = []
    for file, keys, content in parts:
        plain = {key: value for key, value in content.items() if key not in (*SCOPES, "variants", "extends", "serves")}
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
            f"{', '.join(known) or 'none'}; write them under `families: {family}:` in "
            f"{catalogue.short(files[-1][0])}, or leave the data set out"
        )


def _refuse_unserved(name: str, variant: Mapping[str, Any], family: str, dataset: str) -> None:
    """A variant that says whom it `serves` is refused elsewhere."""
    serves = variant.get("serves")
    if serves is None:
        return
    names = [*catalogue.names("family"), *catalogue.names("data set")]
    for served in serves:
        require(f"family or data set that {name!r} serves:", served, names)
    if not {family, dataset} & set(serves):
        raise ConfigError(
            f"recipe {name!r} has no settings for data set {dataset!r} (family {family!r}), only for "
            f"{', '.join(serves)}; see its `serves` in config/recipes/{name.partition('-')[0]}.yaml, or leave the data "
            "set out"
        )


def _refuse_unknown_nulls(layer: Layer) -> None:
    """null takes a key of the network or an operation of the views away; a misspelt one would take nothing away."""
    known = {
        "network": catalogue.schema("recipe")["properties"]["network"]["properties"],
        "augmentation": {"preset": {}, **catalogue.schema("augmentation")["properties"]},
    }
    where = ".".join(map(str, layer.keys)) if layer.file is None else layer.file.name
    for part, keys in known.items():
        content = layer.content.get(part)
        for key, value in content.items() if isinstance(content, Mapping) else ():
            if value is None:
                require(f"key of {part} in {where}:", key, keys)


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
    # Whole: a named preset replaces the views of the layers below, nothing of theirs stays.
    return {**content, "augmentation": Whole(merge(catalogue.entry("augmentation", views["preset"]), changes))}


class Whole(dict[str, Any]):
    """A value that replaces what lies below it instead of being merged key by key."""


# Another backbone, optimiser or schedule has other keys, so a layer that names one replaces what lies below it.
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


def _chain(stem: str, seen: tuple[str, ...] = ()) -> list[tuple[Path, dict[str, Any]]]:
    """(file, content) of all that a recipe or fragment extends, lowest first, and of itself."""
    if stem in seen:
        raise ConfigError(f"recipe {stem!r}: extends itself through {' -> '.join([*seen, stem])}")
    known = catalogue.places("recipes/fragments") | catalogue.places("recipes")
    require("recipe or fragment", stem, known)
    path = known[stem]
    _check_file(path, path.stat().st_mtime_ns, catalogue.read_yaml)
    content = catalogue.read_yaml(path)
    below = content.get("extends", [])
    files: list[tuple[Path, dict[str, Any]]] = []
    for other in [below] if isinstance(below, str) else below:
        files += _chain(other, (*seen, stem))
    return [*files, (path, content)]


@functools.lru_cache(maxsize=512)  # a plan shows each file for every recipe and data set that it serves
def _check_file(path: Path, _mtime: int, read: Callable[[Path], Any]) -> None:
    """One state of the file of a recipe or fragment: its keys, and the families and data sets it names."""
    content = read(path)
    catalogue.check(content, "recipe_file", catalogue.short(path))
    for part in (content, *(content.get("variants") or {}).values()):
        for scope, kind in zip(SCOPES, ("family", "data set"), strict=True):
            for name in part.get(scope) or {}:
                require(f"{kind} in {path.name}", name, catalogue.names(kind))
