"""Clusters of a run as figures read them: which rows are in which, and the features that the assigner saw."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.features import prepare
from pipeline.record import StageError, read_records
from preparation.arrays import read_arrays
from report.figure import Shown


@dataclass(frozen=True)
class Clusters:
    """`ids` [n] are the clusters of `rows` [n] of the data set, `entry` the assigner's (config/assigners.yaml)."""

    rows: np.ndarray
    ids: np.ndarray
    entry: dict[str, Any]


def clusters(run: Shown) -> Clusters:
    """The scored rows of a run and their clusters. Raises StageError where they are missing, damaged, of other features
    or were not possible.
    """
    path, record = _record(run)
    if record["status"] != "ok":
        raise StageError(f"{path}: {_no_clusters(record)}")
    rows, ids = read_arrays(path, record, "rows", "clusters").values()
    return Clusters(rows, ids, record["settings"]["assigner"])


def no_clusters(run: Shown) -> str | None:
    """Why a run has no clusters, None where it has some: its assigner could do nothing with its features."""
    record = _record(run)[1]
    return None if record["status"] == "ok" else _no_clusters(record)


def _no_clusters(record: Mapping[str, Any]) -> str:
    reason = f" ({record['reason']})" if record.get("reason") else ""
    return f"no clusters, their stage ended as {record['status']}{reason}"


def _record(run: Shown) -> tuple[Path, dict[str, Any]]:
    """Where the clusters of a run lie, and the record of their stage."""
    path = Path(run.folder, "clusters", f"{run.assigner}.npz")
    records = read_records(path.with_suffix(".json"), "embed", f"assign/{run.assigner}")
    embedded = read_records(run.folder / "features.json", "embed")["embed"]
    if any(records["embed"].get(fact) != embedded.get(fact) for fact in ("fingerprint", "files")):
        raise StageError(f"{path} was made from other features than those of {run.folder}; assign again")
    return path, records[f"assign/{run.assigner}"]


def space(run: Shown, found: Clusters) -> tuple[str, bool]:
    """(array, whether its rows are of unit length) in which a cluster has a middle: that of the assigner, or the one
    that the figure names. Of probabilities, whose mean is no prototype of its cluster, it is h of unit length.
    """
    return seen_by(found.entry, run.features)


def seen_by(entry: Mapping[str, Any], features: str | None = None) -> tuple[str, bool]:
    """The same of an assigner's entry alone, with the array that is asked for in place of its own."""
    name, unit = features or entry["features"], bool(entry.get("normalise"))
    return ("h", True) if name == "p" else (name, unit)


def spread(run: Shown, found: Clusters) -> np.ndarray:
    """Distance float64 [n] of every row to the mean of its cluster, in the features of `space`."""
    name, unit = space(run, found)
    stored = read_arrays(run.folder / "features.npz", None, name)
    x = prepare({name: stored[name][found.rows]}, name, unit).astype(np.float64)
    distances = np.empty(len(x))
    for cluster in np.unique(found.ids):
        members = found.ids == cluster
        distances[members] = np.linalg.norm(x[members] - x[members].mean(0), axis=1)
    return distances
