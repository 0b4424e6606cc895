"""The evaluate stage on features as a run leaves them."""

import json
import sys

import numpy as np
import pytest

from evaluation.evaluate import main
from evaluation.geometry import centre_rank_agreement, geometry
from pipeline.record import run_stage
from preparation.prepared import open_prepared


@pytest.fixture
def run(digits_200, tmp_path, monkeypatch):
    """Features that keep ten of the pixels, with the records that the stages before leave."""
    data = open_prepared(digits_200)
    h = data.images.reshape(200, -1)[:, 20:30].astype(np.float32)

    def evaluate(*evaluations, status="ok", features=h, protocol="full", **more):
        np.savez(tmp_path / "features.npz", h=features, **more)
        records = {"prepare": {}, "train": {"status": status}, "embed": {"fingerprint": "e"}}
        (tmp_path / "features.json").write_text(json.dumps({"records": records}))
        words = ["--data", digits_200, "--features", tmp_path / "features.npz", "--evaluations", *evaluations]
        words += ["--protocol", protocol, "--seed", 0, "--out", tmp_path / "metrics.json"]
        monkeypatch.setattr(sys, "argv", ["evaluate", *map(str, words)])
        run_stage(main)
        return json.loads((tmp_path / "metrics.json").read_text())["results"]

    return evaluate, data, h


def test_geometry_and_spread_of_the_scored_rows(run):
    evaluate, data, h = run
    found = evaluate("geometry", "spread", "knn")
    expected = geometry(data.images[160:].reshape(40, -1) / 255, h[160:])
    for name, value in expected.items():
        assert found["geometry"][name] == pytest.approx(value)
    assert 1 <= found["spread"]["effective_rank"] <= 10
    assert found["knn"]["k_used"] == 160
    assert found["knn"]["temperature"] == 0.1  # protocol constants stand in the record


def test_failed_runs_and_features_that_are_not_finite_are_recorded(run):
    evaluate, _, h = run
    assert evaluate("knn", status="diverged") == {"knn": {"status": "diverged"}}
    broken = h.copy()
    broken[3, 1] = np.nan
    found = evaluate("knn", "geometry", features=broken)
    assert {name: result["status"] for name, result in found.items()} == {"knn": "non_finite", "geometry": "non_finite"}
    assert "not finite in 1 of 200 rows" in found["knn"]["reason"]


def test_rank_of_centres_downstream_and_similarity_of_views(run):
    evaluate, data, h = run
    p = np.eye(10, dtype=np.float32)[data.labels]
    z = h / 255 + 0.1
    more = {"p": p, "z": z, "view1_z": z, "view2_z": z}
    found = evaluate("geometry_argmax", "geometry_kmeans", "similarity", **more)
    x = data.vectors(np.arange(160, 200))
    expected = centre_rank_agreement(x, h[160:], data.labels[160:], 10)
    assert found["geometry_argmax"]["CRA"] == pytest.approx(expected)
    assert 0.1 <= found["geometry_kmeans"]["CRA"] <= 1
    assert evaluate("downstream_021", protocol="all")["downstream_021"]["SVM"] > 0.3
    assert found["similarity"]["augmented"] == pytest.approx(1)  # both views are the image itself
    assert found["similarity"]["alignment"] == pytest.approx(0)
    assert found["similarity"]["same_class"] > found["similarity"]["different_class"]


def test_an_empty_cluster_has_no_rank(run):
    evaluate, data, _ = run
    p = np.eye(10, dtype=np.float32)[np.minimum(data.labels, 8)]
    found = evaluate("geometry_argmax", p=p)["geometry_argmax"]
    assert "CRA" not in found
    assert "empty: [9]" in found["CRA_reason"]
