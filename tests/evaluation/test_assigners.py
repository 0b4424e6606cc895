import numpy as np
import pytest
from sklearn.datasets import make_blobs

from evaluation.assigners import ALGORITHMS, AssignError, NonFinite, component_centres, prepare
from evaluation.clustering import accuracy
from pipeline import catalogue


def blobs(rows=120, clusters=4, width=6, seed=0):
    generator = np.random.default_rng(seed)
    labels = np.arange(rows) % clusters
    centres = np.eye(clusters, width) * 5
    return (centres[labels] + generator.normal(size=(rows, width)) * 0.3).astype(np.float32), labels


def assigner(name, classes=4, **changes):
    settings = catalogue.entry("assigner", name) | changes
    return ALGORITHMS[settings["algorithm"]](settings, classes)


@pytest.mark.parametrize("name", ["kmeans", "kmeans_raw", "kmeans_mixem_faithful"])
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


def test_argmax():
    p = np.array([[0.1, 0.9], [0.8, 0.2]])
    model = assigner("argmax")
    model.fit({"p": p}, seed=0)
    np.testing.assert_array_equal(model.predict({"p": p}), [1, 0])


def test_what_cannot_be_clustered_is_named():
    x, _ = blobs(rows=3)
    with pytest.raises(AssignError, match="4 clusters asked of 3 rows"):
        assigner("kmeans").fit({"h": x}, seed=0)
    with pytest.raises(AssignError, match="gives only h"):
        assigner("argmax").fit({"h": x}, seed=0)
    x, _ = blobs()
    with pytest.raises(AssignError, match="component probabilities"):
        assigner("kmeans_components").fit({"h": x}, seed=0)
    x[5, 2] = np.nan
    with pytest.raises(NonFinite, match="not finite in 1 of 120 rows"):
        assigner("kmeans").fit({"h": x}, seed=0)


def test_constant_and_zero_features_do_not_crash():
    model = assigner("kmeans", clusters=2)
    model.fit({"h": np.ones((10, 3), dtype=np.float32)}, seed=0)
    assert set(model.predict({"h": np.ones((10, 3))})) == {0}
    assert np.isfinite(prepare({"h": np.zeros((2, 3))}, {"features": "h", "normalise": True})).all()


def test_schema_lists_exactly_the_algorithms():
    schema = catalogue.read_yaml(catalogue.CONFIG / "schemas" / "assigner.yaml")
    assert sorted(schema["properties"]["algorithm"]["enum"]) == sorted(ALGORITHMS)
    for name in catalogue.names("assigner"):
        assigner(name)


@pytest.mark.parametrize("name", ["sinkhorn", "spectral", "agglomerative", "gmm", "umap_gmm", "umap_kmeans"])
def test_other_assigners_find_blobs_and_repeat(name):
    x, labels = blobs()
    model = assigner(name)
    model.fit({"h": x}, seed=1)
    found = model.predict({"h": x})
    assert accuracy(labels, found) > 0.97
    again = assigner(name)
    again.fit({"h": x}, seed=1)
    np.testing.assert_array_equal(again.predict({"h": x}), found)


def test_of_several_mixtures_the_likeliest_is_kept():
    """EM from one start ends in a worse optimum for some seeds; a restart is never worse than its first start."""
    x, _ = make_blobs(400, 3, centers=9, cluster_std=1.0, random_state=3)

    def fitted(seed, **changes):
        model = assigner("gmm", 9, **changes)
        model.fit({"h": x}, seed)
        return model.facts()["log_likelihood"]

    gains = [fitted(seed, n_init=5) - fitted(seed) for seed in range(5)]
    assert min(gains) >= 0
    assert max(gains) > 0.01


@pytest.mark.parametrize("name", ["sinkhorn", "gmm", "umap_gmm"])
def test_inductive_assigners_predict_unseen_rows(name):
    x, labels = blobs(rows=240)
    model = assigner(name)
    model.fit({"h": x[:160]}, seed=1)
    assert accuracy(labels[160:], model.predict({"h": x[160:]})) > 0.9
    assert len(model.predict({"h": x[:1]})) == 1


@pytest.mark.parametrize("name", ["spectral", "agglomerative"])
def test_transductive_assigners_refuse_unseen_rows(name):
    x, _ = blobs()
    model = assigner(name)
    model.fit({"h": x[:80]}, seed=1)
    with pytest.raises(AssignError, match="clusters only the rows it was fitted on"):
        model.predict({"h": x[80:]})


def test_sinkhorn_balances_unbalanced_probabilities():
    generator = np.random.default_rng(0)
    p = generator.dirichlet([5, 1, 1, 1], 400)
    model = assigner("sinkhorn_p")
    model.fit({"p": p}, seed=0)
    sizes = np.bincount(model.predict({"p": p}), minlength=4)
    assert np.bincount(p.argmax(1)).max() > 300
    assert sizes.max() < 180


@pytest.mark.parametrize("name", ["spectral", "agglomerative", "gmm", "umap_gmm"])
def test_more_clusters_than_rows_is_named(name):
    x, _ = blobs(rows=3)
    with pytest.raises(AssignError, match="4 clusters asked of 3 rows"):
        assigner(name).fit({"h": x}, seed=0)


@pytest.mark.parametrize("name", ["kmeans_raw", "kmeans_dec", "kmeans"])
def test_identical_rows_with_as_many_clusters(name):
    x = np.ones((6, 3), dtype=np.float32)
    model = assigner(name, classes=6)
    model.fit({"h": x}, seed=0)
    assert len(np.unique(model.predict({"h": x}))) == 1  # one distinct point is one cluster, whatever K
    assert model.facts()["inertia"] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("name", ["kmeans", "gmm", "spectral", "agglomerative", "sinkhorn"])
def test_fewer_rows_than_clusters_are_refused(name):
    with pytest.raises(AssignError, match="4 clusters asked of 3 rows"):
        assigner(name).fit({"h": blobs(rows=3)[0]}, seed=0)


def test_kmeans_of_five_thousand_clusters_predicts():
    x = np.random.default_rng(0).normal(size=(6000, 4)).astype(np.float32)
    model = assigner("kmeans_raw", clusters=5000, n_init=1, max_iter=2)
    model.fit({"h": x}, seed=0)
    assert len(np.unique(model.predict({"h": x}))) == 5000
