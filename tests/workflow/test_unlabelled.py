"""Data without any label, through every stage, and what is refused of them before any job."""

import json

import numpy as np
import pytest
import yaml

import training.train
from pipeline import catalogue
from pipeline.naming import ConfigError
from pipeline.plan import Plan
from pipeline.runs import Run
from preparation.prepared import open_prepared
from tests.stages import Stages
from training import inputs

DATASET = {
    "title": "Mine", "family": "grey16", "source": "vectors", "files": {"unlabeled": "x.npz"}, "labels": False,
    "classes": 3, "shape": [16, 16, 1], "normalisation": {"mean": [0.5], "std": [0.25]}, "splits": {"unlabeled": 60},
}  # fmt: skip
TABLE = {
    "title": "Mine", "metrics": ["ACC", "occupied_clusters", "largest_share"],
    "rows": [{"label": "K-means", "recipe": "simclr", "assigner": "kmeans"},
             {"label": "MIX'EM", "recipe": "mixem", "assigner": "argmax"}],
}  # fmt: skip
SMALL = {"batch_size": 16, "schedule": {"epochs": 1}, "network": {"widths": [4], "pool_after": []}}
CHANGES = dict.fromkeys(("simclr_base", "simclr", "mixem"), SMALL)


@pytest.fixture
def own(tmp_path, monkeypatch):
    """An own data set without labels and a table of it; `config` of a suite with `changes`."""
    monkeypatch.setattr(catalogue, "OWN", tmp_path / "own")
    monkeypatch.setenv("BENCH_DATA_ROOT", str(tmp_path))
    monkeypatch.setenv("BENCH_DEVICE", "cpu")
    for part, content in (("datasets", DATASET), ("tables", TABLE)):
        (tmp_path / "own" / part).mkdir(parents=True)
        (tmp_path / "own" / part / "mine.yaml").write_text(yaml.safe_dump(content))
    groups = np.arange(60) % 3
    x = np.random.default_rng(0).random((60, 256)) * 0.2
    x[np.arange(256) // 86 == groups[:, None]] += 0.6
    np.savez(tmp_path / "x.npz", x=x.astype(np.float32), y=groups)  # `labels: false`: y is left aside

    def config(**changes):
        default = catalogue.read_yaml(catalogue.CONFIG / "config.yaml")
        asked = {"datasets": ["mine"], "protocols": ["clusters"], "seeds": [0], "tables": ["mine"]}
        return default | asked | {"results": str(tmp_path / "results"), "overrides": CHANGES} | changes

    return config


def test_clusters_of_data_without_labels_have_sizes_and_no_scores(own):
    plan = Plan(own())
    stages, mixem = Stages(plan), Run("mine", "clusters", "mixem", 0)
    data = stages.prepare()
    assert set(data.labels) == {-1}
    assert (data.card["classes"], data.card["class_names"], data.card["splits"]) == (3, None, {"unlabeled": [0, 60]})
    assert plan.runs.base(mixem) == Run("mine", "clusters", "simclr_base", 0)
    for run in plan.runs.all():
        stages.model(run)
    folder = f"{plan.results}/{mixem.path}"
    with np.load(f"{folder}/clusters/argmax.npz") as stored:
        assert stored["rows"].tolist() == list(range(60))
        sizes = np.bincount(stored["clusters"])
    with open(f"{folder}/metrics/clustering/argmax.json") as file:
        result = json.load(file)["result"]
    assert set(result) == {
        "status", "occupied_clusters", "classes_present", "largest_share", "size_entropy", "degenerate", "n",
    }  # fmt: skip
    assert (result["n"], result["classes_present"], result["occupied_clusters"]) == (60, 0, (sizes > 0).sum())
    rows = stages.table()  # strict: what is stale would be an error
    assert [row["method"] for row in rows] == ["K-means", "MIX'EM"]
    assert all(row["protocol"] == "unlabeled / unlabeled" and row["fitted on"] == "unlabeled" for row in rows)
    assert not any("ACC" in column for column in rows[0])  # no run has one
    assert float(rows[1]["Mine largest_share"]) == pytest.approx(100 * sizes.max() / 60, abs=0.05)
    assert all("Mine seed 0: no labels" in row["notes"] for row in rows)


@pytest.mark.parametrize(
    ("row", "changes", "message"),
    [
        ({"recipe": "supervised", "assigner": "argmax"}, {}, "recipe 'supervised' needs labels, and data set 'mine'"),
        ({"recipe": "simclr", "probe": "knn"}, {}, "probe 'knn' needs labels, and data set 'mine' has none for it"),
        ({"recipe": "simclr", "probe": "spread"}, {}, "probe 'spread' needs labels"),
        ({"recipe": "simclr", "assigner": "kmeans"}, {"protocols": ["full"]},
         "protocol 'full' uses split 'train' to train, .* 'mine' does not have .*; use protocol 'clusters'"),
        ({"recipe": "simclr", "assigner": "kmeans"}, {"protocols": ["all"]}, "'all' .* use protocol 'clusters'"),
        ({"recipe": "simclr", "assigner": "kmeans"}, {"datasets": ["digits_200"]},
         "'clusters' uses split 'unlabeled' to train, which data set 'digits_200' does not have"),
        ({"recipe": "simclr", "assigner": "kmeans"},
         {"overrides": {**CHANGES, "simclr": {**SMALL, "labels": {"fraction": 0.1}}}}, "recipe 'simclr' needs labels"),
    ],
)  # fmt: skip
def test_what_needs_labels_is_refused_before_any_job(own, tmp_path, row, changes, message):
    table = TABLE | {"rows": [{"label": "mine", **row}]}
    (tmp_path / "own" / "tables" / "mine.yaml").write_text(yaml.safe_dump(table))
    with pytest.raises(ConfigError, match=message):
        Plan(own(**changes))


def test_labelled_data_with_an_unlabelled_split_may_be_clustered_too(own):
    """STL10's unlabelled images: the rows have no labels, so no probe and no supervised training are asked of them."""
    overrides = {"mixem": {"base": {"protocol": "same"}}, "simclr": {"base": {"protocol": "same"}}}
    plan = Plan(own(datasets=["stl10"], overrides=overrides))
    run = Run("stl10", "clusters", "mixem", 0)
    assert plan.runs.base(run) == Run("stl10", "clusters", "simclr_base", 0)
    assert plan.stages.assign(run, "argmax").settings["protocol"] == {
        "name": "clusters", "fit": ["unlabeled"], "score": ["unlabeled"],
    }  # fmt: skip
    assert Plan(own(datasets=["stl10"], overrides={})).runs.base(run).protocol == "unlabeled"  # as the recipe says


def test_the_base_is_trained_on_what_there_is(own, tmp_path):
    """The recipes of STL10's family start from train+unlabeled, which data without labels do not have."""
    photographs = {"family": "stl", "shape": [96, 96, 3], "normalisation": {"mean": [0.5] * 3, "std": [0.25] * 3}}
    content = DATASET | photographs | {"splits": {"unlabeled": 2000}}
    (tmp_path / "own" / "datasets" / "mine.yaml").write_text(yaml.safe_dump(content))
    run = Run("mine", "clusters", "mixem", 0)
    plan = Plan(own(overrides={}))
    assert plan.runs.recipe(run)["base"]["protocol"] != "same"
    assert plan.runs.base(run) == Run("mine", "clusters", "simclr_base", 0)


def test_stages_by_hand_refuse_what_needs_labels(own, tmp_path, capsys):
    stages = Stages(Plan(own()))
    stages.prepare()
    for protocol, message in (
        ("clusters", "method 'supervised' learns from labels, on the probes' splits, of which the protocol has none"),
        ('{"name": "p", "title": "p", "train": ["unlabeled"], "fit": ["unlabeled"], "score": ["unlabeled"],'
         ' "probe": {"train": ["unlabeled"], "test": ["unlabeled"]}}', "which 60 of its 60 rows lack"),
    ):  # fmt: skip
        words = ["--data", stages.data, "--recipe", "supervised", "--protocol", protocol, "--seed", 0]
        with pytest.raises(SystemExit):
            stages.stage(training.train.main, *words, "--out", tmp_path / "run", "--resume", tmp_path / "resume")
        assert message in capsys.readouterr().err
    with pytest.raises(inputs.StageError, match="has no split 'all'; it has unlabeled"):
        open_prepared(stages.data).rows(["all"])
