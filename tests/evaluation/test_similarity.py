import math

import numpy as np
import pytest

from evaluation.similarity import (
    SimilarityError,
    alignment,
    pair_similarity,
    prototype_information,
    rankme,
    uniformity,
)


def vectors(n=30, d=4, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def test_pairs_equal_loops():
    z, labels = vectors(), np.random.default_rng(1).integers(0, 3, 30)
    first, second = vectors(12, seed=2), vectors(12, seed=3)
    kinds = {True: [], False: []}
    for i in range(30):
        for j in range(30):
            if i != j:
                kinds[bool(labels[i] == labels[j])].append(sum(a * b for a, b in zip(z[i], z[j], strict=True)))
    augmented = [sum(a * b for a, b in zip(x, y, strict=True)) for x, y in zip(first, second, strict=True)]
    expected = {
        "augmented": np.mean(augmented),
        "same_class": np.mean(kinds[True]),
        "different_class": np.mean(kinds[False]),
    }
    assert pair_similarity(z, labels, (first, second)) == pytest.approx(expected, abs=1e-12)


def test_orthogonal_classes_are_told_apart():
    labels = np.arange(20) % 4
    z = np.eye(4)[labels]
    found = pair_similarity(z, labels, (z, z))
    assert found == {"augmented": 1.0, "same_class": 1.0, "different_class": 0.0}


def test_single_class_and_singletons_have_no_such_pairs():
    z = vectors(4)
    assert math.isnan(pair_similarity(z, np.zeros(4, int), (z, z))["different_class"])
    assert math.isnan(pair_similarity(z, np.arange(4), (z, z))["same_class"])


@pytest.mark.parametrize("block", [1, 7, 2048])
def test_uniformity_equals_loops(block):
    z = vectors() * 3
    unit = z / np.linalg.norm(z, axis=1, keepdims=True)
    pairs = [math.exp(-2 * ((unit[i] - unit[j]) ** 2).sum()) for i in range(30) for j in range(i)]
    assert uniformity(z, block=block) == pytest.approx(math.log(np.mean(pairs)), abs=1e-12)


def test_uniformity_and_alignment_at_their_ends():
    same = np.ones((5, 3))
    assert uniformity(same) == pytest.approx(0)
    assert alignment(same, 7 * same) == pytest.approx(0)
    assert alignment(same, -same) == pytest.approx(4)
    with pytest.raises(SimilarityError, match="two vectors"):
        uniformity(same[:1])


def test_effective_rank():
    assert rankme(np.eye(8)) == pytest.approx(8, rel=1e-3)
    assert rankme(np.outer(vectors(20, 1)[:, 0], np.ones(5))) == pytest.approx(1, rel=1e-3)
    assert rankme(np.zeros((4, 3))) == 0


def test_prototype_information():
    labels = np.arange(40) % 4
    assert prototype_information(labels, labels + 10) == pytest.approx(
        {"mutual_information": math.log(4), "share_of_entropy": 1.0}
    )
    assert prototype_information(labels, np.zeros(40, int))["mutual_information"] == pytest.approx(0)
    assert prototype_information(np.zeros(3, int), np.arange(3))["share_of_entropy"] == 1.0


@pytest.mark.parametrize("bad", [np.full((3, 2), np.nan), np.zeros(3), np.zeros((0, 2))])
def test_meaningless_vectors_are_refused(bad):
    with pytest.raises(SimilarityError):
        rankme(bad)
