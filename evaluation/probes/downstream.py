"""Four ordinary classifiers on a frozen embedding, as DCRL scores it (Tables 4 and A3)."""

import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC

from evaluation.probe import ProbeError, Task, stratified


@dataclass(frozen=True)
class Settings:
    features: Literal["h", "z", "p", "zc", "zn"]
    normalise: bool  # unit rows
    sklearn_defaults: Literal["current", "0.21"]  # whose defaults the classifiers have
    splits: int  # random 80/20 splits


def downstream(task: Task) -> dict[str, Any]:
    """Mean accuracy of MLP, RFC, SVM and LR over `splits` stratified 80/20 splits of the scored rows, seeds 0, 1, ...

    Everything at scikit-learn's defaults: of the installed version (`sklearn_defaults` "current"), or of 0.21, with
    which the paper's numbers were made (10 trees, gamma 1/d, liblinear one against the rest).
    """
    x, labels = task.array()[task.scored], task.labels[task.scored]
    if len(np.unique(labels)) < 2:
        raise ProbeError(f"one class only ({labels[0]}) in {len(labels)} rows: there is nothing to tell apart")
    accuracies: dict[str, list[float]] = {}
    for seed in range(task.settings.splits):
        kept, held = stratified(labels, 0.2, seed)
        train, test, y_train, y_test = x[kept], x[held], labels[kept], labels[held]
        for name, model in classifiers(task.settings.sklearn_defaults, seed).items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # the defaults' iteration limits are the protocol
                predicted = model.fit(train, y_train).predict(test)
            accuracies.setdefault(name, []).append(float((predicted == y_test).mean()))
    result: dict[str, Any] = {name: float(np.mean(values)) for name, values in accuracies.items()}
    result |= {f"{name}_std": float(np.std(values, ddof=1)) for name, values in accuracies.items() if len(values) > 1}
    return result | {"n": len(x)}


def classifiers(sklearn_defaults: str, seed: int) -> dict[str, ClassifierMixin]:
    """The four classifiers by the names of the paper's columns."""
    if sklearn_defaults == "0.21":
        return {
            "MLP": MLPClassifier(random_state=seed),
            "RFC": RandomForestClassifier(n_estimators=10, max_features="sqrt", random_state=seed),
            "SVM": SVC(gamma="auto"),
            "LR": OneVsRestClassifier(LogisticRegression(solver="liblinear")),
        }
    return {
        "MLP": MLPClassifier(random_state=seed),
        "RFC": RandomForestClassifier(random_state=seed),
        "SVM": SVC(),
        "LR": LogisticRegression(),
    }


PROBE = downstream
