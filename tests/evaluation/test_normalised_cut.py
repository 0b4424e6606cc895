import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.cluster import SpectralClustering
from sklearn.datasets import load_digits, make_blobs
from sklearn.metrics import adjusted_rand_score

from evaluation.normalised_cut import DENSE, embedding, normalised_cut


def by_sklearn(x, clusters):
    model = SpectralClustering(clusters, affinity="nearest_neighbors", n_neighbors=10, random_state=0, n_init=20)
    return model.fit_predict(x)


@pytest.mark.filterwarnings("ignore:Graph is not fully connected")
@pytest.mark.parametrize("rows", [300, 1797])  # the whole spectrum, and ARPACK
def test_clusters_are_scikit_learns(rows):
    x = load_digits().data[:rows]
    assert adjusted_rand_score(normalised_cut(x, 10, 10, seed=0), by_sklearn(x, 10)) > 0.99


@pytest.mark.parametrize("centres", [3, 30])
@pytest.mark.parametrize("rows", [400, 1500])
def test_components_of_the_graph_are_clusters(centres, rows):
    """A Lanczos method alone finds only some of `centres` equal eigenvalues: these blobs come out at ARI 0.2 then."""
    x, y = make_blobs(rows, 8, centers=centres, cluster_std=0.2, random_state=1)
    assert adjusted_rand_score(normalised_cut(x, centres, 10, seed=0), y) == 1


def test_more_clusters_than_components_and_fewer():
    x, y = make_blobs(900, 8, centers=3, cluster_std=0.2, random_state=1)
    five = normalised_cut(x, 5, 10, seed=0)
    assert len(np.unique(five)) == 5
    assert all(len(np.unique(y[five == own])) == 1 for own in range(5))  # each inside one component
    assert len(np.unique(normalised_cut(x, 2, 10, seed=0))) == 2


@pytest.mark.parametrize("rows", [40, DENSE + 100])
def test_embedding_solves_the_generalised_eigenproblem(rows):
    """A v = lambda D v, D-orthonormal, with the largest lambda there are (dense float64 solution)."""
    generator = np.random.default_rng(0)
    a = generator.random((rows, rows)) * (generator.random((rows, rows)) < 0.1)
    a = a + a.T + np.eye(rows) * 7  # the diagonal does not count
    v = embedding(csr_array(a), 4, seed=0)
    np.fill_diagonal(a, 0)
    d = a.sum(1)
    found = np.sort([(v[:, j] @ a @ v[:, j]) for j in range(4)])
    exact = np.sort(np.linalg.eigvalsh(a / np.sqrt(np.outer(d, d))))[-4:]
    np.testing.assert_allclose(v.T @ (d[:, None] * v), np.eye(4), atol=1e-8)
    np.testing.assert_allclose(found, exact, atol=1e-8)


def test_rows_order_does_not_matter_and_odd_rows_pass():
    x = load_digits().data[:700]
    order = np.random.default_rng(0).permutation(len(x))
    assert (
        adjusted_rand_score(normalised_cut(x[order], 10, 10, seed=0), normalised_cut(x, 10, 10, seed=0)[order]) > 0.99
    )
    assert len(normalised_cut(np.ones((30, 2)), 3, 10, seed=0)) == 30
    assert sorted(normalised_cut(np.arange(3.0)[:, None], 3, 10, seed=0)) == [0, 1, 2]
    with pytest.raises(ValueError, match="NaN"):
        normalised_cut(np.full((5, 2), np.nan), 2, 10, seed=0)
