"""Linear support vector machines on k images of each class (PCL Table 1; Goyal et al., arXiv 1905.01235)."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from evaluation.probe import Labelled, ProbeError, Task
from evaluation.svm import mean_ap, scaled

several_labels = True
GOYAL_COSTS = tuple(sorted({10.0**e for e in range(-7, 3)} | {2.0**-e for e in range(4, 20)}))


@dataclass(frozen=True)
class Settings:
    features: Literal["h", "z", "p", "zc", "zn"]
    normalise: bool  # unit rows
    sampling: Literal["pcl", "goyal"]
    shots: list[int]
    draws: int
    difficult: Literal["negative", "drop"]  # difficult objects count as absent (PCL), or not at all (Goyal)
    C: float | None = None  # cost of PCL's machines
    negatives: int | None = None  # most negatives of a class of Goyal's
    select: Literal["rest", "test"] | None = None  # rows whose mean AP chooses Goyal's cost


SELECTED = {"rest": "a fifth of the training images, which no machine is fitted on", "test": "TEST labels"}


def low_shot_svm(task: Task) -> dict[str, Any]:
    """Machines on k images of each class, for every k of `shots`, mean over `draws` random draws: mAP@k and std.

    `sampling` "pcl": k images that contain each class, all pooled, each class against the rest of the pool, cost `C`.
    "goyal": for each class on its own k positives and up to `negatives` negatives; the cost is taken from Goyal's grid
    by the mean AP over all classes, on a fifth of the training images that is kept out of every draw, of positives and
    of negatives (`select: rest`), or on the test images as their program does (`select: test`, said in the record).
    Raises ProbeError for too few rows, and where no class is among those that choose.
    """
    settings, seed = task.settings, task.seed
    train, test = task.labelled()
    (x, y), (x_test, y_test) = scaled(train), scaled(test)
    result: dict[str, Any] = {"n": len(x_test)}
    drawn_from, watched = np.arange(len(x)), (x_test, y_test)
    if settings.sampling == "goyal" and settings.select == "rest":
        drawn_from, chooses = _apart_for_the_cost(len(x), seed)
        watched = (x[chooses], y[chooses])
    for shots in settings.shots:
        precisions = []
        for draw in range(settings.draws):
            generator = np.random.default_rng([seed, shots, draw])
            if settings.sampling == "pcl":
                samples, cost = _pooled(y, shots, generator), settings.C
            else:
                samples = _apart(y, drawn_from, shots, settings.negatives, generator)
                cost = _goyal_cost((x, y), watched, samples, settings, seed)
            precisions.append(mean_ap(x, y, samples, x_test, y_test, cost, settings.difficult, seed))
        result[f"mAP@{shots}"] = float(np.mean(precisions))
        result[f"mAP@{shots}_std"] = float(np.std(precisions, ddof=1)) if len(precisions) > 1 else None
    if settings.sampling == "goyal":
        result["selection"] = f"cost by mean AP on {SELECTED[settings.select]}"
        result["selected_on_test"] = settings.select == "test"
    return result | {"trained_on": len(drawn_from)}


def _apart_for_the_cost(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers below `count`, sorted: four fifths to draw from, and a fifth that chooses the cost.

    What a draw leaves over could not choose: a class takes up to 19,000 negatives, which is all of them in VOC07.
    """
    if count < 5:
        raise ProbeError(f"{count} training rows: a fifth of them chooses the cost, so 5 are needed")
    order = np.random.default_rng([seed]).permutation(count)
    return np.sort(order[count // 5 :]), np.sort(order[: count // 5])


def _pooled(y: np.ndarray, shots: int, generator: np.random.Generator) -> list[np.ndarray]:
    """Rows for each class: k images that contain each class, the same pool for all."""
    pool = np.concatenate([_draw(np.flatnonzero(y[:, label] > 0), shots, generator) for label in range(y.shape[1])])
    return [pool] * y.shape[1]


def _apart(
    y: np.ndarray, drawn_from: np.ndarray, shots: int, most: int, generator: np.random.Generator
) -> list[np.ndarray]:
    """Rows for each class, out of `drawn_from`: k positives and up to `most` negatives of its own."""
    samples = []
    for label in range(y.shape[1]):
        positives = _draw(drawn_from[y[drawn_from, label] > 0], shots, generator)
        negatives = _draw(drawn_from[y[drawn_from, label] < 0], most, generator)
        samples.append(np.concatenate([positives, negatives]))
    return samples


def _goyal_cost(train: Labelled, watched: Labelled, samples: list[np.ndarray], settings: Settings, seed: int) -> float:
    """The cost of Goyal's grid with the best mean AP on the rows `watched`."""
    if not (watched[1] > 0).any():
        raise ProbeError(f"no class is present in the {len(watched[0])} rows that choose the cost")
    scores = [mean_ap(*train, samples, *watched, cost, settings.difficult, seed) for cost in GOYAL_COSTS]
    if np.isnan(scores).all():
        raise ProbeError(
            f"no class that can be told apart is present in the {len(watched[0])} rows that choose the cost"
        )
    return GOYAL_COSTS[int(np.nanargmax(scores))]


def _draw(rows: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
    return generator.permutation(rows)[:count]


PROBE = low_shot_svm
