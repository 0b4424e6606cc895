"""Linear support vector machines on frozen features, as PCL and Goyal et al. score representations (VOC07, low-shot).

Labels are [N] class ids, or [N, C] of 1 (present), 0 (difficult) and -1 (absent) as VOC07 has them. Each class gets its
own machine; the score is the mean over classes of the interpolated average precision.
"""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import precision_recall_curve
from sklearn.svm import LinearSVC

Labelled = tuple[np.ndarray, np.ndarray]  # features [N, d], labels [N] or [N, C]
GOYAL_COSTS = tuple(sorted({10.0**e for e in range(-7, 3)} | {2.0**-e for e in range(4, 20)}))


def interpolated_ap(present: np.ndarray, scores: np.ndarray) -> float:
    """Area under the monotone precision-recall curve (VOC from 2010 on): present [N] bool, scores [N].

    At each recall the precision is the best at that recall or a higher one. NaN where nothing is present.
    """
    if not present.any():
        return float("nan")
    precision, recall, _ = precision_recall_curve(present, scores)
    # scikit-learn's recall falls from 1 to 0, so the running maximum looks at this recall and all higher ones.
    return float((np.maximum.accumulate(precision)[:-1] * -np.diff(recall)).sum())


def voc07_svm(train: Labelled, test: Labelled, settings: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """One machine per class on all training rows, positives weighted 2 (PCL's released evaluation, cost 0.5).

    `difficult`: "negative" counts difficult objects as absent (PCL), "drop" leaves them out (Goyal).
    """
    (x, y), (x_test, y_test) = _scaled(train), _scaled(test)
    precisions = []
    for label in range(y.shape[1]):
        own, watched = _usable(y[:, label], settings), _usable(y_test[:, label], settings)
        if len(np.unique(y[own, label] > 0)) < 2:
            continue  # nothing to tell apart
        model = _fitted(x[own], y[own, label] > 0, settings["C"], seed)
        precisions.append(interpolated_ap(y_test[watched, label] > 0, model.decision_function(x_test[watched])))
    return {
        "mAP": float(np.nanmean(precisions)),
        "classes_scored": int(np.isfinite(precisions).sum()),
        "n": len(x_test),
    }


def low_shot_svm(train: Labelled, test: Labelled, settings: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Machines on k images of each class, for every k of `shots`, mean over `draws` random draws: mAP@k and std.

    `sampling` "pcl": k images that contain each class, all pooled, each class against the rest of the pool, cost `C`.
    "goyal": for each class on its own k positives and up to `negatives` negatives; the cost is taken from Goyal's grid
    by the mean AP over all classes, on training images that no draw used (`select: rest`), or on the test images as
    their program does (`select: test`, said in the record).
    """
    (x, y), (x_test, y_test) = _scaled(train), _scaled(test)
    result: dict[str, Any] = {"n": len(x_test)}
    for shots in settings["shots"]:
        found = []
        for draw in range(settings["draws"]):
            generator = np.random.default_rng([seed, shots, draw])
            if settings["sampling"] == "pcl":
                samples, cost = _pooled(y, shots, generator), settings["C"]
            else:
                samples = _apart(y, shots, settings, generator)
                cost = _goyal_cost((x, y), (x_test, y_test), samples, settings, seed)
            found.append(_mean_ap(x, y, samples, x_test, y_test, cost, settings, seed))
        result[f"mAP@{shots}"] = float(np.mean(found))
        result[f"mAP@{shots}_std"] = float(np.std(found, ddof=1)) if len(found) > 1 else None
    if settings["sampling"] == "goyal":
        where = {"rest": "training images outside the draw", "test": "TEST labels"}
        result["selection"] = f"cost by mean AP on {where[settings['select']]}"
    return result


def _pooled(y: np.ndarray, shots: int, generator: np.random.Generator) -> list[np.ndarray]:
    """Rows for each class: k images that contain each class, the same pool for all."""
    pool = np.concatenate([_draw(np.flatnonzero(y[:, label] > 0), shots, generator) for label in range(y.shape[1])])
    return [pool] * y.shape[1]


def _apart(y: np.ndarray, shots: int, settings: Mapping[str, Any], generator: np.random.Generator) -> list[np.ndarray]:
    """Rows for each class: k positives and up to `negatives` negatives of its own."""
    samples = []
    for label in range(y.shape[1]):
        positives = _draw(np.flatnonzero(y[:, label] > 0), shots, generator)
        negatives = _draw(np.flatnonzero(y[:, label] < 0), settings["negatives"], generator)
        samples.append(np.concatenate([positives, negatives]))
    return samples


def _goyal_cost(
    train: Labelled, test: Labelled, samples: list[np.ndarray], settings: Mapping[str, Any], seed: int
) -> float:
    """The cost of Goyal's grid with the best mean AP on the rows that `select` names."""
    (x, y), watched = train, test
    if settings["select"] == "rest":
        drawn = np.unique(np.concatenate([rows[y[rows, label] > 0] for label, rows in enumerate(samples)]))
        rest = np.setdiff1d(np.arange(len(x)), drawn)
        watched = (x[rest], y[rest])
    scores = [_mean_ap(x, y, samples, *watched, cost, settings, seed) for cost in GOYAL_COSTS]
    return GOYAL_COSTS[int(np.nanargmax(scores))]


def _mean_ap(
    x: np.ndarray,
    y: np.ndarray,
    samples: list[np.ndarray],
    x_test: np.ndarray,
    y_test: np.ndarray,
    cost: float,
    settings: Mapping[str, Any],
    seed: int,
) -> float:
    """Mean AP over classes of machines fitted on rows `samples[class]`, without classes that cannot be told apart."""
    precisions = []
    for label, rows in enumerate(samples):
        present = y[rows, label] > 0
        if len(np.unique(present)) < 2:
            continue
        watched = _usable(y_test[:, label], settings)
        model = _fitted(x[rows], present, cost, seed)
        precisions.append(interpolated_ap(y_test[watched, label] > 0, model.decision_function(x_test[watched])))
    return float(np.nanmean(precisions))


def _fitted(x: np.ndarray, present: np.ndarray, cost: float, seed: int) -> LinearSVC:
    model = LinearSVC(C=cost, class_weight={True: 2, False: 1}, dual=True, tol=1e-4, max_iter=2000, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # 2,000 iterations are the protocol
        return model.fit(x, present)


def _draw(rows: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
    return generator.permutation(rows)[:count]


def _usable(labels: np.ndarray, settings: Mapping[str, Any]) -> np.ndarray:
    """Rows that count for a class: all, or those that are not difficult."""
    return np.arange(len(labels)) if settings["difficult"] == "negative" else np.flatnonzero(labels != 0)


def _scaled(labelled: Labelled) -> Labelled:
    """Unit rows as the released programs make them, and labels as [N, C]."""
    x, y = labelled
    x = x / (np.linalg.norm(x, axis=1, keepdims=True) + 1e-5)
    return x, y if y.ndim == 2 else one_against_rest(y)


def one_against_rest(labels: np.ndarray) -> np.ndarray:
    """Class ids [N] -> [N, C] of 1 and -1."""
    return np.where(labels[:, None] == np.arange(labels.max() + 1), 1, -1)
