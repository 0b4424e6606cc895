import math

import numpy as np
import pytest
import torch

from evaluation.probe import ProbeError
from evaluation.probes import knn
from tests.evaluation.samples import blobs, probe


def by_loops(bank, labels, x, k, temperature):
    """Weighted kNN in plain floats."""
    predicted = []
    for row in x:
        similarity = [sum(float(a) * float(b) for a, b in zip(row, other, strict=True)) for other in bank]
        nearest = sorted(range(len(bank)), key=lambda j: -similarity[j])[:k]
        votes = {}
        for j in nearest:
            weight = math.exp((similarity[j] - similarity[nearest[0]]) / temperature)
            votes[int(labels[j])] = votes.get(int(labels[j]), 0) + weight
        predicted.append(max(sorted(votes), key=lambda label: votes[label]))
    return np.array(predicted)


@pytest.mark.parametrize(("k", "temperature"), [(1, 0.1), (7, 0.1), (30, 1.0), (30, 1e-2), (30, 1e-3)])
def test_knn_equals_loops(k, temperature):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(70, 5)).astype(np.float32)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = generator.integers(0, 3, 70)
    found = probe("knn", x, y, range(40), range(40, len(x)), normalise=False, k=k, temperature=temperature)
    assert found["ACC"] == pytest.approx((by_loops(x[:40], y[:40], x[40:], k, temperature) == y[40:]).mean())
    assert found["k_used"] == k


def nearby(classes=4, rows=300):
    """Unit rows of classes that overlap, so that votes of many and of the nearest differ."""
    generator = np.random.default_rng(0)
    y = np.arange(rows) % classes
    x = generator.normal(size=(rows, 8)).astype(np.float32) + 2 * np.eye(classes, 8, dtype=np.float32)[y]
    return x, y


@pytest.mark.parametrize("temperature", [1e-3, 1e-4, 1e-6])
def test_votes_at_a_low_temperature_are_those_of_the_nearest(temperature):
    x, y = nearby()
    one, many = (
        probe("knn", x, y, range(200), range(200, 300), k=k, temperature=t) for k, t in ((1, 1), (200, temperature))
    )
    assert one["ACC"] > 0.6
    assert [many[key] for key in ("ACC", "NMI", "ARI")] == pytest.approx(
        [one[key] for key in ("ACC", "NMI", "ARI")], abs=0.05 if temperature == 1e-3 else 1e-12
    )


@pytest.mark.parametrize("temperature", [0.07, 0.1, 1.0])
def test_votes_at_usual_temperatures_are_the_plain_exponentials(temperature):
    generator = torch.Generator().manual_seed(0)
    similarity = torch.rand(2000, 200, generator=generator) * 2 - 1
    neighbours = torch.randint(10, (2000, 200), generator=generator)
    votes = [torch.zeros(2000, 10, dtype=torch.float64) for _ in range(2)]
    votes[0].scatter_add_(1, neighbours, knn._weights(similarity, temperature))
    votes[1].scatter_add_(1, neighbours, (similarity.double() / temperature).exp())
    assert torch.equal(votes[0].argmax(1), votes[1].argmax(1))


@pytest.mark.parametrize("k", [1, 3, 5])
def test_euclidean_knn_equals_scikit_learn(k):
    from sklearn.neighbors import KNeighborsClassifier

    generator = np.random.default_rng(k)
    x, y = generator.normal(size=(400, 6)).astype(np.float32) + 3, generator.integers(0, 4, 400)
    found = probe("knn", x, y, range(300), range(300, len(x)), normalise=False, k=k, distance="euclidean")
    assert found["ACC"] == KNeighborsClassifier(k).fit(x[:300], y[:300]).score(x[300:], y[300:])


def test_knn_with_k_above_the_bank_is_clipped_and_recorded():
    x, y = blobs(rows=80)
    assert probe("knn", x, y, range(40), range(40, 80))["k_used"] == 40


def test_one_set_of_rows_is_split_stratified():
    x, y = blobs(rows=200)
    found = probe("knn", x, y, seed=1)
    assert [found["trained_on"], found["n"]] == [160, 40]


def test_rows_without_labels_are_refused():
    x, y = blobs(rows=40)
    y = y.copy()
    y[3] = -1
    with pytest.raises(ProbeError, match="1 rows without a label"):
        probe("knn", x, y, range(30), range(30, 40))


def test_votes_by_cosine_need_a_temperature():
    x, y = blobs(rows=40)
    for temperature in (None, 0.0):
        with pytest.raises(ProbeError, match="need a temperature above 0"):
            probe("knn", x, y, temperature=temperature)
