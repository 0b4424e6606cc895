"""The catalogue: everything that is named in config/ (data sets, protocols, assigners, probes, metrics, tables).

Configuration is data. It is read here once, checked against config/schemas/, and a name or key that does not exist is
an error that offers the nearest one that does.
"""

import functools
import json
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
IN_PATHS = ("data set", "protocol", "assigner", "figure")  # kinds whose names are parts of paths of results


def names(kind: str) -> list[str]:
    """All names of a kind, sorted."""
    place = CONFIG / KINDS[kind][0]
    if place.suffix == ".yaml":
        return sorted(read_yaml(place))
    return sorted(path.stem for path in place.glob("*.yaml"))


def entry(kind: str, name: str) -> dict[str, Any]:
    """The checked configuration of `name`. Raises ConfigError for an unknown name and a wrong key or value."""
    require(kind, name, names(kind))
    place = CONFIG / KINDS[kind][0]
    if place.suffix == ".yaml":
        found, where = read_yaml(place)[name], f"{_short(place)}, {name}"
    else:
        found, where = read_yaml(place / f"{name}.yaml"), _short(place / f"{name}.yaml")
    if kind in IN_PATHS:
        check_name(kind, name, where)
    return _checked(kind, found, where)


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


def check(value: Any, schema_name: str, where: str) -> None:
    """Check `value` against config/schemas/{schema_name}.yaml; the error names file, key, finding and cure."""
    problems = list(_validator(schema_name).iter_errors(value))
    if not problems:
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
    raise ConfigError(f"{at}: {problem.message}")


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
        raise ConfigError(f"{_short(path)}: not valid YAML: {problem}") from None
    dumped = json.dumps(parsed)  # a JSON round trip is several times faster than copying or parsing YAML again
    return lambda: json.loads(dumped)


def _missing(path: Path) -> Any:
    raise ConfigError(f"{_short(path)}: no such file")


def _short(path: Path) -> str:
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
