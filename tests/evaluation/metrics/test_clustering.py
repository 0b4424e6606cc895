import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation.confusion import matched_confusion
from evaluation.geometry import geometry
from evaluation.metric import MetricError, clustering_metrics
from evaluation.metrics.accuracy import accuracy, majority_accuracy
from pipeline import catalogue

Y = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, 2])
C = np.array([0, 0, 3, 1, 1, 1, 2, 2, 4, 4])


def test_oracle():
    found = clustering_metrics(Y, C)
    expected = {
        "ACC": 0.7, "majority_ACC": 1.0, "NMI": 0.8230495808, "NMI_geometric": 0.8362457335, "NMI_max": 0.6993069268,
        "AMI": 0.6928084894, "AMI_max": 0.5299976965, "ARI": 0.5945945946,
    }  # fmt: skip
    assert {name: found[name] for name in expected} == pytest.approx(expected, abs=1e-10)
    assert found["occupied_clusters"] == 5
    assert found["largest_share"] == pytest.approx(0.3)


def brute_force_accuracy(labels, clusters):
    """Best one-to-one matching by trying every injective map of the smaller side into the larger."""
    import itertools

    ks, cs = sorted(set(clusters)), sorted(set(labels))
    best = 0
    if len(ks) <= len(cs):
        maps = (dict(zip(ks, chosen, strict=True)) for chosen in itertools.permutations(cs, len(ks)))
    else:
        maps = ({k: c for c, k in zip(cs, chosen, strict=True)} for chosen in itertools.permutations(ks, len(cs)))
    for mapping in maps:
        best = max(best, sum(mapping.get(c, -1) == y for y, c in zip(labels, clusters, strict=True)))
    return best / len(labels)


pairs = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=30)


@settings(max_examples=60, deadline=None)
@given(pairs)
def test_accuracy_equals_brute_force(values):
    labels, clusters = map(np.array, zip(*values, strict=True))
    assert accuracy(labels, clusters) == pytest.approx(brute_force_accuracy(labels.tolist(), clusters.tolist()))


@settings(max_examples=60, deadline=None)
@given(pairs, st.permutations(range(5)), st.integers(0, 2**31))
def test_names_gaps_and_order_do_not_matter(values, names, seed):
    labels, clusters = map(np.array, zip(*values, strict=True))
    before = clustering_metrics(labels, clusters)
    order = np.random.default_rng(seed).permutation(len(labels))
    renamed = np.array(names)[clusters] * 7 + 3  # gaps, no cluster 0
    after = clustering_metrics((labels * 5)[order], renamed[order])
    for name, value in before.items():
        assert after[name] == pytest.approx(value, abs=1e-9), name


@pytest.mark.parametrize("seed", range(3))
def test_bounds_and_perfection(seed):
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 4, 50)
    clusters = generator.integers(0, 9, 50)
    found = clustering_metrics(labels, clusters)
    assert 0 <= found["ACC"] <= found["majority_ACC"] <= 1
    assert found["NMI_max"] <= found["NMI"] <= found["NMI_geometric"] + 1e-12
    perfect = clustering_metrics(labels, (labels + 2) % 4)
    for name in ("ACC", "majority_ACC", "NMI", "NMI_geometric", "NMI_max", "AMI", "AMI_max", "ARI"):
        assert perfect[name] == pytest.approx(1)
    assert not perfect["degenerate"]


def test_more_clusters_than_classes_counts_surplus_as_errors():
    labels, clusters = np.repeat([0, 1], 10), np.arange(20) // 5
    assert accuracy(labels, clusters) == pytest.approx(0.5)
    assert majority_accuracy(labels, clusters) == pytest.approx(1.0)


def test_fewer_clusters_than_classes():
    labels, clusters = np.repeat([0, 1, 2], 10), np.repeat([0, 0, 1], 10)
    assert accuracy(labels, clusters) == pytest.approx(2 / 3)
    assert majority_accuracy(labels, clusters) == pytest.approx(2 / 3)


def test_one_cluster_is_flagged_and_finite():
    found = clustering_metrics(np.repeat([0, 1, 2, 3], 5), np.zeros(20, dtype=int))
    assert found["degenerate"]
    assert [found["occupied_clusters"], found["largest_share"], found["size_entropy"]] == [1, 1.0, 0.0]
    assert found["ACC"] == pytest.approx(0.25)
    assert found["NMI"] == pytest.approx(0)
    assert found["ARI"] == pytest.approx(0)
    assert all(math.isfinite(value) for value in found.values())


def test_one_class_and_one_sample():
    found = clustering_metrics(np.array([5]), np.array([9]))
    assert found["ACC"] == 1
    assert (found["degenerate"], found["classes_present"]) == (True, 1)  # nothing to tell apart
    assert clustering_metrics(np.zeros(6, dtype=int), np.arange(6) % 2)["degenerate"]


@pytest.mark.parametrize(
    ("labels", "clusters", "message"),
    [
        ([0, -1, 1], [0, 1, 1], "labels contain -1"),
        ([0, 1, 1], [0, -1, 1], "clusters contain -1"),
        ([0, 1], [0, 1, 1], "equally long"),
        ([], [], "not empty"),
        ([0.5, 1.0], [0, 1], "labels must be integers"),
        (["a", "b"], [0, 1], "labels must be integers"),
    ],
)
def test_meaningless_input_is_refused(labels, clusters, message):
    with pytest.raises(MetricError, match=message):
        clustering_metrics(np.array(labels), np.array(clusters))


def test_table_metrics_exist():
    x = np.random.default_rng(0).normal(size=(20, 3))
    produced = (
        set(clustering_metrics(Y, C))
        | set(geometry(x, x[:, :2]))
        | {"uniformity", "effective_rank", "alignment", "training_seconds"}
    )
    produced |= {
        "CRA",
        "MLP",
        "RFC",
        "SVM",
        "LR",
        "mAP",
        "AP",
        "AP50",
        "AP75",
        "top5",
        "augmented",
        "same_class",
        "different_class",
    }
    produced |= {f"mAP@{k}" for k in catalogue.entry("probe", "lowshot_svm")["shots"]}
    assert set(catalogue.names("metric")) <= produced


def test_confusion_after_matching():
    found = matched_confusion(Y, C)
    assert found.counts.sum() == len(Y)
    assert np.trace(found.counts) / len(Y) == pytest.approx(accuracy(Y, C))
    # classes 0, 1, 2 have 3, 3, 4 samples; clusters 3 (one sample of class 0) and 4 or 2 (two of class 2) are surplus
    np.testing.assert_array_equal(found.counts, [[2, 0, 0, 0, 1], [0, 3, 0, 0, 0], [0, 0, 2, 2, 0]])
    assert found.classes.tolist() == [0, 1, 2]
    for column, cluster in enumerate(found.clusters):  # every column is what its cluster holds
        np.testing.assert_array_equal(found.counts[:, column], [((c == Y) & (cluster == C)).sum() for c in range(3)])
    np.testing.assert_allclose(found.accuracies, [2 / 3, 1, 1 / 2])


def test_fewer_clusters_leave_a_class_at_zero():
    """Gaps in labels and ids; a class without a cluster has an empty column and no id in it."""
    found = matched_confusion(np.repeat([0, 1, 5], [4, 3, 4]), np.repeat([7, 7, 3], [4, 3, 4]))
    np.testing.assert_array_equal(found.counts, [[4, 0, 0], [3, 0, 0], [0, 0, 4]])
    assert found.classes.tolist() == [0, 1, 5]
    assert found.clusters.tolist() == [7, -1, 3]
    assert found.accuracies.tolist() == [1, 0, 1]


def test_more_than_a_thousand_labels_take_seconds():
    import time

    generator = np.random.default_rng(0)
    labels, clusters = generator.integers(0, 1500, 10_000), generator.integers(0, 1500, 10_000)
    begun = time.monotonic()
    found = clustering_metrics(labels, clusters)
    assert time.monotonic() - begun < 15
    assert abs(found["AMI"]) < 0.01  # adjusted for chance
    assert found["NMI"] > 0.5  # not adjusted: grows with the number of clusters
