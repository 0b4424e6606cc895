"""Probes: how much of the labels a simple classifier finds in frozen features.

Features are arrays of a finished run, so no probe can touch the backbone or its batch-norm statistics.
"""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from evaluation.assigners import prepare
from evaluation.svm import low_shot_svm, voc07_svm
from methods.blocks.products import factor, product
from pipeline.record import StageError

Labelled = tuple[np.ndarray, np.ndarray]  # features [N, d], labels [N]


def linear(train: Labelled, test: Labelled, settings: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Linear classifier on frozen features, trained as `settings` (config/evaluations.yaml) says.

    `select` names the epoch that is reported: "last"; "holdout", the best on a stratified tenth of the training rows;
    or "test", the best on the test rows: MIX'EM's released protocol, which selects on test labels and says so in its
    record. Features are those of clean images: papers that train on augmented crops name theirs in docs/methods.md.
    """
    (x, y), (x_test, y_test) = train, test
    if settings["standardise"]:
        mean, std = x.mean(0), x.std(0)
        std[std == 0] = 1
        x, x_test = (x - mean) / std, (x_test - mean) / std
    if settings["select"] == "holdout":
        x, x_watch, y, y_watch = train_test_split(x, y, test_size=0.1, stratify=y, random_state=seed)
    else:
        x_watch, y_watch = x_test, y_test
    generator = torch.Generator().manual_seed(seed)
    x, y, x_test, x_watch = (torch.from_numpy(np.ascontiguousarray(a)) for a in (x, y, x_test, x_watch))
    layer = torch.nn.Linear(x.shape[1], int(max(y.max(), y_test.max())) + 1)
    with torch.no_grad():
        layer.weight.normal_(0, 0.01, generator=generator)
        layer.bias.zero_()
    lr, epochs, batch = settings["lr"], settings["epochs"], settings["batch_size"]
    optimiser: torch.optim.Optimizer
    if settings["optimiser"] == "lars":
        from lightly.utils.lars import LARS  # slow to import, and needed by few probes

        optimiser = LARS(layer.parameters(), lr, settings["momentum"], weight_decay=settings["weight_decay"])
    elif settings["optimiser"] == "sgd":
        optimiser = torch.optim.SGD(layer.parameters(), lr, settings["momentum"], weight_decay=settings["weight_decay"])
    else:
        optimiser = torch.optim.Adam(layer.parameters(), lr, weight_decay=settings["weight_decay"])
    best, patience, predicted, epoch_used = -1.0, 0, None, epochs
    for epoch in range(epochs):
        if settings["schedule"] == "cosine":
            optimiser.param_groups[0]["lr"] = lr * 0.5 * (1 + np.cos(np.pi * epoch / epochs))
        if settings["schedule"] == "step":
            passed = sum(epoch >= milestone for milestone in settings["milestones"])
            optimiser.param_groups[0]["lr"] = lr * settings["gamma"] ** passed
        order = torch.randperm(len(x), generator=generator) if settings["shuffle"] else torch.arange(len(x))
        for rows in order.split(batch):
            optimiser.zero_grad()
            F.cross_entropy(layer(x[rows]), y[rows]).backward()
            optimiser.step()
        if settings["select"] != "last":
            with torch.no_grad():
                found = float((layer(x_watch).argmax(1).numpy() == y_watch).mean())
            patience += 1
            if found > best:
                best, patience, epoch_used = found, 0, epoch + 1
                predicted = _predict(layer, x_test)
            elif patience >= settings["patience"]:
                break
    if predicted is None:
        predicted = _predict(layer, x_test)
    selection = {"last": "last epoch", "holdout": "best on a tenth of the training rows", "test": "best on TEST labels"}
    return _scores(y_test, predicted) | {"epoch": epoch_used, "selection": selection[settings["select"]]}


def knn(train: Labelled, test: Labelled, settings: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """k-nearest-neighbour classifier: dot product (cosine of unit rows), votes weighted exp(s / temperature); with
    `distance: euclidean` the nearest rows, one vote each, as scikit-learn's.

    `k` larger than the bank is clipped to it and recorded as `k_used`. Equal votes go to the smaller class id.
    """
    (bank, y), (x, y_test) = train, test
    k = min(settings["k"], len(bank))
    bank, labels, classes = torch.from_numpy(bank), torch.from_numpy(y), int(y.max()) + 1
    euclidean = settings.get("distance") == "euclidean"
    # Nearest by |x - b|^2 is largest by x.b - |b|^2 / 2.
    offset = bank.square().sum(1) / 2 if euclidean else torch.zeros(len(bank))
    predicted = []
    for start in range(0, len(x), 1024):
        part = factor(torch.from_numpy(x[start : start + 1024]))
        similarity, neighbour = product(part, bank, -offset).topk(k, dim=1)
        weight = torch.ones_like(similarity) if euclidean else similarity.double() / settings["temperature"]
        votes = torch.zeros(len(similarity), classes, dtype=torch.float64)
        votes.scatter_add_(1, labels[neighbour], weight.double() if euclidean else weight.exp())
        predicted.append(votes.argmax(1))
    return _scores(y_test, torch.cat(predicted).numpy()) | {"k_used": k}


def classifier(train: Labelled, test: Labelled, settings: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Top-1 and top-5 accuracy of a method's own class probabilities p [N, C]: nothing is fitted here."""
    p, y = test
    hits = (-p).argsort(1, kind="stable")[:, :5] == y[:, None]
    return _scores(y, p.argmax(1)) | {"top5": float(hits.any(1).mean())}


def logistic(train: Labelled, test: Labelled, settings: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Logistic regression on standardised features, L2 with inverse strength `C`, by L-BFGS: convex, so no seed counts.

    `converged` says whether the solver stopped by itself within `max_iter` iterations.
    """
    (x, y), (x_test, y_test) = train, test
    if len(np.unique(y)) < 2:
        raise ProbeError(f"one class only ({y[0]}) in {len(y)} training rows: there is nothing to tell apart")
    scaler = StandardScaler().fit(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # recorded below
        model = LogisticRegression(C=settings["C"], max_iter=settings["max_iter"]).fit(scaler.transform(x), y)
    found = _scores(y_test, model.predict(scaler.transform(x_test)))
    return found | {"converged": bool(model.n_iter_.max() < settings["max_iter"])}


def _predict(layer: torch.nn.Linear, x: torch.Tensor) -> np.ndarray:
    with torch.no_grad():
        return layer(x).argmax(1).numpy()


def _scores(labels: np.ndarray, predicted: np.ndarray) -> dict[str, Any]:
    """Top-1 accuracy, and NMI and ARI of the predictions read as clusters (MIX'EM Table 2, first row)."""
    return {
        "ACC": float((labels == predicted).mean()),
        "NMI": float(normalized_mutual_info_score(labels, predicted, average_method="arithmetic")),
        "ARI": float(adjusted_rand_score(labels, predicted)),
        "n": len(labels),
    }


class ProbeError(StageError):
    """Rows on which a probe has no meaning."""


ALGORITHMS = {
    "linear": linear,
    "knn": knn,
    "logistic": logistic,
    "classifier": classifier,
    "voc07_svm": voc07_svm,
    "low_shot_svm": low_shot_svm,
}


def probe(
    features: Mapping[str, np.ndarray],
    labels: np.ndarray,
    train: np.ndarray,
    test: np.ndarray,
    settings: Mapping[str, Any],
    seed: int,
) -> dict[str, Any]:
    """Run the probe that `settings` names on rows `train` and `test`; equal rows mean a stratified 80/20 hold-out."""
    unlabelled = int((labels[train] < 0).sum() + (labels[test] < 0).sum())
    if unlabelled and labels.ndim == 1:
        raise ProbeError(f"{unlabelled} rows without a label: a probe needs labels, choose a protocol with such splits")
    if np.array_equal(train, test):
        train, test = train_test_split(train, test_size=0.2, stratify=labels[train], random_state=seed)
    x = prepare(features, settings)
    result = ALGORITHMS[settings["algorithm"]]((x[train], labels[train]), (x[test], labels[test]), settings, seed)
    return result | {"trained_on": len(train)}
