"""Similarity statistics of embeddings: what pairs of images look like, how features spread, what prototypes know.

Sums over all pairs of a class are sums over its mean vector, so nothing here builds an N x N matrix.
"""

from typing import Any

import numpy as np
from sklearn.metrics import mutual_info_score

from pipeline.record import StageError


class SimilarityError(StageError):
    """Input for which a similarity statistic has no meaning."""


def pair_similarity(z: np.ndarray, labels: np.ndarray, views: tuple[np.ndarray, np.ndarray]) -> dict[str, float]:
    """Mean dot product of three kinds of pairs (CDC Table VII): two views of an image, same class, different class.

    z [N, D] with `labels` [N]; `views`: two arrays [M, D], row i of both from the same image. Vectors are taken as they
    are: normalise parts before, as the method does. Pairs of an image with itself are left out.
    """
    z, labels = _checked(z), np.asarray(labels)
    first, second = map(_checked, views)
    if len(z) != len(labels) or first.shape != second.shape:
        raise SimilarityError(f"{len(z)} vectors, {len(labels)} labels; views {first.shape} and {second.shape}")
    total, own = z.sum(0), float((z * z).sum())
    same = pairs = 0.0
    for label in np.unique(labels):
        members = z[labels == label]
        summed = members.sum(0)
        same += float(summed @ summed) - float((members * members).sum())
        pairs += len(members) * (len(members) - 1)
    every = float(total @ total) - own
    other = len(z) * (len(z) - 1) - pairs
    return {
        "augmented": float((first * second).sum(1).mean()),
        "same_class": same / pairs if pairs else float("nan"),
        "different_class": (every - same) / other if other else float("nan"),
    }


def alignment(first: np.ndarray, second: np.ndarray) -> float:
    """Mean squared distance of two views' unit vectors [M, D] (Wang and Isola, arXiv 2005.10242); 0 is perfect."""
    first, second = _unit(first), _unit(second)
    return float(((first - second) ** 2).sum(1).mean())


def uniformity(z: np.ndarray, t: float = 2.0, block: int = 2048) -> float:
    """log of the mean of exp(-t * squared distance) over pairs of unit vectors [N, D]; lower is more uniform.

    Each pair counts once and no vector is paired with itself. Blocks of rows keep memory at `block` x N numbers.
    """
    z = _unit(z)
    if len(z) < 2:
        raise SimilarityError(f"uniformity needs two vectors, found {len(z)}")
    total = 0.0
    for start in range(0, len(z), block):
        part = z[start : start + block]
        kernel = np.exp(-t * np.maximum(2 - 2 * part @ z.T, 0))
        total += float(kernel.sum()) - float(kernel[np.arange(len(part)), start + np.arange(len(part))].sum())
    return float(np.log(total / (len(z) * (len(z) - 1))))


def rankme(z: np.ndarray, epsilon: float = 1e-7) -> float:
    """Effective rank of features [N, d]: exp of the entropy of the singular values (RankMe, arXiv 2210.02885)."""
    values = np.linalg.svd(_checked(z), compute_uv=False)
    if values.sum() == 0:
        return 0.0
    shares = values / values.sum() + epsilon
    return float(np.exp(-(shares * np.log(shares)).sum()))


def prototype_information(labels: np.ndarray, prototypes: np.ndarray) -> dict[str, Any]:
    """Mutual information of prototype ids with labels, in nats, and as a share of the labels' entropy (PCL, fig. 3)."""
    labels, prototypes = np.asarray(labels), np.asarray(prototypes)
    if labels.shape != prototypes.shape or not len(labels) or labels.min() < 0:
        raise SimilarityError(f"labels {labels.shape} >= 0 and prototypes {prototypes.shape} must be equally long")
    information = float(mutual_info_score(labels, prototypes))
    entropy = float(mutual_info_score(labels, labels))
    return {"mutual_information": information, "share_of_entropy": information / entropy if entropy else 1.0}


def centre_ranks(points: np.ndarray, clusters: np.ndarray) -> np.ndarray:
    """Distance ranks [C, C] of the centres of the occupied clusters of points [N, d]: itself first, ties by number."""
    centres = np.stack([points[clusters == c].mean(0, dtype=np.float64) for c in np.unique(clusters)])
    gaps = ((centres[:, None] - centres[None]) ** 2).sum(2)
    np.fill_diagonal(gaps, -1)  # a centre comes first in its own order, also where another equals it
    return gaps.argsort(1, kind="stable").argsort(1)


def _checked(z: np.ndarray) -> np.ndarray:
    z = np.asarray(z, dtype=np.float64)
    if z.ndim != 2 or not len(z):
        raise SimilarityError(f"vectors must be [N, D] with N > 0, found {list(z.shape)}")
    if not np.isfinite(z).all():
        raise SimilarityError(f"NaN or infinity in {int((~np.isfinite(z)).any(1).sum())} of {len(z)} vectors")
    return z


def _unit(z: np.ndarray) -> np.ndarray:
    z = _checked(z)
    return z / np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-12)
