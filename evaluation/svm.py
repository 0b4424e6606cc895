"""Linear support vector machines on frozen features, as PCL and Goyal et al. score representations.

Labels are [N] class ids, or [N, C] of 1 (present), 0 (difficult) and -1 (absent) as VOC07 has them. Each class gets its
own machine; the score is the mean over classes of the interpolated average precision.
"""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import precision_recall_curve
from sklearn.svm import LinearSVC

from evaluation.probe import Labelled


def interpolated_ap(present: np.ndarray, scores: np.ndarray) -> float:
    """Area under the monotone precision-recall curve (VOC from 2010 on): present [N] bool, scores [N].

    At each recall the precision is the best at that recall or a higher one. NaN where nothing is present.
    """
    if not present.any():
        return float("nan")
    precision, recall, _ = precision_recall_curve(present, scores)
    # scikit-learn's recall falls from 1 to 0, so the running maximum looks at this recall and all higher ones.
    return float((np.maximum.accumulate(precision)[:-1] * -np.diff(recall)).sum())


def mean_ap(
    x: np.ndarray,
    y: np.ndarray,
    samples: list[np.ndarray],
    x_test: np.ndarray,
    y_test: np.ndarray,
    cost: float,
    difficult: str,
    seed: int,
) -> float:
    """Mean AP over classes of machines fitted on rows `samples[class]`, without classes that cannot be told apart."""
    precisions = []
    for label, rows in enumerate(samples):
        present = y[rows, label] > 0
        if len(np.unique(present)) < 2:
            continue
        watched = usable(y_test[:, label], difficult)
        model = fitted(x[rows], present, cost, seed)
        precisions.append(interpolated_ap(y_test[watched, label] > 0, model.decision_function(x_test[watched])))
    return float(np.nanmean(precisions))


def fitted(x: np.ndarray, present: np.ndarray, cost: float, seed: int) -> LinearSVC:
    """A machine on x [n, d] that tells `present` [n] bool from absent, positives weighted 2."""
    model = LinearSVC(C=cost, class_weight={True: 2, False: 1}, dual=True, tol=1e-4, max_iter=2000, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # 2,000 iterations are the protocol
        return model.fit(x, present)


def usable(labels: np.ndarray, difficult: str) -> np.ndarray:
    """Rows that count for a class: all, or those that are not difficult (`difficult` "drop")."""
    return np.arange(len(labels)) if difficult == "negative" else np.flatnonzero(labels != 0)


def scaled(labelled: Labelled) -> Labelled:
    """Unit rows as the released programs make them, and labels as [N, C]."""
    x, y = labelled
    x = x / (np.linalg.norm(x, axis=1, keepdims=True) + 1e-5)
    return x, y if y.ndim == 2 else one_against_rest(y)


def one_against_rest(labels: np.ndarray) -> np.ndarray:
    """Class ids [N] -> [N, C] of 1 and -1."""
    return np.where(labels[:, None] == np.arange(labels.max() + 1), 1, -1)
