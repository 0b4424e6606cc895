"""Several results folders, damaged runs and numbers that are not finite, in one SQLite store read back by MLflow."""

import json
import os
import shutil
import sys

import pytest

from pipeline.record import StageError, run_stage
from report import track, tracking
from report.contents import read_contents
from report.tracking import identity, sync
from tests.report.mirrors import plan_of, results, rewrite, write


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    """An empty store; MLflow takes seconds to make one."""
    from mlflow import MlflowClient

    path = tmp_path_factory.mktemp("store") / "empty.db"
    MlflowClient(tracking_uri=f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture
def client(empty, tmp_path, monkeypatch):
    """A store that several results folders share."""
    from mlflow import MlflowClient

    (tmp_path / "server").mkdir()
    uri = f"sqlite:///{shutil.copy(empty, tmp_path / 'server/mlflow.db')}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    return MlflowClient(tracking_uri=uri)


def runs(client):
    experiment = client.get_experiment_by_name("default")
    return {run.data.tags["bench.key"]: run for run in client.search_runs([experiment.experiment_id])}


def counts(plan):
    index = sync(plan)
    return {key: index[key] for key in ("added", "replaced", "kept", "missing") if index[key]}


def test_two_results_folders_share_a_store(client, tmp_path):
    """Two users of the default suite: what one mirrors, the other neither deletes nor doubles."""
    mine, theirs = results(tmp_path / "mine"), results(tmp_path / "theirs", total="0.75")
    assert counts(mine) == counts(theirs) == {"added": 2}
    before = {key: run.info.run_id for key, run in runs(client).items()}
    assert len(before) == 6  # two runs and the tables of each
    assert {key.partition("/")[0] for key in before} == {identity(tmp_path / "mine"), identity(tmp_path / "theirs")}
    assert counts(mine) == counts(theirs) == counts(mine) == {"kept": 2}
    assert {key: run.info.run_id for key, run in runs(client).items()} == before
    rewrite(tmp_path / "theirs/runs/digits/full/r/seed1/history.csv", "epoch,total\n1,9.0\n")
    assert counts(theirs) == {"kept": 1, "replaced": 1}
    after = {key: run.info.run_id for key, run in runs(client).items()}
    changed = {key for key in before if after[key] != before[key]}
    assert (set(after), changed) == (set(before), {f"{identity(tmp_path / 'theirs')}/digits/full/r/seed1"})


def test_a_moved_or_copied_results_folder_is_the_same_results(client, tmp_path):
    assert counts(results(tmp_path / "here")) == {"added": 2}
    suite = next(run.info.run_id for key, run in runs(client).items() if key.endswith("suite/default"))
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    assert counts(plan_of(tmp_path / "there")) == {"kept": 2}
    assert suite in {run.info.run_id for run in runs(client).values()}


def test_runs_without_an_identity_are_left_alone(client, tmp_path):
    """As they were mirrored before results folders had one, or by anyone else."""
    experiment = client.create_experiment("default", artifact_location=(tmp_path / "a").as_uri())
    old = client.create_run(experiment, tags={"bench.key": "digits/full/r/seed0", "bench.fingerprint": "x"})
    other = client.create_run(experiment, tags={"mine": "1"})
    assert counts(results(tmp_path / "results")) == {"added": 2}
    stages = {client.get_run(run.info.run_id).info.lifecycle_stage for run in (old, other)}
    assert stages == {"active"}


def test_artifacts_lie_beside_a_shared_store(client, tmp_path):
    """Not in the results folder of whoever came first."""
    sync(results(tmp_path / "mine"))
    assert client.get_experiment_by_name("default").artifact_location == (tmp_path / "server/mlartifacts").as_uri()


def test_what_is_not_finite_is_told_in_tags(client, tmp_path):
    sync(results(tmp_path / "results", seeds=[0], total="inf", undefined=["RRE"], seen={"ACC": 0.75}, **{"mAP@1": 0.5}))
    run = next(run for key, run in runs(client).items() if key.endswith("seed0"))
    assert run.data.metrics == {
        "train/total": 0.25,
        "knn/ACC": 0.5,
        "knn/mAP at 1": 0.5,
        "knn/seen/ACC": 0.75,
    }
    assert [point.value for point in client.get_metric_history(run.info.run_id, "train/total")] == [0.25]
    assert run.data.tags["train/total not finite"] == "inf in epoch 2"
    assert run.data.tags["knn not finite"] == "RRE"
    assert run.data.params["recipe.mAP at 1"] == "3"


@pytest.mark.parametrize("file", ["train.json", "metrics/knn.json", "history.csv"])
def test_a_run_that_the_system_cannot_read_is_named(client, tmp_path, file):
    plan = results(tmp_path / "results")
    path = tmp_path / "results/runs/digits/full/r/seed0" / file
    path.unlink()
    path.mkdir()  # what a failing disk says is another word; permissions do not bind root
    (said,) = sync(plan)["unreadable"]
    assert said.startswith(f"{path}: cannot be read: Is a directory")


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("train.json", '{"rec', "not valid JSON"),
        ("train.json", '{"records": {"train": {}}}', "key 'records': 'prepare' is a required property"),
        ("train.json", None, "is a required property"),
        ("metrics.json", "[1]", "is not of type 'object'"),
        ("metrics/knn.json", "", "not valid JSON"),
        ("metrics/knn.json", '{"result": {"status": "ok"}}', "'records' is a required property"),
        ("history.csv", "epoch,total\n1,0.2", "its last line is cut off"),
        ("history.csv", "epoch,total\n1\n", "line 2: as many values as columns are expected"),
        ("history.csv", "epoch,total\n1,abc\n", "line 2: 1, abc: numbers are expected"),
        ("history.csv", "\x00\x01", "its last line is cut off"),
        ("flipped", "epoch,total\n1,0.35\n2,0.5\n", "history.csv: sha256"),
        ("metrics/knn.json", "edited", "its result is not the one that was recorded"),
    ],
)
def test_a_damaged_run_is_named_and_the_others_are_mirrored(client, tmp_path, file, text, message):
    plan = results(tmp_path / "results")
    path = tmp_path / "results/runs/digits/full/r/seed0" / file.replace("flipped", "history.csv")
    if text == "edited":
        text = path.read_text().replace('"ACC": 0.5', '"ACC": 0.9')
    if text is None:
        stored = json.loads(path.read_text())
        del stored["records"]["train"]["ended"]
        text = json.dumps(stored)
    if file == "history.csv":
        rewrite(path, text)
    else:
        path.write_text(text)
    index = sync(plan)
    (said,) = index["unreadable"]
    assert said.startswith(str(path))
    assert message in said
    assert "delete it" in said
    assert index["added"] == 1
    assert len(runs(client)) == 2


def stage(monkeypatch, plan, folder, *more):
    write(folder / "plan.json", plan)
    words = ["track", "--plan", str(folder / "plan.json"), "--out", str(folder / "mlflow.json"), *more]
    monkeypatch.setattr(sys, "argv", words)
    run_stage(track.main)


def test_the_stage_names_damaged_runs_and_is_strict_when_asked(client, tmp_path, monkeypatch, capsys):
    plan = results(tmp_path / "results")
    path = tmp_path / "results/runs/digits/full/r/seed0/train.json"
    path.write_text("")
    stage(monkeypatch, plan, tmp_path)
    told = capsys.readouterr()
    assert told.out.startswith("MLflow: 1 added, 0 replaced, 0 kept")
    assert told.err.startswith(f"warning: a run is not mirrored: {path}: not valid JSON")
    assert json.loads((tmp_path / "mlflow.json").read_text())["status"] == "ok"
    with pytest.raises(SystemExit):
        stage(monkeypatch, plan, tmp_path, "--strict")
    assert "error: 1 runs are not mirrored (named above)" in capsys.readouterr().err


def test_an_identity_is_drawn_once_and_a_damaged_one_costs_no_table(client, tmp_path, monkeypatch, capsys):
    plan = results(tmp_path / "results")
    first = identity(tmp_path / "results")
    assert first == identity(tmp_path / "results") != identity(tmp_path / "other")
    (tmp_path / "results/.id").write_text("")
    with pytest.raises(
        StageError, match=r"\.id: '' found, 32 hex digits expected; put back what it held, or delete it"
    ):
        identity(tmp_path / "results")
    stage(monkeypatch, plan, tmp_path)
    assert capsys.readouterr().err.count("warning: results were not mirrored into MLflow") == 1
    assert json.loads((tmp_path / "mlflow.json").read_text())["status"] == "failed"


@pytest.fixture
def own(empty, tmp_path, monkeypatch):
    """The store that lies in a results folder."""
    from mlflow import MlflowClient

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    (tmp_path / "results").mkdir()
    shutil.copy(empty, tmp_path / "results/mlflow.db")
    return MlflowClient(tracking_uri=f"sqlite:///{tmp_path}/results/mlflow.db")


def names(client):
    return {experiment.name for experiment in client.search_experiments()}


def test_a_store_of_ours_has_the_experiment_of_the_suite_alone(own, tmp_path):
    plan = results(tmp_path / "results")
    assert names(own) == {"Default"}
    sync(plan)
    assert names(own) == {"default"}
    assert own.get_experiment_by_name("default").tags["mlflow.experimentKind"] == "custom_model_development"
    own.restore_experiment("0")
    sync(plan)
    assert names(own) == {"Default", "default"}  # once: it is the user's now


def test_the_first_experiment_stays_where_it_is_used_or_the_store_is_shared(own, empty, tmp_path, monkeypatch):
    own.create_run("0")
    sync(results(tmp_path / "results"))
    assert names(own) == {"Default", "default"}
    from mlflow import MlflowClient

    uri = f"sqlite:///{shutil.copy(empty, tmp_path / 'shared.db')}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    sync(plan_of(tmp_path / "results"))
    assert names(MlflowClient(tracking_uri=uri)) == {"Default", "default"}


def test_runs_of_the_layout_before_are_replaced_and_times_are_those_of_the_training(client, tmp_path):
    plan = results(tmp_path / "results", seeds=[0])
    experiment = client.create_experiment("default", artifact_location=(tmp_path / "a").as_uri())
    key = f"{identity(tmp_path / 'results')}/digits/full/r/seed0"
    state = read_contents(tmp_path / "results/runs/digits/full/r/seed0").state
    old = client.create_run(experiment, tags={"bench.key": key, "bench.fingerprint": state})
    client.set_terminated(old.info.run_id)
    assert counts(plan) == {"replaced": 1}
    run = runs(client)[key]
    assert (run.info.start_time, run.info.end_time) == (1767225600000, 1767225600000)
    assert run.data.tags["dataset"] == "digits"


def test_figures_go_with_the_suite_as_png(client, tmp_path):
    plan = results(tmp_path / "results", seeds=[0])
    sync(plan)
    (tmp_path / "results/figures/of_runs").mkdir(parents=True)
    for name in ("a.png", "a.pdf", "of_runs/b.png"):
        (tmp_path / "results/figures" / name).write_bytes(b"x")
    assert counts(plan) == {"kept": 1}
    (suite,) = (run for key, run in runs(client).items() if key.endswith("suite/default"))
    found = {item.path for item in client.list_artifacts(suite.info.run_id, "figures")}
    assert found == {"figures/a.png", "figures/of_runs"}
    assert suite.data.tags["suite"] == "default"


def test_a_password_is_neither_printed_nor_stored(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://ann:s3cret@127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    stage(monkeypatch, results(tmp_path / "results", seeds=[0]), tmp_path)
    told = capsys.readouterr()
    assert "MLflow at http://***@127.0.0.1:9" in told.err
    assert "s3cret" not in told.out + told.err + (tmp_path / "mlflow.json").read_text()


def test_a_figure_newer_than_the_index_is_mirrored(tmp_path, monkeypatch):
    plan = results(tmp_path / "results", seeds=[0])
    write(tmp_path / "mlflow.json", {})
    for path in (tmp_path / "results/table2.csv", tmp_path / "mlflow.json"):
        os.utime(path, (1, 1))
    asked = []
    monkeypatch.setattr(tracking, "sync", lambda plan: asked.append(plan) or 1 / 0)
    stage(monkeypatch, plan, tmp_path, "--new")
    assert asked == []
    (tmp_path / "results/figures").mkdir()
    (tmp_path / "results/figures/a.png").write_bytes(b"x")
    stage(monkeypatch, plan, tmp_path, "--new")
    assert len(asked) == 1
