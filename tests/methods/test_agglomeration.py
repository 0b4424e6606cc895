"""Agglomerative clusters against loops that recompute everything from the rows after every merge."""

import itertools

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from methods.blocks.agglomeration import (
    Linkage,
    absorb,
    affinity,
    agglomerate,
    chains,
    directed,
    nearest,
    shared_agglomeration,
)

FOUR = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0], [3.0, 3.0]])


def points(rows=40, seed=0):
    generator = torch.Generator().manual_seed(seed)
    centres = 4 * torch.randn(5, 3, generator=generator)
    return centres[torch.arange(rows) % 5] + torch.randn(rows, 3, generator=generator)


def test_affinities_of_four_points():
    w = affinity(FOUR, 2).toarray()
    sigma = 5.375  # mean of the eight squared distances
    expected = {(0, 1): 0.830235, (0, 2): 0.475121, (1, 2): 0.394462, (3, 1): 0.089046, (3, 2): 0.155600}
    for pair, value in expected.items():
        assert w[pair] == pytest.approx(value, abs=1e-6)
    assert w[0, 1] == pytest.approx(np.exp(-1 / sigma), abs=1e-12)
    assert (w > 0).sum(1).tolist() == [2, 2, 2, 2]
    assert w[0, 3] == w[1, 3] == 0  # directed: 4 is nobody's neighbour
    a = directed(affinity(FOUR, 2), np.array([0, 0, 1, 1]))
    assert a[0, 1] == pytest.approx(0.4164652550, abs=1e-9)
    assert a[1, 0] == pytest.approx(0.7561743039, abs=1e-9)
    assert (a[0, 1] + a[1, 0]) / 4 == pytest.approx(0.2931598897, abs=1e-9)


def loops(w, groups, one, other):
    """A(one -> other) by its definition."""
    return sum(sum(w[n, m] for n in groups[other]) * sum(w[m, n] for n in groups[other]) for m in groups[one])


def merged_by_loops(w, labels, clusters, how):
    """The same by loops over lists of rows; with `fast` the affinities of a merged cluster are sums."""
    groups = {c: [i for i, label in enumerate(labels) if label == c] for c in sorted(set(labels))}
    a = {(i, j): loops(w, groups, i, j) for i, j in itertools.permutations(groups, 2)}
    while len(groups) > clusters:
        score, partner = {}, {}
        for i in groups:
            both = {j: a[i, j] / len(groups[j]) ** 2 + a[j, i] / len(groups[i]) ** 2 for j in groups if j != i}
            values = sorted(both.values(), reverse=True)
            partner[i] = max(both, key=both.get)
            count = min(how.partners, len(values))
            score[i] = values[0]
            if len(groups) > how.plain_below and count > 1:
                score[i] += sum(values[0] - value for value in values[1:count]) / (count - 1)
        best = max(score, key=score.get)
        one, other = sorted((best, partner[best]))
        if how.update == "fast":
            for k in groups:
                if k not in (one, other):
                    a[k, one] += a[k, other]
                    a[one, k] += a[other, k]
        groups[one] += groups.pop(other)
        if how.update == "exact":
            for k in groups:
                if k != one:
                    a[k, one], a[one, k] = loops(w, groups, k, one), loops(w, groups, one, k)
    found = np.empty(len(labels), dtype=int)
    for number, rows in enumerate(groups.values()):
        found[rows] = number
    return found


@pytest.mark.parametrize("update", ["fast", "exact"])
@pytest.mark.parametrize(("plain_below", "partners"), [(0, 5), (0, 2), (8, 4), (100, 5)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_merging_equals_loops(update, plain_below, partners, seed):
    x, how = points(seed=seed), Linkage(6, partners, plain_below, update, 99, "both")
    w, start = affinity(x, 6), np.sort(np.arange(40) ** 2 % 23)  # of one to several rows
    for clusters in (12, 4, 2):
        found = agglomerate(w, start, clusters, how)
        assert len(set(found.tolist())) == clusters
        np.testing.assert_array_equal(found, merged_by_loops(w.toarray(), start.tolist(), clusters, how))


def test_the_ways_to_merge_differ():
    """Else the cases above would hold whatever the keys did."""
    ends = []
    for keys in ((5, 0, "fast"), (5, 0, "exact"), (5, 100, "fast"), (2, 0, "fast")):
        how, starts = Linkage(6, *keys, 99, "both"), np.arange(40)
        graphs = [affinity(points(seed=seed), 6) for seed in range(6)]
        ends.append([agglomerate(w, starts, clusters, how).tolist() for w in graphs for clusters in (9, 5)])
    for one, other in itertools.combinations(ends, 2):
        assert one != other


def test_chains_are_components_of_nearest_neighbours():
    x = torch.tensor([[0.0], [1.0], [2.5], [10.0], [10.5], [20.0], [20.1]])
    labels = chains(x)
    assert labels.tolist() == [0, 0, 0, 1, 1, 2, 2]
    distances, rows = nearest(x, 2)
    assert rows[0].tolist() == [1, 2]
    np.testing.assert_allclose(distances[0], [1, 6.25], atol=1e-9)
    assert chains(torch.zeros(1, 2)).tolist() == [0]


def test_blocks_of_distances_change_nothing(monkeypatch):
    whole = nearest(points(), 5)
    monkeypatch.setattr("methods.blocks.agglomeration.BLOCK", 100)
    for one, other in zip(whole, nearest(points(), 5), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)


def test_order_of_rows_does_not_matter():
    x, how = points(), Linkage(6, 5, 10, "exact", 0, "either")
    order = torch.randperm(40, generator=torch.Generator().manual_seed(3))
    one = shared_agglomeration(x, None, 5, how)
    other = shared_agglomeration(x[order], None, 5, how)
    assert torch.equal(one[order].unsqueeze(0) == one[order].unsqueeze(1), other.unsqueeze(0) == other.unsqueeze(1))


def outliers():
    """Two groups of six rows, and a pair far from both, nearer to the second, in which none of them has neighbours."""
    x = torch.randn(12, 2, generator=torch.Generator().manual_seed(0)) * 0.3
    x[6:] += torch.tensor([10.0, 0])
    return torch.cat([x, torch.tensor([[40.0, 0.0], [40.1, 0.0]])])


def test_outliers_without_affinity_join_the_nearest_cluster():
    x, start = outliers(), np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4])
    w = affinity(x, 4)
    assert directed(w, start)[4, :4].tolist() == directed(w, start)[:4, 4].tolist() == [0] * 4
    both = Linkage(4, 5, 100, "fast", 0, "both")
    joined = absorb(x, w, start, 2, both)
    means = torch.stack([x[torch.from_numpy(start) == c].mean(0) for c in range(4)])
    to = int((means - x[12:].mean(0)).norm(dim=1).argmin())
    assert to in (2, 3)
    assert len(set(joined)) == 4
    assert (joined[12:] == joined[start == to][0]).all()
    assert absorb(x, w, start, 5, both) is start  # four would be fewer than asked for
    shared = {}
    for limit in (4, 5):
        how = Linkage(4, 5, 100, "fast", limit, "both")
        shared[limit] = shared_agglomeration(x, torch.from_numpy(start), 2, how).tolist()
    assert shared[4] == [0] * 6 + [1] * 8
    assert shared[5] != shared[4]  # five clusters are no more than five: nothing is absorbed


def test_outliers_with_affinity_in_one_direction_join_where_either_counts():
    """Row 5 of cluster 2 points to a row that does not point back; row 4 of it is pointed at by another."""
    w = np.zeros((6, 6))
    w[0, 1] = w[1, 0] = w[2, 3] = w[3, 2] = w[4, 5] = w[5, 4] = w[1, 2] = w[2, 1] = 1
    w[5, 0] = w[1, 4] = 1
    x = torch.tensor([[0.0], [1.0], [4.0], [5.0], [7.0], [8.0]])
    w, start = csr_array(w), np.array([0, 0, 1, 1, 2, 2])
    a = directed(w, start)
    assert a[0, 2] == a[1, 2] == 0  # no row of others has edges in both directions with it
    assert a[2, 0] == 0
    w = w.tolil()
    w[4, 0] = 1  # row 4 points and is pointed at: one direction
    w = csr_array(w)
    a = directed(w, start)
    assert a[0, 2] == a[1, 2] == 0 < a[2, 0]
    kept = absorb(x, w, start, 2, Linkage(2, 5, 100, "fast", 0, "both"))
    assert kept.tolist() == [0, 0, 1, 1, 2, 2]
    joined = absorb(x, w, start, 2, Linkage(2, 5, 100, "fast", 0, "either"))
    assert joined.tolist() == [0, 0, 1, 1, 1, 1]  # the nearest mean


def test_odd_inputs():
    how = Linkage(20, 5, 100, "fast", 0, "either")
    same = shared_agglomeration(torch.ones(6, 3), None, 3, how)  # one chain, or few: never NaN, never an error
    assert len(same.unique()) <= 3
    assert np.isfinite(affinity(torch.ones(6, 3), 20).data).all()
    gaps = agglomerate(affinity(FOUR, 2), np.array([7, 7, 3, 9]), 2, how)
    assert sorted(set(gaps.tolist())) == [0, 1]
    kept = agglomerate(affinity(FOUR, 2), np.array([0, 0, 1, 1]), 3, how)  # fewer than asked: as they are
    assert kept.tolist() == [0, 0, 1, 1]
    apart = torch.tensor([[0.0, 0], [0.1, 0], [9, 0], [9.1, 0], [0, 50], [0, 50.1]])
    assert (
        len(shared_agglomeration(apart, None, 2, Linkage(1, 5, 100, "fast", 99, "both")).unique()) == 2
    )  # affinities of 0
