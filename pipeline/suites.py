"""A suite by its name, the configuration that follows from it, and seeds as people write them."""

import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline import catalogue
from pipeline.naming import ConfigError, require

DEFAULT = "default"  # config/config.yaml alone, which every other suite is laid over
MOST = 1000  # seeds of one command


def names() -> list[str]:
    """Every suite of config/ and own/, and the default."""
    return sorted([DEFAULT, *catalogue.places("suites")])


def suite_file(name: str) -> Path | None:
    """The file of a suite, given by its name or by the path of its file; None for the default.

    Raises ConfigError for one that is not there, with the nearest name.
    """
    known = catalogue.places("suites")
    if name == DEFAULT or name in known:
        return known.get(name)
    if Path(name).suffix in (".yaml", ".yml", ".json"):
        if Path(name).is_file():
            return Path(name)
        near = difflib.get_close_matches(Path(name).stem, known, n=1, cutoff=0.5)
        where = (
            f"did you mean {catalogue.short(known[near[0]])}?" if near else "suites are in config/suites and own/suites"
        )
        raise ConfigError(f"{name}: no such file; {where}")
    require("suite", name, names())
    return None


def configuration(file: Path | None, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The values of a run as Snakemake lays them over each other: the default, the suite in `file`, what is given."""
    found = catalogue.read_yaml(catalogue.CONFIG / "config.yaml")
    suite = catalogue.read_yaml(file) if file else {}
    if not isinstance(suite, Mapping):
        raise ConfigError(
            f"{catalogue.short(file) if file else ''}: a {type(suite).__name__} found; `key: value` of a suite expected"
        )
    return _over(_over(found, suite), given or {})


def _over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _over(merged[key], value) if both else value
    return merged


def seeds(text: str) -> list[int]:
    """`0-4` (both ends counted), `0,2,5`, or both together. Raises ConfigError for anything else."""
    found: list[int] = []
    for part in text.strip().removeprefix("[").removesuffix("]").split(","):
        ends = re.fullmatch(r"\s*(\d{1,9})\s*(?:-\s*(\d{1,9})\s*)?", part)
        if not ends:
            raise ConfigError(f"--seeds {text}: {part!r} is no seed; give whole numbers from 0: 0-4, or 0,2,5")
        first, last = int(ends[1]), int(ends[2] or ends[1])
        if last < first:
            raise ConfigError(f"--seeds {text}: a range goes up; give {last}-{first}")
        if len(found) + last - first >= MOST:
            raise ConfigError(f"--seeds {text}: more than {MOST} seeds; give fewer")
        found += range(first, last + 1)
    if twice := [seed for seed in found if found.count(seed) > 1]:
        raise ConfigError(f"--seeds {text}: {twice[0]} stands twice; every seed counts once")
    return found


def listed(kind: str, text: str) -> list[str]:
    """Names of a kind, with commas between them. Raises ConfigError for an unknown one."""
    found = [name.strip() for name in text.split(",") if name.strip()]
    if not found:
        raise ConfigError(f"{kind} {text!r}: no name in it; known are: {', '.join(catalogue.names(kind))}")
    for name in found:
        require(kind, name, catalogue.names(kind))
    return found
