"""The evaluate stage on features as a run leaves them."""

import json
import sys

import numpy as np
import pytest

from evaluation.evaluate import main
from evaluation.geometry import geometry
from preparation.prepared import open_prepared
from rules.record import run_stage


@pytest.fixture
def run(digits_200, tmp_path, monkeypatch):
    """Features that keep ten of the pixels, with the records that the stages before leave."""
    data = open_prepared(digits_200)
    h = data.images.reshape(200, -1)[:, 20:30].astype(np.float32)

    def evaluate(*evaluations, status="ok", features=h):
        np.savez(tmp_path / "features.npz", h=features)
        records = {"prepare": {}, "train": {"status": status}, "embed": {"fingerprint": "e"}}
        (tmp_path / "features.json").write_text(json.dumps({"records": records}))
        words = ["--data", digits_200, "--features", tmp_path / "features.npz", "--evaluations", *evaluations]
        words += ["--protocol", "full", "--seed", 0, "--out", tmp_path / "metrics.json"]
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
