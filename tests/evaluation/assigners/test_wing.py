"""Every file of the wing keeps the contract of evaluation/assigner.py; a new file is tested without a word here."""

import dataclasses
import json

import numpy as np
import pytest

from evaluation.assigner import Assigner, AssignError, load
from evaluation.features import FeatureError, NonFinite
from evaluation.metrics.accuracy import accuracy
from pipeline import catalogue
from pipeline.wings import signature, wing_names
from tests.evaluation.samples import algorithm, assigner, blobs


def own_count(name):
    """Whether an entry asks for a number of clusters of its own, not for that of the classes."""
    return isinstance(catalogue.entry("assigner", name).get("clusters"), int)


# Entries with a count of their own may ask for more clusters than there are rows here.
ENTRIES = [
    n for n in catalogue.names("assigner") if not own_count(n) or catalogue.entry("assigner", n)["clusters"] <= 120
]


@pytest.mark.parametrize("name", wing_names("assigner"))
def test_every_file_declares_settings_and_an_assigner_and_is_used(name):
    module = load(name)
    assert dataclasses.is_dataclass(module.Settings)
    assert module.Settings.__dataclass_params__.frozen
    assert set(signature("assigner", name).settings) == {field.name for field in dataclasses.fields(module.Settings)}
    assert issubclass(module.ASSIGNER, Assigner)
    assert module.__doc__
    assert name in {catalogue.entry("assigner", entry)["algorithm"] for entry in catalogue.names("assigner")}


@pytest.mark.parametrize("name", catalogue.names("assigner"))
def test_every_entry_gives_its_settings(name):
    file, settings = algorithm("assigner", name)
    found = dataclasses.asdict(load(file).Settings(**settings))
    assert {key: found[key] for key in settings} == settings


@pytest.mark.parametrize("name", ENTRIES)
def test_every_assigner_repeats_by_its_seed_and_predicts_the_rows_it_was_fitted_on(name):
    x, labels = blobs()
    p = np.full((120, 4), 0.1, dtype=np.float32)
    p[np.arange(120), labels] = 0.7
    features = {"h": x, "p": p}
    before = {key: value.copy() for key, value in features.items()}
    found = []
    for _ in range(2):
        model = assigner(name)
        model.fit(features, seed=5)
        found.append(model.predict(features))
        np.testing.assert_array_equal(model.predict(features), found[-1])
        json.dumps(model.facts(), allow_nan=False)
    np.testing.assert_array_equal(*found)
    assert found[0].shape == (120,)
    assert found[0].dtype == np.int64
    assert found[0].min() >= 0
    if not own_count(name):
        assert accuracy(labels, found[0]) > 0.97  # the contract: clusters far apart are found
    for key, value in before.items():
        np.testing.assert_array_equal(features[key], value)  # what it is given stays as it is


def stored_and_restored(name, model, folder):
    """A new assigner of the same entry with the state of a fitted one, through a file."""
    np.savez(folder / "state.npz", **model.state())
    with np.load(folder / "state.npz", allow_pickle=False) as state:
        again = assigner(name)
        again.restore(dict(state))
    return again


@pytest.mark.parametrize("name", ENTRIES)
def test_what_an_assigner_stores_predicts_as_it_does_or_it_says_why_not(name, tmp_path):
    """Rows that overlap, others than it was fitted on: what decides is the very state, and no cluster is certain."""
    generator = np.random.default_rng(3)
    x = generator.normal(size=(300, 6)).astype(np.float32)
    p = generator.dirichlet(np.ones(4), 300).astype(np.float32)
    fitted, new = ({"h": x[part], "p": p[part]} for part in (slice(200), slice(200, None)))
    model = assigner(name)
    if model.refuses_new_rows:
        assert model.state() == {}
        with pytest.raises(AssignError, match="new rows cannot be assigned"):
            assigner(name).restore({})
        with pytest.raises(AssignError, match="there is no confidence"):
            model.confidence(fitted)
        return
    model.fit(fitted, seed=1)
    again = stored_and_restored(name, model, tmp_path)
    for rows in (fitted, new, {key: value[:1] for key, value in new.items()}):
        np.testing.assert_array_equal(again.predict(rows), model.predict(rows))
        sure = again.confidence(rows)
        np.testing.assert_array_equal(sure, model.confidence(rows))
        assert sure.dtype == np.float64
        assert sure.shape == (len(rows["h"]),)
        assert sure.min() >= 0
        assert sure.max() <= 1
    assert len(np.unique(model.confidence(new))) > 50
    assert len(np.unique(again.predict(new))) > 1
    assert model.confidence_is


@pytest.mark.parametrize("name", wing_names("assigner"))
def test_only_assigners_without_a_model_of_their_own_refuse_new_rows(name):
    refused = {"spectral": "only the rows", "agglomerative": "only the rows", "umap_gmm": "UMAP", "umap_kmeans": "UMAP"}
    reason = load(name).ASSIGNER.refuses_new_rows
    if name in ("argmax", "gmm", "kmeans", "kmeans_components", "sinkhorn"):
        assert reason == ""
    elif reason != Assigner.refuses_new_rows:  # what a new file that leaves it alone has
        assert refused.get(name, "") in reason
    else:
        assert name not in refused


@pytest.mark.parametrize("name", ENTRIES)
def test_features_that_are_not_finite_or_not_there_are_refused(name):
    wanted = catalogue.entry("assigner", name)["features"]
    with pytest.raises(FeatureError, match="gives only other"):
        assigner(name).fit({"other": np.ones((9, 4))}, seed=0)
    broken = np.ones((9, 4), dtype=np.float32)
    broken[2, 1] = np.inf
    with pytest.raises(NonFinite, match="not finite in 1 of 9 rows"):
        assigner(name).fit({wanted: broken}, seed=0)


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


@pytest.mark.parametrize("name", ["spectral", "agglomerative", "gmm", "umap_gmm"])
def test_more_clusters_than_rows_is_named(name):
    x, _ = blobs(rows=3)
    with pytest.raises(AssignError, match="4 clusters asked of 3 rows"):
        assigner(name).fit({"h": x}, seed=0)


@pytest.mark.parametrize("name", ["umap_gmm", "umap_kmeans"])
@pytest.mark.parametrize(("classes", "rows"), [(1, 2), (2, 2), (2, 3), (4, 4), (4, 5)])
def test_umap_needs_two_rows_more_than_clusters(name, classes, rows):
    with pytest.raises(
        AssignError, match=f"{rows} rows are too few for UMAP in {classes} dimensions.*{classes + 2} are"
    ):
        assigner(name, classes).fit({"h": blobs(rows=rows)[0]}, seed=0)


@pytest.mark.parametrize("name", ["gmm", "agglomerative"])
def test_one_row_is_not_enough(name):
    with pytest.raises(AssignError, match="1 rows to fit on, but 2 are needed"):
        assigner(name, 1).fit({"h": blobs(rows=1)[0]}, seed=0)


@pytest.mark.parametrize(
    ("name", "said"), [("gmm", "4 Gaussians does not fit 30 rows of 6 values"), ("umap_gmm", "no embedding of 30 rows")]
)
def test_values_beyond_all_measure_are_refused_in_plain_words(name, said):
    x = np.linspace(0, 3e31, 30, dtype=np.float32)[:, None].repeat(6, 1)
    with pytest.raises(AssignError, match=f"{said}.* to 3e"):
        assigner(name).fit({"h": x}, seed=0)


@pytest.mark.parametrize("name", ["kmeans", "gmm", "spectral", "agglomerative", "sinkhorn"])
def test_fewer_rows_than_clusters_are_refused(name):
    with pytest.raises(AssignError, match="4 clusters asked of 3 rows"):
        assigner(name).fit({"h": blobs(rows=3)[0]}, seed=0)


def test_what_cannot_be_clustered_is_named():
    x, _ = blobs(rows=3)
    with pytest.raises(AssignError, match="4 clusters asked of 3 rows"):
        assigner("kmeans").fit({"h": x}, seed=0)
    with pytest.raises(FeatureError, match="gives only h"):
        assigner("argmax").fit({"h": x}, seed=0)
    x, _ = blobs()
    with pytest.raises(AssignError, match="component probabilities"):
        assigner("kmeans_components").fit({"h": x}, seed=0)
    x[5, 2] = np.nan
    with pytest.raises(NonFinite, match="not finite in 1 of 120 rows"):
        assigner("kmeans").fit({"h": x}, seed=0)
