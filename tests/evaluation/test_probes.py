import math

import numpy as np
import pytest

from evaluation import probes
from evaluation.probes import probe
from pipeline import catalogue
from tests.evaluation.test_assigners import blobs

ACCURATE = ("linear", "knn", "logistic")  # probes that report an accuracy of features


def by_loops(bank, labels, x, k, temperature):
    """Weighted kNN in plain floats."""
    predicted = []
    for row in x:
        similarity = [sum(float(a) * float(b) for a, b in zip(row, other, strict=True)) for other in bank]
        nearest = sorted(range(len(bank)), key=lambda j: -similarity[j])[:k]
        votes = {}
        for j in nearest:
            votes[int(labels[j])] = votes.get(int(labels[j]), 0) + math.exp(similarity[j] / temperature)
        predicted.append(max(sorted(votes), key=lambda label: votes[label]))
    return np.array(predicted)


@pytest.mark.parametrize(("k", "temperature"), [(1, 0.1), (7, 0.1), (30, 1.0)])
def test_knn_equals_loops(k, temperature):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(70, 5)).astype(np.float32)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = generator.integers(0, 3, 70)
    found = probes.knn((x[:40], y[:40]), (x[40:], y[40:]), {"k": k, "temperature": temperature}, seed=0)
    assert found["ACC"] == pytest.approx((by_loops(x[:40], y[:40], x[40:], k, temperature) == y[40:]).mean())
    assert found["k_used"] == k


def test_knn_with_k_above_the_bank_is_clipped_and_recorded():
    x, y = blobs(rows=40)
    found = probes.knn((x, y), (x, y), {"k": 200, "temperature": 0.1}, seed=0)
    assert found["k_used"] == 40


PROBES = [n for n in catalogue.names("evaluation") if catalogue.entry("evaluation", n)["algorithm"] in ACCURATE]


@pytest.mark.parametrize("name", PROBES)
def test_every_probe_reads_separable_features_and_repeats(name):
    settings = catalogue.entry("evaluation", name)
    x, y = blobs(rows=3300)
    run = lambda: probe({"h": x}, y, np.arange(3000), np.arange(3000, 3300), settings, seed=1)  # noqa: E731
    first = run()
    assert first["ACC"] > 0.95
    assert first == run()
    assert first["trained_on"] == 3000
    if settings["algorithm"] == "linear":
        assert ("TEST" in first["selection"]) == (settings["select"] == "test")


def test_holdout_probe_never_reads_test_labels():
    """Scrambled test labels change the score, not what was chosen."""
    settings = catalogue.entry("evaluation", "linear_mixem") | {"epochs": 30}
    x, y = blobs(rows=400)
    scrambled = y.copy()
    scrambled[300:] = np.random.default_rng(0).permutation(scrambled[300:])
    results = [
        probe({"h": x}, labels, np.arange(300), np.arange(300, 400), settings, seed=1) for labels in (y, scrambled)
    ]
    assert results[0]["epoch"] == results[1]["epoch"]
    assert results[1]["ACC"] < results[0]["ACC"]


def test_one_set_of_rows_is_split_stratified():
    settings = catalogue.entry("evaluation", "knn")
    x, y = blobs(rows=200)
    rows = np.arange(200)
    found = probe({"h": x}, y, rows, rows, settings, seed=1)
    assert [found["trained_on"], found["n"]] == [160, 40]


def test_random_features_give_chance():
    generator = np.random.default_rng(1)
    x, y = generator.normal(size=(600, 8)).astype(np.float32), np.arange(600) % 4
    found = probe(
        {"h": x}, y, np.arange(400), np.arange(400, 600), catalogue.entry("evaluation", "linear_mixem"), seed=0
    )
    assert abs(found["ACC"] - 0.25) < 0.12


def test_class_probabilities_are_scored_as_they_are():
    settings = catalogue.entry("evaluation", "classifier")
    p = np.tile(np.arange(7, 0, -1) / 28, (4, 1)).astype(np.float32)  # class 0 first, class 6 last
    found = probe({"p": p}, np.array([0, 4, 5, 6]), np.arange(2), np.arange(4), settings, seed=0)
    assert (found["ACC"], found["top5"]) == (0.25, 0.5)


def test_rows_without_labels_are_refused():
    x, y = blobs(rows=40)
    y = y.copy()
    y[3] = -1
    with pytest.raises(probes.ProbeError, match="1 rows without a label"):
        probe({"h": x}, y, np.arange(30), np.arange(30, 40), catalogue.entry("evaluation", "knn"), seed=0)


def test_one_test_row_and_one_class():
    x, y = blobs(rows=41)
    for name in ("knn", "logistic", "linear"):
        settings = catalogue.entry("evaluation", name)
        assert probe({"h": x}, y, np.arange(40), np.arange(40, 41), settings, seed=0)["n"] == 1
    same = np.zeros(41, dtype=int)
    found = probe({"h": x}, same, np.arange(40), np.arange(40, 41), catalogue.entry("evaluation", "knn"), seed=0)
    assert found["ACC"] == 1
    with pytest.raises(probes.ProbeError, match="one class only"):
        probe({"h": x}, same, np.arange(40), np.arange(40, 41), catalogue.entry("evaluation", "logistic"), seed=0)


def test_linear_step_schedule_falls_at_its_milestones():
    """After a milestone a rate of nearly nothing leaves the layer where it was."""
    x, y = blobs(rows=200)
    settings = catalogue.entry("evaluation", "linear_imagenet") | {"lr": 0.05, "gamma": 1e-9, "milestones": [3]}
    found = [
        probe({"h": x}, y, np.arange(150), np.arange(150, 200), settings | {"epochs": epochs}, seed=0)["NMI"]
        for epochs in (3, 30)
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize("k", [1, 3, 5])
def test_euclidean_knn_equals_scikit_learn(k):
    from sklearn.neighbors import KNeighborsClassifier

    generator = np.random.default_rng(k)
    x, y = generator.normal(size=(400, 6)).astype(np.float32) + 3, generator.integers(0, 4, 400)
    found = probes.knn((x[:300], y[:300]), (x[300:], y[300:]), {"k": k, "distance": "euclidean"}, seed=0)
    assert found["ACC"] == KNeighborsClassifier(k).fit(x[:300], y[:300]).score(x[300:], y[300:])
