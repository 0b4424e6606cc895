"""Logistic regression on standardised features, L2 with inverse strength `C`, by L-BFGS: convex, so no seed counts."""

import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from evaluation.predictions import prediction_scores
from evaluation.probe import ProbeError, Task


@dataclass(frozen=True)
class Settings:
    features: Literal["h", "z", "p", "zc", "zn"]
    normalise: bool  # unit rows
    C: float  # inverse strength of the regularisation
    max_iter: int


def logistic(task: Task) -> dict[str, Any]:
    """`converged` says whether the solver stopped by itself within `max_iter` iterations."""
    settings = task.settings
    (x, y), (x_test, y_test) = task.labelled()
    if len(np.unique(y)) < 2:
        raise ProbeError(f"one class only ({y[0]}) in {len(y)} training rows: there is nothing to tell apart")
    scaler = StandardScaler().fit(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # recorded below
        model = LogisticRegression(C=settings.C, max_iter=settings.max_iter).fit(scaler.transform(x), y)
    scores = prediction_scores(y_test, model.predict(scaler.transform(x_test)))
    return scores | {"converged": bool(model.n_iter_.max() < settings.max_iter), "trained_on": len(x)}


PROBE = logistic
