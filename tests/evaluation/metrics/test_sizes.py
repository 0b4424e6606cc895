import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from evaluation.confusion import contingency
from evaluation.metrics.accuracy import accuracy
from evaluation.metrics.sizes import degenerate, sizes, sizes_alone

IMBALANCED = [[601, 399], [90, 5, 5], [910, *[10] * 9], [99, 1], [10] * 10]
COUNTS = st.lists(st.lists(st.integers(0, 12), min_size=3, max_size=3), min_size=1, max_size=5)


def rows_of(classes):
    """Labels of so many rows of each class."""
    return np.repeat(np.arange(len(classes)), classes)


def table(counts):
    """Counts [clusters, classes] without empty clusters and classes."""
    counts = np.array(counts)
    return counts[counts.sum(1) > 0][:, counts.sum(0) > 0]


@pytest.mark.parametrize("classes", IMBALANCED)
def test_one_cluster_is_degenerate_and_a_perfect_clustering_is_not(classes):
    labels = rows_of(classes)
    collapsed = np.zeros_like(labels)
    assert accuracy(labels, collapsed) == max(classes) / sum(classes)  # up to .99
    assert sizes(labels, collapsed)["degenerate"]
    assert not sizes(labels, labels)["degenerate"]


@pytest.mark.parametrize("classes", [classes for classes in IMBALANCED if min(classes) > 1])
def test_a_few_stray_rows_hide_no_collapse(classes):
    labels = rows_of(classes)
    clusters = np.zeros_like(labels)
    clusters[0] = 1
    assert sizes(labels, clusters)["degenerate"]


def test_clusters_of_the_largest_class_alone_say_nothing():
    """Strays in every cluster, but each has most of its rows from the largest class: its ACC of .87 means nothing."""
    counts = np.array([[870, *[8] * 9], *[[6, *[0] * 9]] * 3, [22, *[2] * 9]])
    assert degenerate(counts)
    counts[1, :2] = 0, 6  # one cluster that knows another class
    assert not degenerate(counts)


@pytest.mark.parametrize(
    ("clusters", "expected"),
    [([360], True), ([90] * 4, True), ([72] * 5, False), ([36] * 10, False), ([270, *[10] * 9], True)],
)
def test_ten_balanced_classes_need_half_as_many_clusters(clusters, expected):
    """Effective numbers alone decide there, as they always did."""
    labels = np.arange(360) % 10
    found = np.random.default_rng(0).permutation(rows_of(clusters))
    entropy = sizes(labels, found)["size_entropy"]
    assert sizes(labels, found)["degenerate"] == expected == (np.exp(entropy) < 5 - 1e-9)


def test_balanced_pairs_need_a_second_cluster_of_some_size():
    for second, expected in ((1, True), (8, True), (10, False), (50, False)):
        assert sizes(rows_of([50, 50]), rows_of([100 - second, second]))["degenerate"] == expected


@settings(max_examples=100, deadline=None)
@given(COUNTS, st.randoms(use_true_random=False), st.integers(1, 9))
def test_names_and_scale_do_not_count(counts, random, factor):
    counts = table(counts)
    assume(counts.size)
    rows, columns = list(range(counts.shape[0])), list(range(counts.shape[1]))
    random.shuffle(rows)
    random.shuffle(columns)
    expected = degenerate(counts)
    assert degenerate(counts[rows][:, columns]) == expected
    assert degenerate(counts * factor) == expected


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 2000), min_size=2, max_size=12))
def test_perfect_clusters_of_any_balance_are_never_degenerate_and_one_cluster_always_is(classes):
    assert not degenerate(np.diag(classes))
    assert degenerate(np.array([classes]))
    finer = np.repeat(np.diag(classes), 2, axis=0)  # every class in two halves
    assert not degenerate(finer)


def test_counts_are_those_of_the_contingency():
    labels, clusters = np.array([0, 0, 4, 4]), np.array([7, 7, 7, 2])
    assert degenerate(contingency(labels, clusters)) == sizes(labels, clusters)["degenerate"]
    assert sizes(labels, clusters)["classes_present"] == 2


@pytest.mark.parametrize(
    ("rows", "asked", "collapsed"),
    [([60], 1, False), ([60], 2, True), ([59, 1], 2, True), ([40, 20], 2, False), ([12] * 5, 10, False),
     ([15] * 4, 10, True), ([51, *[1] * 9], 10, True), ([6] * 10, 10, False)],
)  # fmt: skip
def test_without_labels_the_clusters_asked_for_stand_in_for_the_classes(rows, asked, collapsed):
    found = sizes_alone(np.random.default_rng(0).permutation(rows_of(rows)) * 3, asked)
    assert found["degenerate"] == collapsed
    assert (found["occupied_clusters"], found["classes_present"], found["n"]) == (len(rows), 0, sum(rows))
    assert found["largest_share"] == max(rows) / sum(rows)
    labelled = sizes(np.arange(sum(rows)) % asked, rows_of(rows))
    assert set(found) == set(labelled)
    assert {key: found[key] for key in ("largest_share", "size_entropy", "n")} == {
        key: labelled[key] for key in ("largest_share", "size_entropy", "n")
    }
