"""The MLflow mirror, in a real SQLite store read back by MLflow's own client."""

import json
import os
import sqlite3

import pytest

from pipeline.provenance import fingerprint
from pipeline.record import read_json, write_json


def track(smoke, *more, env=None):
    words = ("--plan", str(smoke.plan("suite")), "--out", "results/smoke/mlflow.json", *more)
    return smoke.stage("report.track", *words, env=env, timeout=200)


@pytest.fixture(scope="module")
def client(smoke):
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=f"sqlite:///{smoke.root}/results/smoke/mlflow.db")


def runs(client):
    experiment = client.get_experiment_by_name("smoke")
    found = client.search_runs([experiment.experiment_id])
    return {run.data.tags["bench.key"].partition("/")[2]: run for run in found}  # after the results folder's identity


def test_the_main_command_mirrored_everything(smoke, client):
    plan = json.loads(smoke.plan("suite").read_text())
    found = runs(client)
    assert len(found) == len(plan["runs"]) + 1  # and one for the suite's tables
    mixem = found["digits_200/full/mixem/seed0"]
    assert mixem.info.status == "FINISHED"
    assert mixem.data.params["recipe.weights.comp_ent"] == "2.0"
    assert mixem.data.params["seed"] == "0"
    file = "results/smoke/runs/digits_200/full/mixem/seed0/metrics/clustering/kmeans_components.json"
    stored = mixem.data.metrics["clustering/kmeans_components/ACC"]
    assert stored == pytest.approx(json.loads((smoke.root / file).read_text())["result"]["ACC"])
    base = found["digits_200/full/simclr_base/seed0"]
    history = client.get_metric_history(base.info.run_id, "train/contrast")
    assert [point.step for point in history] == [1, 2]
    names = {item.path for item in client.list_artifacts(mixem.info.run_id)}
    assert names == {"history.csv", "metrics", "metrics.json", "train.json"}
    suite = found["suite/smoke"]
    assert {item.path for item in client.list_artifacts(suite.info.run_id)} >= {"logs", "tables"}
    assert "tables/table2.csv" in {item.path for item in client.list_artifacts(suite.info.run_id, "tables")}


def test_every_log_that_a_plan_names_was_written(smoke):
    """The cause of a missing run is read there; rules/*.smk say where logs go."""
    (path,) = (smoke.root / "results/smoke/.plan").glob("table2*.json")
    plan = json.loads(path.read_text())
    logs = {s["log"] for row in plan["rows"] for run in row["runs"] for s in run["sources"]}
    assert len(logs) > 20
    assert [log for log in sorted(logs) if not (smoke.root / log).is_file()] == []


def count_points(smoke):
    with sqlite3.connect(smoke.root / "results/smoke/mlflow.db") as store:
        return store.execute("select count(*) from metrics").fetchone()[0]


def test_a_second_track_adds_nothing_and_a_changed_run_replaces_its_old_one(smoke, client):
    before, points = {key: run.info.run_id for key, run in runs(client).items()}, count_points(smoke)
    done = track(smoke)
    assert done.returncode == 0, done.stderr
    assert {key: run.info.run_id for key, run in runs(client).items()} == before
    assert count_points(smoke) == points
    path = smoke.root / "results/smoke/runs/digits_200/full/pixels/seed0/metrics/clustering/kmeans_raw.json"
    original = path.read_text()
    changed = read_json(path)
    changed["result"]["ACC"] = 0.125
    changed["records"]["score/kmeans_raw"]["result"] = fingerprint(result=changed["result"])
    write_json(path, changed)
    try:
        assert "1 replaced" in track(smoke).stdout
        after = runs(client)
        assert {key for key, run in after.items() if run.info.run_id != before[key]} == {"digits_200/full/pixels/seed0"}
        assert after["digits_200/full/pixels/seed0"].data.metrics["clustering/kmeans_raw/ACC"] == 0.125
    finally:
        path.write_text(original)


def test_an_unreachable_store_costs_one_warning_and_no_table(smoke):
    nowhere = {"MLFLOW_TRACKING_URI": "http://127.0.0.1:9", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}
    table = smoke.root / "results/smoke/table2.csv"
    content = table.read_text()
    table.unlink()
    done = smoke.snakemake("results/smoke/table2.csv", env=nowhere)
    assert done.returncode == 0, done.stderr
    assert table.read_text() == content
    assert (done.stdout + done.stderr).count("were not mirrored into MLflow") == 1
    strict = track(smoke, "--strict", env=nowhere)
    assert strict.returncode == 1
    assert "error: results were not mirrored into MLflow at http://127.0.0.1:9" in strict.stderr
