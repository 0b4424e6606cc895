"""What makes a stage stale: a hash of the code it runs, and a fingerprint of everything else it depends on.

Snakemake sees the command line of a job and its files, but not the Python modules the command imports. `code_version`
closes that gap: it hashes the syntax trees of the named modules and of every project module they import, without
comments, docstrings and layout, so that an edit counts exactly when it can change a result.
"""

import ast
import functools
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("preparation", "methods", "training", "evaluation", "report")  # hashed; the ground packages are not


def code_version(*modules: str) -> str:
    """Hash of the code of `modules` and of all project modules they import, directly or not: 12 hex digits.

    Modules that a stage loads by name at run time must be named here, since no import statement shows them.
    Raises ValueError for a name that is no module of the project.
    """
    digest = hashlib.sha256()
    for module, path in sources(*modules):
        digest.update(f"{module}\0{_canonical(path)}\0".encode())
    return digest.hexdigest()[:12]


def sources(*modules: str) -> tuple[tuple[str, Path], ...]:
    """(module, file) of `modules` and everything of the project they import, sorted by module name."""
    found: dict[str, Path] = {}
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        if module in found or module.partition(".")[0] not in PACKAGES:
            continue
        path = _file(module)
        if path is None:  # `from package.module import name`: the name is no module
            if module in modules:
                raise ValueError(f"no module {module!r} in {ROOT}")
            continue
        found[module] = path
        if "." in module:
            waiting.append(module.rpartition(".")[0])  # importing a module runs its package's __init__ first
        waiting.extend(_imports(module, path))
    return tuple(sorted(found.items()))


def fingerprint(**facts: Any) -> str:
    """Short hash of JSON-serialisable facts; equal facts give equal fingerprints whatever the order of keys."""
    return hashlib.sha256(canonical_json(facts).encode()).hexdigest()[:16]


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces: one text per value, fit for hashing and for command lines."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _file(module: str) -> Path | None:
    base = ROOT.joinpath(*module.split("."))
    for candidate in (base.with_suffix(".py"), base / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


# Keyed by what the file is now: a long-lived process (a test, a notebook) must see edits.
def _canonical(path: Path) -> str:
    return _parsed(path, path.read_bytes())[0]


def _imports(module: str, path: Path) -> tuple[str, ...]:
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    names = []
    for level, target in _parsed(path, path.read_bytes())[1]:
        if level:
            parts = package.split(".")[: len(package.split(".")) - level + 1]
            target = ".".join([*parts, target] if target else parts)
        names.append(target)
    return tuple(names)


@functools.lru_cache(maxsize=1024)
def _parsed(path: Path, text: bytes) -> tuple[str, tuple[tuple[int, str], ...]]:
    """(dump of the syntax tree without docstrings, imported names as (relative level, dotted name))."""
    tree = ast.parse(text, str(path))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                node.body = node.body[1:] or [ast.Pass()]
    return ast.dump(tree), tuple(_import_statements(tree))


def _import_statements(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((0, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            yield node.level, base
            yield from ((node.level, f"{base}.{alias.name}" if base else alias.name) for alias in node.names)
