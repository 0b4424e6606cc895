"""The catalogue: everything that is named in config/ (data sets, protocols, assigners, probes, metrics, tables), and in
own/, a folder of the same layout for what is a user's own and no part of the project.

Configuration is data. It is read here once, checked against config/schemas/, and a name or key that does not exist is
an error that offers the nearest one that does.
"""

import functools
import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from pipeline import wings
from pipeline.data_set import check_data_set, check_name
from pipeline.naming import ConfigError, require, suggestion
from pipeline.row_groups import expand

CONFIG = Path(__file__).resolve().parent.parent / "config"
OWN = Path(os.environ.get("BENCH_OWN") or CONFIG.parent / "own").absolute()  # need not exist

# kind -> (folder of one file per name | one file of many names, schema of one entry)
KINDS = {
    "data set": ("datasets", "dataset"),
    "family": ("families", "family"),
    "augmentation": ("augmentations", "augmentation"),
    "table": ("tables", "table"),
    "figure": ("figures", "figure"),
    "protocol": ("protocols.yaml", "protocol"),
    "assigner": ("assigners.yaml", "assigner"),
    "probe": ("probes.yaml", "probe"),
    "metric": ("metrics.yaml", "metric"),
}
# How a value of each type of a schema is written.
WRITTEN = {
    "array": "a list is written [a, b]",
    "object": "write key: value of each entry",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "string": "text",
}
IN_PATHS = ("data set", "protocol", "assigner", "figure")  # kinds whose names are parts of paths of results


def names(kind: str) -> list[str]:
    """All names of a kind, sorted."""
    return sorted(places(KINDS[kind][0]))


def entry(kind: str, name: str) -> dict[str, Any]:
    """The checked configuration of `name`. Raises ConfigError for an unknown name and a wrong key or value."""
    found = places(KINDS[kind][0])
    if name not in found:
        require(kind, name, sorted(found))
    path = found[name]
    return json.loads(_entry(kind, name, path, path.stat().st_mtime_ns if path.is_file() else 0, read_yaml))


@functools.lru_cache(maxsize=1024)  # a plan asks for each entry hundreds of times
def _entry(kind: str, name: str, path: Path, _mtime: int, read: Callable[[Path], Any]) -> str:
    """An entry of one state of its file as JSON, since callers may change what they get."""
    content, where = read(path), short(path)
    if KINDS[kind][0].endswith(".yaml"):
        content, where = content[name], f"{where}, {name}"
    if kind in IN_PATHS:
        check_name(kind, name, where)
    return _valid(kind, json.dumps(content), where)


def places(part: str) -> dict[str, Path]:
    """name -> the file that it stands in: of every file of a folder ("recipes"), or of every key of a file
    ("probes.yaml"), in config/ and in own/. Raises ConfigError for a name in both.
    """
    found: dict[str, Path] = {}
    for place in (CONFIG / part, OWN / part):
        here = _names_in(place, place.stat().st_mtime_ns) if place.exists() else {}
        if twice := sorted(set(found) & set(here)):
            raise ConfigError(
                f"{short(here[twice[0]])}: {twice[0]!r} stands in {short(found[twice[0]])} already; rename your own"
            )
        found |= here
    return found


@functools.lru_cache(maxsize=256)
def _names_in(place: Path, _mtime: int) -> dict[str, Path]:
    if place.suffix == ".yaml":
        content = read_yaml(place) or {}  # nothing but comments: no names
        if not isinstance(content, Mapping):
            raise ConfigError(
                f"{short(place)}: a {type(content).__name__} found; `name: settings` of each entry expected"
            )
        return dict.fromkeys(content, place)
    return {path.stem: path for path in sorted(place.glob("*.yaml"))}


def _checked(kind: str, found: dict[str, Any], where: str) -> dict[str, Any]:
    """An entry that its schema, and the file whose settings it holds, allow; a table with its row groups expanded."""
    return json.loads(_valid(kind, json.dumps(found), where))


@functools.lru_cache(maxsize=1024)  # a plan asks for each entry hundreds of times
def _valid(kind: str, text: str, where: str) -> str:
    """The entry that `text` holds as JSON, checked; JSON again, since callers may change what they get."""
    found = json.loads(text)
    check(found, KINDS[kind][1], where)
    wings.check_entry(kind, found, where)
    if kind == "data set":
        check_data_set(found, where)
    if kind == "table":
        found = {**found, "rows": expand(found["rows"])}
        check(found, KINDS[kind][1], where)
    return json.dumps(found)


def entry_or_json(kind: str, text: str) -> tuple[str, dict[str, Any]]:
    """(name, configuration) from a name, or from JSON text that carries its own `name`: what command lines accept."""
    if text.lstrip().startswith("{"):
        given = json.loads(text)
        name = given.pop("name")
        return name, _checked(kind, given, f"{kind} given as JSON")
    return text, entry(kind, text)


_SOUND: set[tuple[str, str]] = set()  # (schema, value) of what a schema allows


def check(value: Any, schema_name: str, where: str) -> None:
    """Check `value` against config/schemas/{schema_name}.yaml; the error names file, key, finding and cure."""
    # A plan shows the same layer of a recipe for every data set; `repr` tells apart what compares as equal (1, True).
    if (seen := (schema_name, repr(value))) in _SOUND:
        return
    problems = list(_validator(schema_name).iter_errors(value))
    if not problems:
        _SOUND.add(seen)
        return
    problem = jsonschema.exceptions.best_match(problems)
    key = ".".join(str(part) for part in problem.absolute_path)
    at = f"{where}: key {key!r}" if key else where
    if problem.validator in ("additionalProperties", "unevaluatedProperties") and isinstance(problem.instance, Mapping):
        known = set(problem.schema.get("properties", {}))
        for shared in problem.schema.get("allOf", ()):  # keys that several places of a schema share
            known |= set(schema(schema_name)["$defs"][shared["$ref"].rpartition("/")[2]]["properties"])
        extra = sorted(set(problem.instance) - known)
        raise ConfigError(f"{at}: unknown key {extra[0]!r}; {suggestion(extra[0], known)}")
    cure = f" ({_written(problem.validator_value)})" if problem.validator == "type" else ""
    raise ConfigError(f"{at}: {problem.message}{cure}")


def _written(types: str | list[str]) -> str:
    """How a value of one of these types of a schema is written."""
    return " or ".join(WRITTEN.get(name, name) for name in ([types] if isinstance(types, str) else types))


@functools.lru_cache(maxsize=32)
def schema(name: str) -> dict[str, Any]:
    """config/schemas/{name}.yaml; not to be changed."""
    return read_yaml(CONFIG / "schemas" / f"{name}.yaml")


@functools.lru_cache(maxsize=32)
def _validator(schema: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(read_yaml(CONFIG / "schemas" / f"{schema}.yaml"))


def read_yaml(path: Path) -> Any:
    """Parsed YAML file, fresh on every call (callers may change what they get)."""
    return _parse(path, path.stat().st_mtime_ns)() if path.is_file() else _missing(path)


@functools.lru_cache(maxsize=256)
def _parse(path: Path, _mtime: int) -> Callable[[], Any]:
    text = path.read_text(encoding="utf-8")
    try:
        parsed = yaml.load(text, Loader=_UniqueKeys)
    except yaml.YAMLError as problem:
        said = " ".join(str(problem).replace('in "<unicode string>", ', "at ").split())
        raise ConfigError(f"{short(path)}: not valid YAML: {said}") from None
    dumped = json.dumps(parsed)  # a JSON round trip is several times faster than copying or parsing YAML again
    return lambda: json.loads(dumped)


def _missing(path: Path) -> Any:
    raise ConfigError(f"{short(path)}: no such file")


def short(path: Path) -> str:
    """A path of the configuration as messages give it."""
    return str(path.relative_to(CONFIG.parent)) if path.is_relative_to(CONFIG.parent) else str(path)


_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # in C where it is there: ten times as fast


class _UniqueKeys(_Loader):  # type: ignore[misc]
    """YAML keeps the last of two equal keys without a word; here that is an error. Floats may be written 1e-3."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":  # `<<`: keys of an anchor, which the mapping may override
                continue
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} stands twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


# YAML 1.1 reads 1e-3 as text because it lacks a dot.
FLOAT = r"[-+]?\d+(\.\d*)?[eE][-+]?\d+"
_UniqueKeys.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(f"^{FLOAT}$"), list("-+0123456789"))
