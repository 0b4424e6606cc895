"""What can be said of a finished run without labels: its own loss, and how its clusters look.

A criterion is a number for each seed of one recipe and assigner on one data set; `BETTER` says which end of it is
believed to be the good one. No label is read here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evaluation.features import prepare
from pipeline.record import Damaged, StageError
from preparation.arrays import read_arrays
from report.clusters import seen_by
from report.own_loss import LOWEST, own_loss
from report.results import Read

OWN_LOSS = "own loss"
BETTER = {OWN_LOSS: "lower", "silhouette": "higher", "agreement": "higher", "entropy": "lower"}
TITLES = {
    OWN_LOSS: LOWEST,
    "silhouette": "highest silhouette",
    "agreement": "most agreement with the other seeds",
    "entropy": "lowest instance entropy",
}
MOST = 5000  # rows of a silhouette, which takes all pairs; evenly spaced where there are more


@dataclass(frozen=True)
class Looked:
    """What one run shows: criterion -> value where it has a meaning, and its clusters [n]."""

    values: Mapping[str, float]
    clusters: np.ndarray


def look(folder: str, read: Read, assigner: str) -> Looked:
    """Look at one run. Raises StageError that names a file that is missing or damaged."""
    path = Path(folder, "clusters", f"{assigner}.npz")
    rows, ids = read_arrays(path, read.records[f"assign/{assigner}"], "rows", "clusters").values()
    said = {
        OWN_LOSS: own_loss(folder, read),
        "silhouette": _silhouette(folder, read, assigner, rows, ids),
        "entropy": _entropy(folder, read, rows),
    }
    return Looked({name: value for name, value in said.items() if value is not None and np.isfinite(value)}, ids)


def criteria(runs: Mapping[int, Looked]) -> dict[str, dict[int, float]]:
    """Criterion -> seed -> value, without the seeds for which it has no meaning."""
    found = {name: {seed: one.values[name] for seed, one in runs.items() if name in one.values} for name in BETTER}
    return {**found, "agreement": agreement({seed: one.clusters for seed, one in runs.items()})}


def agreement(clusters: Mapping[int, np.ndarray]) -> dict[int, float]:
    """seed -> mean adjusted Rand index of its clusters [n] with those of every other seed; nothing of a single seed."""
    from sklearn.metrics import adjusted_rand_score

    if len({len(ids) for ids in clusters.values()}) > 1:
        raise StageError("clusters of seeds have other numbers of rows: run stage assign again")
    seeds = list(clusters)
    pairs = {
        frozenset((one, other)): float(adjusted_rand_score(clusters[one], clusters[other]))
        for place, one in enumerate(seeds)
        for other in seeds[place + 1 :]
    }
    if not pairs:
        return {}
    return {seed: float(np.mean([value for pair, value in pairs.items() if seed in pair])) for seed in seeds}


def silhouette(x: np.ndarray, ids: np.ndarray) -> float | None:
    """Mean silhouette (Rousseeuw, 1987) of clusters `ids` [n] in x [n, d], of evenly spaced rows where there are many;
    None where there is one cluster, or as many as rows.
    """
    from sklearn.metrics import silhouette_score

    if len(x) > MOST:
        kept = np.linspace(0, len(x) - 1, MOST).astype(int)
        x, ids = x[kept], ids[kept]
    occupied = len(np.unique(ids))
    return float(silhouette_score(x, ids)) if 1 < occupied < len(x) else None


def instance_entropy(p: np.ndarray) -> float:
    """Mean entropy, in nats, of rows of probabilities [n, C]."""
    p = p.astype(np.float64)
    return float(-(p * np.log(np.where(p > 0, p, 1))).sum(1).mean())


def _silhouette(folder: str, read: Read, assigner: str, rows: np.ndarray, ids: np.ndarray) -> float | None:
    name, unit = seen_by(read.records[f"assign/{assigner}"]["settings"]["assigner"])
    x = _features(folder, read, name)
    return None if x is None else silhouette(prepare({name: x[rows]}, name, unit), ids)


def _entropy(folder: str, read: Read, rows: np.ndarray) -> float | None:
    p = _features(folder, read, "p")
    return instance_entropy(p[rows]) if p is not None and p.ndim == 2 else None


def _features(folder: str, read: Read, name: str) -> np.ndarray | None:
    """An array of a run's features, None where its method gives none of this name."""
    try:
        return read_arrays(Path(folder, "features.npz"), read.records["embed"], name)[name]
    except Damaged:
        raise
    except StageError:
        return None
