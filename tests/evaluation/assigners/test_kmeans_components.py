import numpy as np

from evaluation.assigners.kmeans_components import component_centres
from evaluation.metrics.accuracy import accuracy
from tests.evaluation.samples import assigner, blobs


def test_components_start_kmeans_at_their_means():
    x, labels = blobs()
    p = np.eye(4)[labels]
    np.testing.assert_allclose(component_centres(x, labels, 4), [x[labels == m].mean(0) for m in range(4)], rtol=1e-5)
    model = assigner("kmeans_components")
    model.fit({"h": x, "p": p}, seed=0)
    assert accuracy(labels, model.predict({"h": x, "p": p})) == 1
    assert model.facts()["iterations"] <= 2


def test_more_components_than_clusters_use_the_most_frequent():
    x = np.arange(10, dtype=np.float32)[:, None]
    dominant = np.array([0, 0, 0, 1, 2, 2, 2, 2, 3, 3])
    np.testing.assert_allclose(component_centres(x, dominant, 2)[:, 0], [1, 5.5])  # components 0 and 2


def test_missing_components_are_filled_by_the_farthest_row():
    x = np.array([[0.0], [1.0], [10.0], [4.0]], dtype=np.float32)
    centres = component_centres(x, np.zeros(4, dtype=int), 3)
    np.testing.assert_allclose(centres[:, 0], [3.75, 10.0, 0.0])  # the mean; the farthest; the farthest from both
