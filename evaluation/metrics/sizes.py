"""Sizes of clusters, and `degenerate`: accuracy alone can look fine for a collapsed model.

Numbers are effective ones, exp(entropy of the shares): E of classes, C of clusters. Clusters are degenerate where one
of these holds; in words, where they are far fewer than the classes or say nothing beyond "the largest class":

- One class only: every assignment is right, no number says anything.
- C is below E / 2, or below (E + 2) / 3, which is larger where E < 4: few or imbalanced classes have an E near 1, and
  one cluster would never fall short of half of it. E itself lies above both, so a perfect clustering is never marked.
- C is below E, and no cluster has more rows of another class than of the largest one.

Of rows without labels the second rule alone is asked, with the number of clusters asked for in place of E: it marks
what collapsed, and what is very uneven.
"""

from typing import Any

import numpy as np

from evaluation.confusion import contingency

ROUNDING = 1e-9  # numbers that are equal but for their rounding are not "below"


def sizes(labels: np.ndarray, clusters: np.ndarray) -> dict[str, Any]:
    counts = contingency(labels, clusters)
    return _facts(counts.sum(1), counts.shape[1], degenerate(counts))


def sizes_alone(clusters: np.ndarray, asked: int) -> dict[str, Any]:
    """The same of rows without labels."""
    rows = np.unique(clusters, return_counts=True)[1]
    return _facts(rows, 0, bool(_few(np.exp(_entropy(rows)), asked)))


def _facts(rows: np.ndarray, classes: int, collapsed: bool) -> dict[str, Any]:
    """`rows`: of each occupied cluster."""
    return {
        "occupied_clusters": len(rows),
        "classes_present": classes,
        "largest_share": float(rows.max() / rows.sum()),
        "size_entropy": _entropy(rows),
        "degenerate": collapsed,
        "n": int(rows.sum()),
    }


def degenerate(counts: np.ndarray) -> bool:
    """Whether counts [occupied clusters, classes present] are those of a collapse, by the rule above."""
    if counts.shape[1] == 1:
        return True
    found, effective = np.exp(_entropy(counts.sum(1))), np.exp(_entropy(counts.sum(0)))
    silent = counts.max(1).sum() == counts.sum(0).max() and found < effective - ROUNDING
    return bool(_few(found, effective) or silent)


def _few(found: float, expected: float) -> bool:
    """Whether `found` clusters are far fewer than expected, both effective numbers."""
    return found < max(expected / 2, (expected + 2) / 3) - ROUNDING


def _entropy(counts: np.ndarray) -> float:
    """Entropy in nats of the distribution that `counts` > 0 describe; their order does not count, to the last bit."""
    shares = np.sort(counts) / counts.sum()
    return float(-(shares * np.log(shares)).sum())


METRIC = sizes
UNLABELLED = sizes_alone
