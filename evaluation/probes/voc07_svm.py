"""One support vector machine per class on all training rows, positives weighted 2 (PCL's released evaluation)."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from evaluation.probe import ProbeError, Task
from evaluation.svm import fitted, interpolated_ap, scaled, usable

several_labels = True


@dataclass(frozen=True)
class Settings:
    features: Literal["h", "z", "p", "zc", "zn"]
    normalise: bool  # unit rows
    C: float  # the machines' cost
    difficult: Literal["negative", "drop"]  # difficult objects count as absent (PCL), or not at all (Goyal)


def voc07_svm(task: Task) -> dict[str, Any]:
    """Mean over classes of the interpolated average precision; classes that cannot be told apart are left out."""
    settings = task.settings
    train, test = task.labelled()
    (x, y), (x_test, y_test) = scaled(train), scaled(test)
    precisions = []
    for label in range(y.shape[1]):
        rows, watched = usable(y[:, label], settings.difficult), usable(y_test[:, label], settings.difficult)
        if len(np.unique(y[rows, label] > 0)) < 2:
            continue  # all images have this class, or none: no machine can be fitted
        model = fitted(x[rows], y[rows, label] > 0, settings.C, task.seed)
        precisions.append(interpolated_ap(y_test[watched, label] > 0, model.decision_function(x_test[watched])))
    if not np.isfinite(precisions).any():
        raise ProbeError(f"no class is both present and absent in {len(x)} training rows and present in the test rows")
    return {
        "mAP": float(np.nanmean(precisions)),
        "classes_scored": int(np.isfinite(precisions).sum()),
        "n": len(x_test),
        "trained_on": len(x),
    }


PROBE = voc07_svm
