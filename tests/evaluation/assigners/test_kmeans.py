import numpy as np
import pytest

from evaluation import centroids
from evaluation.features import prepare
from evaluation.metrics.accuracy import accuracy
from tests.evaluation.samples import assigner, blobs


@pytest.mark.parametrize("name", ["kmeans", "kmeans_raw", "kmeans_mixem_code"])
def test_kmeans_finds_blobs_and_predicts_rows_it_never_saw(name):
    x, labels = blobs()
    model = assigner(name)
    model.fit({"h": x[:80]}, seed=1)
    assert accuracy(labels[80:], model.predict({"h": x[80:]})) == 1
    again = assigner(name)
    again.fit({"h": x[:80]}, seed=1)
    np.testing.assert_array_equal(again.predict({"h": x}), model.predict({"h": x}))


def test_normalised_kmeans_ignores_the_length_of_features():
    x, labels = blobs()
    scaled = x * np.random.default_rng(0).uniform(0.01, 100, (len(x), 1)).astype(np.float32)
    model = assigner("kmeans")
    model.fit({"h": scaled}, seed=0)
    assert accuracy(labels, model.predict({"h": scaled})) == 1


def test_constant_and_zero_features_do_not_crash():
    model = assigner("kmeans", clusters=2)
    model.fit({"h": np.ones((10, 3), dtype=np.float32)}, seed=0)
    assert set(model.predict({"h": np.ones((10, 3))})) == {0}
    assert np.isfinite(prepare({"h": np.zeros((2, 3))}, "h", True)).all()


@pytest.mark.parametrize("name", ["kmeans_raw", "kmeans_dec", "kmeans"])
def test_identical_rows_with_as_many_clusters(name):
    x = np.ones((6, 3), dtype=np.float32)
    model = assigner(name, classes=6)
    model.fit({"h": x}, seed=0)
    assert len(np.unique(model.predict({"h": x}))) == 1  # one distinct point is one cluster, whatever K
    assert model.facts()["inertia"] == pytest.approx(0, abs=1e-9)


def test_kmeans_of_five_thousand_clusters_predicts():
    x = np.random.default_rng(0).normal(size=(6000, 4)).astype(np.float32)
    model = assigner("kmeans_raw", clusters=5000, n_init=1, max_iter=2)
    model.fit({"h": x}, seed=0)
    assert len(np.unique(model.predict({"h": x}))) == 5000


def test_confidence_is_the_margin_between_the_two_nearest_centres(monkeypatch):
    monkeypatch.setattr(centroids, "BLOCK", 20)  # several blocks of rows
    generator = np.random.default_rng(2)
    x, new = (generator.normal(size=(rows, 3)).astype(np.float32) for rows in (90, 33))
    model = assigner("kmeans_raw")
    model.fit({"h": x}, seed=0)
    centres = model.state()["centres"].astype(np.float64)
    for row, sure in zip(new, model.confidence({"h": new}), strict=True):
        nearest, second = sorted(np.linalg.norm(row - centre) for centre in centres)[:2]
        assert sure == pytest.approx(1 - nearest / second, abs=1e-6)
    halfway = ((centres[0] + centres[1]) / 2).astype(np.float32)[None]
    others = np.linalg.norm(centres[2:] - halfway, axis=1).min() > np.linalg.norm(centres[0] - halfway)
    assert model.confidence({"h": centres.astype(np.float32)}) == pytest.approx(np.ones(4), abs=1e-5)
    assert not others or model.confidence({"h": halfway}) == pytest.approx([0], abs=1e-5)
    one = assigner("kmeans_raw", clusters=1)
    one.fit({"h": x}, seed=0)
    assert one.confidence({"h": new}).tolist() == [1] * 33
