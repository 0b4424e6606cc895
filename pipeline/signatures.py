"""What a file of a wing declares (a method, assigner, probe or figure), read from its source and never imported.

The ground floor checks configuration before any job starts and on machines without torch, so it reads the typed fields
of the file's `Settings` dataclass, and literals such as `terms`, from the syntax tree. The file that uses a setting is
the file that declares it: there is no list of settings anywhere else.
"""

import ast
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.naming import ConfigError, suggestion


@dataclass(frozen=True)
class Signature:
    """`settings`: field -> annotation; `optional`: fields with a default; `literals`: class or module constants."""

    settings: Mapping[str, str]
    optional: frozenset[str]
    literals: Mapping[str, Any]


def read_signature(path: Path) -> Signature:
    """The signature of the file at `path`. A file without a `Settings` class has no settings."""
    return _read(path, path.read_bytes())


@functools.lru_cache(maxsize=512)
def _read(path: Path, text: bytes) -> Signature:
    tree = ast.parse(text, str(path))
    settings: dict[str, str] = {}
    optional: set[str] = set()
    literals: dict[str, Any] = {}
    for node in tree.body:
        literals |= _literals(node)
        if not isinstance(node, ast.ClassDef):
            continue
        if node.name == "Settings":
            for field in node.body:
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                    settings[field.target.id] = ast.unparse(field.annotation)
                    if field.value is not None:
                        optional.add(field.target.id)
        else:
            for statement in node.body:
                literals |= _literals(statement)
    return Signature(settings, frozenset(optional), literals)


def _literals(node: ast.stmt) -> dict[str, Any]:
    """The constant that an assignment gives a name, if it is one."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        try:
            return {node.targets[0].id: ast.literal_eval(node.value)}
        except ValueError:
            return {}
    return {}


def check_settings(given: Mapping[str, Any], signature: Signature, where: str, needed_by: str) -> None:
    """Raise ConfigError for an unknown key, a missing one, and a value that does not fit its annotation."""
    for extra in given:
        if extra not in signature.settings:
            raise ConfigError(f"{where}: unknown key {extra!r}; {suggestion(extra, signature.settings)}")
    for name, annotation in signature.settings.items():
        if name not in given:
            if name not in signature.optional:
                raise ConfigError(f"{where}: {name!r} is missing; {needed_by} needs it")
        elif not fits(given[name], annotation):
            raise ConfigError(f"{where}.{name}: {given[name]!r} found, {annotation} expected")


def fits(value: Any, annotation: str) -> bool:
    """Whether a YAML value fits an annotation made of int, float, bool, str, list, dict, None, Literal and `|`."""
    return _fits(value, _expression(annotation))


@functools.lru_cache(maxsize=512)
def _expression(annotation: str) -> ast.expr:
    return ast.parse(annotation, mode="eval").body


TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "str": (str,),
    "list": (list,),
    "dict": (dict,),
}


def _fits(value: Any, node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):  # a | b
        return _fits(value, node.left) or _fits(value, node.right)
    if isinstance(node, ast.Constant):
        return value is None if node.value is None else False
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
        if node.value.id == "Literal":
            options = ast.literal_eval(node.slice)
            return value in (options if isinstance(options, tuple) else (options,))
        if node.value.id == "list":
            return isinstance(value, list) and all(_fits(item, node.slice) for item in value)
        return isinstance(value, TYPES[node.value.id])
    if isinstance(node, ast.Name):
        # YAML's true is an int to Python; here it is not.
        return isinstance(value, TYPES[node.id]) and (node.id == "bool" or not isinstance(value, bool))
    return False
