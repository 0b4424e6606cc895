"""Wings: folders with one file per algorithm, found by file name. No list of algorithms stands anywhere else.

A configuration entry names its file (`algorithm: kmeans` -> evaluation/assigners/kmeans.py); its other keys are the
fields of that file's `Settings`. Everything here is read from source: nothing is imported.
"""

from collections.abc import Mapping
from typing import Any

from pipeline.naming import ConfigError, require
from pipeline.provenance import ROOT
from pipeline.signatures import Signature, check_settings, read_signature

WINGS = {
    "assigner": "evaluation/assigners",
    "probe": "evaluation/probes",
    "metric": "evaluation/metrics",
    "figure": "report/figures",
}
# kind of catalogue entry -> (key that names the file, keys that belong to every entry and to no file)
ENTRIES = {
    "assigner": ("algorithm", ("algorithm",)),
    "probe": ("algorithm", ("algorithm",)),
    "figure": ("kind", ("kind", "title", "recipes", "datasets", "seeds", "protocol", "table")),
}


def wing_names(kind: str) -> list[str]:
    """The algorithms of a wing, sorted: its files' names."""
    return sorted(path.stem for path in (ROOT / WINGS[kind]).glob("*.py") if path.stem != "__init__")


def wing_modules(kind: str) -> tuple[str, ...]:
    """The dotted names of all modules of a wing, sorted."""
    return tuple(f"{WINGS[kind].replace('/', '.')}.{name}" for name in wing_names(kind))


def signature(kind: str, algorithm: str) -> Signature:
    """What the file of an algorithm declares. Raises ConfigError, naming the nearest file, where there is none."""
    require(f"algorithm of {WINGS[kind]}:", algorithm, wing_names(kind))
    return read_signature(ROOT / WINGS[kind] / f"{algorithm}.py")


def own_settings(kind: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a catalogue entry that the `Settings` of its file hold."""
    return {key: value for key, value in entry.items() if key not in ENTRIES[kind][1]}


def check_entry(kind: str, entry: Mapping[str, Any], where: str) -> None:
    """Check an entry against the file it names; kinds without a wing pass. Raises ConfigError."""
    if kind not in ENTRIES:
        return
    algorithm = entry[ENTRIES[kind][0]]
    try:
        declared = signature(kind, algorithm)
    except ConfigError as problem:
        raise ConfigError(f"{where}: {problem}") from None
    check_settings(own_settings(kind, entry), declared, where, f"{WINGS[kind]}/{algorithm}.py")
