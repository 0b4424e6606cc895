"""The assign and evaluate stages on features as a run leaves them."""

import json
import sys

import numpy as np
import pytest

from evaluation import assign, evaluate
from evaluation.geometry import centre_rank_agreement, geometry
from evaluation.probes import knn, logistic
from pipeline.record import hashes, run_stage
from preparation.prepared import open_prepared


class Stages:
    """A run's folder with features, and the two stages run in it."""

    def __init__(self, folder, prepared, monkeypatch):
        self.folder, self.prepared, self.monkeypatch = folder, prepared, monkeypatch
        self.data = open_prepared(prepared)
        self.h = self.data.images.reshape(200, -1)[:, 20:30].astype(np.float32)
        self.features()

    def features(self, h=None, status="ok", embed="e", **more):
        """Ten of the pixels, with the records that the stages before leave."""
        np.savez(self.folder / "features.npz", h=self.h if h is None else h, **more)
        embedded = {"fingerprint": embed, "files": hashes(self.folder / "features.npz")}
        records = {"prepare": self.data.card["record"], "train": {"status": status}, "embed": embedded}
        (self.folder / "features.json").write_text(json.dumps({"records": records}))

    def _run(self, stage, *words, protocol="full"):
        words = ["--data", self.prepared, "--features", self.folder / "features.npz", *words]
        words += ["--protocol", protocol, "--seed", 0]
        self.monkeypatch.setattr(sys, "argv", ["stage", *map(str, words)])
        run_stage(stage)

    def assign(self, name, protocol="full"):
        out = self.folder / "clusters" / f"{name}.npz"
        self._run(assign.main, "--assigner", name, "--out", out, protocol=protocol)
        return json.loads(out.with_suffix(".json").read_text())["records"][f"assign/{name}"]

    def evaluate(self, *probes, clusters=(), protocol="full"):
        """{key: result} of what the index names."""
        paths = [self.folder / "clusters" / f"{name}.npz" for name in clusters]
        words = ["--clusters", *paths, "--probes", *probes, "--out", self.folder / "metrics.json"]
        self._run(evaluate.main, *words, protocol=protocol)
        index = json.loads((self.folder / "metrics.json").read_text())["evaluations"]
        assert list(index) == [*(f"clustering/{name}" for name in clusters), *probes]
        stored = {key: self.stored(key) for key in index}
        assert {key: list(found["records"].values())[-1]["fingerprint"] for key, found in stored.items()} == index
        return {key: found["result"] for key, found in stored.items()}

    def stored(self, key):
        return json.loads((self.folder / "metrics" / f"{key}.json").read_text())

    def times(self):
        """{key: when its file was written}"""
        folder = self.folder / "metrics"
        files = folder.rglob("*.json")
        return {str(path.relative_to(folder).with_suffix("")): path.stat().st_mtime_ns for path in files}


@pytest.fixture
def stages(digits_200, tmp_path, monkeypatch):
    return Stages(tmp_path, digits_200, monkeypatch)


def counted(monkeypatch, module):
    """How often the probe of a file runs from here on."""
    calls, probe = [], module.PROBE
    monkeypatch.setattr(module, "PROBE", lambda task: calls.append(1) or probe(task))
    return calls


def test_geometry_and_spread_of_the_scored_rows(stages):
    found = stages.evaluate("geometry", "spread", "knn")
    expected = geometry(stages.data.images[160:].reshape(40, -1) / 255, stages.h[160:])
    for name, value in expected.items():
        assert found["geometry"][name] == pytest.approx(value)
    assert 1 <= found["spread"]["effective_rank"] <= 10
    assert found["knn"]["k_used"] == 160
    assert found["knn"]["temperature"] == 0.1  # protocol constants stand in the record


def test_failed_runs_and_features_that_are_not_finite_are_recorded(stages):
    stages.features(status="diverged")
    assert stages.evaluate("knn") == {"knn": {"status": "diverged"}}
    broken = stages.h.copy()
    broken[3, 1] = np.nan
    stages.features(broken)
    assert stages.assign("spectral")["status"] == "ok"  # row 3 is not scored
    stages.features(broken[::-1])
    assert stages.assign("spectral")["status"] == "non_finite"
    found = stages.evaluate("knn", "geometry", clusters=["spectral"])
    assert {result["status"] for result in found.values()} == {"non_finite"}
    assert "not finite in 1 of 200 rows" in found["knn"]["reason"]
    assert "not finite in 1 of 40 rows" in found["clustering/spectral"]["reason"]


def test_a_run_that_found_nothing_to_learn_from_is_clustered_and_scored(stages):
    """Its training ended early, its features are features."""
    stages.assign("kmeans")
    expected = stages.evaluate("knn", clusters=["kmeans"])
    stages.features(status="untaught", embed="other")
    record = stages.assign("kmeans")
    assert (record["status"], record["scored_on"]) == ("ok", 40)
    found = stages.evaluate("knn", clusters=["kmeans"])
    assert found == expected
    assert found["clustering/kmeans"]["status"] == found["knn"]["status"] == "ok"
    assert found["clustering/kmeans"]["occupied_clusters"] == 10
    assert stages.stored("knn")["records"]["train"]["status"] == "untaught"  # the table says so


def test_rank_of_centres_downstream_and_similarity_of_views(stages):
    p = np.eye(10, dtype=np.float32)[stages.data.labels]
    z = stages.h / 255 + 0.1
    stages.features(p=p, z=z, view1_z=z, view2_z=z)
    found = stages.evaluate("geometry_argmax", "geometry_kmeans", "similarity")
    x = stages.data.vectors(np.arange(160, 200))
    expected = centre_rank_agreement(x, stages.h[160:], stages.data.labels[160:], 10)
    assert found["geometry_argmax"]["CRA"] == pytest.approx(expected)
    assert 0.1 <= found["geometry_kmeans"]["CRA"] <= 1
    assert found["similarity"]["augmented"] == pytest.approx(1)  # both views are the image itself
    assert found["similarity"]["alignment"] == pytest.approx(0)
    assert found["similarity"]["same_class"] > found["similarity"]["different_class"]
    assert stages.evaluate("downstream_021", protocol="all")["downstream_021"]["SVM"] > 0.3


def test_an_empty_cluster_has_no_rank(stages):
    stages.features(p=np.eye(10, dtype=np.float32)[np.minimum(stages.data.labels, 8)])
    found = stages.evaluate("geometry_argmax")["geometry_argmax"]
    assert "CRA" not in found
    assert "empty: [9]" in found["CRA_reason"]


def test_one_record_for_each_with_its_own_chain(stages):
    stages.assign("spectral")
    found = stages.evaluate("logistic", clusters=["spectral"])
    assert found["clustering/spectral"]["n"] == 40
    assert list(stages.stored("clustering/spectral")["records"]) == [
        "prepare", "train", "embed", "assign/spectral", "score/spectral",
    ]  # fmt: skip
    score = stages.stored("clustering/spectral")["records"]["score/spectral"]
    assert score["settings"] == {"protocol": {"name": "full", "score": ["test"]}}
    assert score["seed"] is None
    probe = stages.stored("logistic")["records"]
    assert list(probe) == ["prepare", "train", "embed", "probe/logistic"]
    assert probe["probe/logistic"]["settings"]["probe"]["name"] == "logistic"
    assert probe["probe/logistic"]["seed"] == 0


def test_valid_records_are_kept_and_what_is_not_asked_for_stays(stages, monkeypatch):
    stages.assign("spectral")
    stages.evaluate("knn", "logistic", clusters=["spectral"])
    before = stages.times()
    calls = counted(monkeypatch, knn)
    stages.evaluate("knn", "spread", "logistic", clusters=["spectral"])
    after = stages.times()
    assert {key: after[key] for key in before} == before
    assert set(after) == {*before, "spread"}
    stages.evaluate("logistic")
    assert stages.times() == after  # fewer rows asked for: every other record stays
    assert calls == []


@pytest.mark.parametrize("damage", ["fingerprint", "cut off", "no result", "failed", "words", "a list"])
def test_an_invalid_record_is_made_anew_and_no_other(stages, monkeypatch, damage):
    stages.evaluate("knn", "logistic")
    good, before = stages.stored("knn"), stages.times()
    path = stages.folder / "metrics" / "knn.json"
    bad = json.loads(json.dumps(good))
    if damage == "fingerprint":  # as after an edit of the probe: another code hash
        bad["records"]["probe/knn"]["fingerprint"] = "of other code"
    if damage == "no result":
        bad["result"] = {}
    if damage == "failed":
        bad["result"] = {"status": "failed"}
    if damage == "words":
        bad["records"]["probe/knn"] = bad["result"] = "ok"
    if damage == "a list":
        bad["records"] = [1]
    path.write_text("{" if damage == "cut off" else json.dumps(bad))
    other, own = counted(monkeypatch, logistic), counted(monkeypatch, knn)
    assert stages.evaluate("knn", "logistic")["knn"] == good["result"]
    assert (len(own), len(other)) == (1, 0)
    assert stages.times()["logistic"] == before["logistic"]


def test_features_made_again_are_evaluated_again(stages, monkeypatch):
    """The same fingerprint may stand for other bits, on a GPU: what is kept is of the very features that are here."""
    stages.evaluate("knn")
    calls = counted(monkeypatch, knn)
    records = json.loads((stages.folder / "features.json").read_text())["records"]
    records["embed"]["ended"] = "later"
    (stages.folder / "features.json").write_text(json.dumps({"records": records}))
    stages.evaluate("knn")
    assert calls == [1]


def test_what_cannot_be_done_costs_its_own_record_only(stages, monkeypatch, capsys):
    stages.assign("spectral")
    found = stages.evaluate("downstream", "similarity", "knn", clusters=["spectral"])
    assert found["downstream"]["status"] == "not_possible"
    assert "40 rows of 10 classes are too few" in found["downstream"]["reason"]
    assert found["similarity"]["status"] == "not_possible"  # these features have no z
    assert found["knn"]["status"] == found["clustering/spectral"]["status"] == "ok"
    before = stages.times()
    stages.evaluate("downstream", "knn")
    assert stages.times() == before  # nothing changed: it is not tried again


def test_one_class_only_and_a_class_of_one_row(stages, monkeypatch):
    labels = np.zeros(200, dtype=np.int64)
    labels[0] = 1
    monkeypatch.setattr(evaluate, "open_prepared", lambda *_, **__: with_labels(stages.data, labels))
    found = stages.evaluate("linear_mixem", "knn", "classifier")
    assert found["linear_mixem"]["reason"] == "class 1 has 1 row: a hold-out with every class needs 2 of each"
    assert found["linear_mixem"]["status"] == "not_possible"
    assert found["knn"]["ACC"] == 1
    found = stages.evaluate("logistic", "knn", protocol="all")
    assert {result["status"] for result in found.values()} == {"not_possible"}  # no stratified hold-out of one row
    assert {result["reason"].split(":")[0] for result in found.values()} == {"class 1 has 1 row"}
    assert stages.evaluate("downstream", protocol="all")["downstream"]["reason"].startswith("class 1 has 1 row")


def test_a_holdout_that_is_smaller_than_the_classes_is_said_in_numbers(stages, monkeypatch):
    """80 classes of two rows each among those that train: a tenth of 160 rows cannot hold them."""
    labels = np.arange(200) % 80
    monkeypatch.setattr(evaluate, "open_prepared", lambda *_, **__: with_labels(stages.data, labels))
    found = stages.evaluate("linear_mixem", "knn")
    assert found["linear_mixem"]["status"] == "not_possible"
    assert found["linear_mixem"]["reason"].startswith(
        "160 rows of 80 classes are too few: a hold-out of 16 and the other"
    )
    assert found["knn"]["status"] == "ok"
    found = stages.evaluate("knn", "downstream", protocol="all")
    assert {result["reason"].split(":")[0] for result in found.values()} == {"200 rows of 80 classes are too few"}


def test_clusters_that_cannot_be_found_are_said_in_numbers(stages, monkeypatch):
    """Eleven scored rows, ten classes: UMAP's graph has too few eigenvectors for ten dimensions."""
    rows = type(stages.data).rows
    monkeypatch.setattr(type(stages.data), "rows", lambda self, splits: rows(self, splits)[:11])
    record = stages.assign("umap_gmm")
    assert record["status"] == "not_possible"
    assert record["reason"] == "11 rows are too few for UMAP in 10 dimensions, one for each cluster: 12 are needed"
    assert stages.assign("kmeans")["status"] == "ok"
    found = stages.evaluate("knn", clusters=["umap_gmm", "kmeans"])
    assert found["clustering/umap_gmm"] == {"status": "not_possible", "reason": record["reason"]}
    assert found["clustering/kmeans"]["status"] == "ok"


def with_labels(data, labels):
    return type(data)(data.folder, data.card, labels)


def test_an_unexpected_error_ends_the_stage_after_all_others_are_written(stages, monkeypatch, capsys):
    def broken(task):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(knn, "PROBE", broken)
    with pytest.raises(SystemExit) as stopped:
        stages.evaluate("knn", "logistic")
    assert stopped.value.code == 1
    said = capsys.readouterr()
    assert "knn: failed with an unexpected error" in said.err
    assert "ZeroDivisionError: a bug" in said.err
    assert stages.stored("knn")["result"] == {"status": "failed", "reason": "ZeroDivisionError: a bug"}
    assert stages.stored("knn")["records"]["probe/knn"]["status"] == "failed"
    assert stages.stored("logistic")["result"]["status"] == "ok"


def test_numbers_that_are_not_finite_are_named_not_written(stages, monkeypatch):
    monkeypatch.setattr(knn, "PROBE", lambda task: {"ACC": float("nan"), "n": 3})
    found = stages.evaluate("knn")["knn"]
    assert (found["status"], found["undefined"], found["n"]) == ("ok", ["ACC"], 3)
    assert "ACC" not in found


def test_an_assigner_that_cannot_cluster_these_rows_says_so(stages):
    record = stages.assign("spectral", protocol="split")
    assert record["status"] == "not_possible"
    assert "clusters only the rows it was fitted on" in record["reason"]
    found = stages.evaluate(clusters=["spectral"], protocol="split")["clustering/spectral"]
    assert found == {"status": "not_possible", "reason": record["reason"]}


def test_features_and_clusters_of_something_else_are_refused(stages, capsys):
    stages.assign("spectral")
    stages.features(embed="other")
    with pytest.raises(SystemExit):
        stages.evaluate(clusters=["spectral"])
    assert "was made from features e" in capsys.readouterr().err
    records = json.loads((stages.folder / "features.json").read_text())["records"]
    records["prepare"] = {"fingerprint": "of other data"}
    (stages.folder / "features.json").write_text(json.dumps({"records": records}))
    for run in (lambda: stages.evaluate("knn"), lambda: stages.assign("spectral")):
        with pytest.raises(SystemExit):
            run()
        assert "was made from data of other data" in capsys.readouterr().err
