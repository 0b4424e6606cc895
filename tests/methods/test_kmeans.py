import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans as Reference
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score

import methods.blocks.kmeans as module
from methods.blocks.kmeans import kmeans


def data(rows=400, width=8, clusters=5, seed=0, spread=1.0):
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, clusters, rows)
    x = generator.normal(size=(clusters, width))[labels] * 3 + spread * generator.normal(size=(rows, width))
    return torch.from_numpy(x.astype(np.float32)), labels


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("clusters", "spread"), [(5, 1.0), (8, 2.0), (2, 3.0)])
def test_given_starts_equal_scikit_learn(seed, clusters, spread):
    x, _ = data(clusters=clusters, seed=seed, spread=spread)
    starts = x[:clusters].clone()
    ours = kmeans(x, clusters, init=starts, max_iter=300, tol=0)
    theirs = Reference(clusters, init=starts.numpy(), n_init=1, max_iter=300, tol=0).fit(x.numpy())
    assert ours.inertia == pytest.approx(theirs.inertia_, rel=1e-4)
    assert adjusted_rand_score(ours.labels, theirs.labels_) == pytest.approx(1)
    np.testing.assert_allclose(ours.centres, theirs.cluster_centers_, atol=1e-3)


@pytest.mark.parametrize("init", ["random", "k-means++"])
def test_many_starts_are_as_good_as_scikit_learns(init):
    x, _ = data(rows=1000, clusters=10, spread=2.0)
    ours = kmeans(x, 10, n_init=30, init=init, seed=1)
    theirs = Reference(10, init=init, n_init=30, random_state=1).fit(x.numpy())
    assert ours.inertia <= theirs.inertia_ * 1.001
    exact = ((x.double() - ours.centres.double()[ours.labels]) ** 2).sum()
    assert ours.inertia == pytest.approx(exact.item(), rel=1e-6)
    assert ours.inertias.argmin() == ours.restart
    np.testing.assert_array_equal(ours.predict(x), ours.labels)


@pytest.mark.parametrize("init", ["random", "k-means++"])
@pytest.mark.parametrize("spherical", [False, True])
def test_a_race_ends_at_a_fixed_point_as_good_as_all_restarts(monkeypatch, init, spherical):
    x, _ = data(rows=600, width=160, clusters=12, spread=8.0)
    every = kmeans(x, 12, n_init=24, init=init, seed=1, spherical=spherical, finalists=None)
    monkeypatch.setattr(module, "RACE_FROM", 0)
    raced = kmeans(x, 12, n_init=24, init=init, seed=1, spherical=spherical)
    assert len(every.inertias) == 24
    assert len(raced.inertias) == 3
    assert raced.inertia <= every.inertia * 1.002
    means = torch.stack([(module.F.normalize(x) if spherical else x)[raced.labels == k].mean(0) for k in range(12)])
    np.testing.assert_allclose(raced.centres, module.F.normalize(means) if spherical else means, atol=1e-3)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(3))
    other = kmeans(x[order], 12, n_init=24, init=init, seed=1, spherical=spherical)
    assert adjusted_rand_score(raced.labels[order], other.labels) > 0.95


def test_thousands_of_clusters():
    x, _ = data(rows=6000, width=4, clusters=50)
    fitted = kmeans(x, 5000, max_iter=3)
    assert len(fitted.labels.unique()) == 5000
    assert torch.equal(fitted.labels, torch.cdist(x.double(), fitted.centres.double()).argmin(1))


def test_the_order_of_rows_only_renames():
    x, _ = data(spread=2.0)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(3))
    one, other = kmeans(x, 6, n_init=10, seed=2), kmeans(x[order], 6, n_init=10, seed=2)
    assert one.inertia == pytest.approx(other.inertia, rel=1e-6)
    assert adjusted_rand_score(one.labels[order], other.labels) == pytest.approx(1)


def same_in_any_order(x, clusters, **settings):
    """Shuffled rows give the partition of the rows as they are."""
    one = kmeans(x, clusters, **settings)
    for seed in range(3):
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
        other = kmeans(x[order], clusters, **settings)
        assert adjusted_rand_score(one.labels[order], other.labels) == pytest.approx(1)
        assert other.inertia == pytest.approx(one.inertia, rel=1e-6)
    return one


INITS = pytest.mark.parametrize("init", ["random", "k-means++"])


@INITS
@pytest.mark.parametrize("seed", range(3))
def test_pixels_give_the_same_partition_in_any_order_of_rows(init, seed):
    """Digits: many rows are equal in their first pixels, and pixels of few values have equal distances."""
    pixels = torch.from_numpy(load_digits().data.astype(np.float32))
    same_in_any_order(pixels[:200], 10, init=init, seed=seed)
    same_in_any_order(pixels[:600] / 16, 10, n_init=3, init=init, seed=seed)


@INITS
def test_blank_borders_and_duplicates_give_the_same_partition_in_any_order_of_rows(init):
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(500, 64)).astype(np.float32))
    x[:, :8] = 0
    for seed in range(3):
        same_in_any_order(x, 10, init=init, seed=seed)
        same_in_any_order(torch.cat([x[:100]] * 3), 10, init=init, seed=seed)
        same_in_any_order((x > 0).float(), 10, init=init, seed=seed)


def test_wide_images_with_blank_borders_race_to_the_same_partition_in_any_order(monkeypatch):
    generator = np.random.default_rng(1)
    images = np.zeros((400, 28, 28), dtype=np.float32)
    strokes = generator.integers(0, 2, (8, 20, 20))[generator.integers(0, 8, 400)]
    images[:, 4:24, 4:24] = np.where(generator.random((400, 20, 20)) < 0.35, 1 - strokes, strokes)
    monkeypatch.setattr(module, "RACE_FROM", 0)
    found = same_in_any_order(torch.from_numpy(images.reshape(400, -1)), 8, n_init=10, seed=4)
    assert len(found.inertias) == 3


def test_labels_are_those_of_the_rows_as_they_came():
    pixels = torch.from_numpy(load_digits().data[:300].astype(np.float32))
    found = kmeans(pixels, 10, n_init=3)
    np.testing.assert_array_equal(found.predict(pixels), found.labels)
    means = torch.stack([pixels[found.labels == cluster].mean(0) for cluster in range(10)])
    np.testing.assert_allclose(found.centres, means, atol=1e-3)


def test_seeds_repeat_and_differ():
    x, _ = data(spread=4.0)
    one, again, other = (kmeans(x, 9, n_init=1, seed=s, max_iter=2) for s in (1, 1, 2))
    assert torch.equal(one.labels, again.labels)
    assert not torch.equal(one.labels, other.labels)


def test_empty_clusters_are_refilled():
    x, _ = data(rows=60)
    starts = torch.cat([x[:2], torch.full((3, x.shape[1]), 1e3)])  # three starts that nothing is near
    fitted = kmeans(x, 5, init=starts)
    assert len(fitted.labels.unique()) == 5


@pytest.mark.parametrize("clusters", [1, 3, 12])
def test_duplicates_singletons_and_one_cluster(clusters):
    x = torch.tensor([[0.0, 0.0]] * 6 + [[1.0, 0.0]] * 5 + [[5.0, 5.0]])
    fitted = kmeans(x, clusters, n_init=3)
    assert torch.isfinite(fitted.centres).all()
    assert len(fitted.labels.unique()) <= min(clusters, 3)
    if clusters > 1:
        assert len(fitted.labels.unique()) == 3
        assert fitted.inertia == pytest.approx(0, abs=1e-9)


def test_every_row_its_own_cluster():
    x, _ = data(rows=20)
    fitted = kmeans(x, 20)
    assert len(fitted.labels.unique()) == 20
    assert fitted.inertia == pytest.approx(0, abs=1e-6)


def test_spherical_uses_directions_only():
    x, _ = data(rows=300, clusters=4, spread=0.3)
    scaled = x * torch.rand(len(x), 1).add(0.1)
    fitted = kmeans(scaled, 4, n_init=10, spherical=True)
    np.testing.assert_allclose(fitted.centres.norm(dim=1), 1, atol=1e-5)
    assert adjusted_rand_score(fitted.labels, kmeans(x, 4, n_init=10, spherical=True).labels) == pytest.approx(1)


def test_far_from_the_origin_digits_are_kept():
    x, labels = data(clusters=3, spread=0.2)
    assert adjusted_rand_score(kmeans(x + 1e4, 3, n_init=5).labels, labels) > 0.99


def test_what_cannot_be_clustered_is_refused():
    x, _ = data(rows=4)
    with pytest.raises(ValueError, match="5 clusters asked of 4 rows"):
        kmeans(x, 5)
    x[1, 1] = torch.nan
    with pytest.raises(ValueError, match="NaN"):
        kmeans(x, 2)
    with pytest.raises(ValueError, match="'random', 'k-means"):
        kmeans(data()[0], 2, init="first")
