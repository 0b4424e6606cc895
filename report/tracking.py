"""MLflow as a mirror of the results folder: rebuilt or extended from files at any time, never the truth itself.

Each run of the suite becomes one MLflow run whose tag `bench.key` says which and whose tag `bench.fingerprint` says
what state of the files it mirrors: the same fingerprint is left alone, another one replaces the run. Times of metrics
are the recorded end of the stage, so that logging twice cannot double a point.
"""

import csv
import datetime
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pipeline.provenance import fingerprint
from pipeline.record import read_json

KEY, STATE = "bench.key", "bench.fingerprint"
BATCH = 1000  # metrics per request, MLflow's limit


def store_uri(results: str) -> str:
    """MLFLOW_TRACKING_URI, or a SQLite file in the results folder."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{Path(results).resolve()}/mlflow.db"


def sync(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Mirror the suite that `plan` (pipeline/plan.py, suite_plan) describes; returns counts and the store's address."""
    # A store that does not answer must not hold up a finished suite: fail within seconds, not minutes.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", "1")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "30")
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    from mlflow import MlflowClient

    uri = store_uri(plan["results"])
    client = MlflowClient(tracking_uri=uri, registry_uri=uri)
    experiment = _experiment(client, plan, uri)
    mirrored = _mirrored(client, experiment)
    counts = {"kept": 0, "added": 0, "replaced": 0, "missing": 0}
    for run in plan["runs"]:
        folder = Path(run["folder"])
        if not (folder / "train.json").is_file():
            counts["missing"] += 1
            continue
        key = "/".join([run["dataset"], run["protocol"], run["recipe"], f"seed{run['seed']}"])
        content = _content(folder)
        counts[
            _mirror(client, experiment, mirrored, key, content, lambda run_id, c=content: _log_run(client, run_id, c))
        ] += 1
    tables = [Path(f"{table}{ending}") for table in plan["tables"] for ending in (".csv", ".md", ".tex")]
    tables = [path for path in tables if path.is_file()]
    content = {"tables": {str(path): path.read_text(encoding="utf-8") for path in tables}, "records": {}}
    key = f"suite/{plan['suite']}"
    _mirror(
        client, experiment, mirrored, key, content, lambda run_id: _log_suite(client, run_id, tables, plan["results"])
    )
    return {"uri": uri, "experiment": plan["suite"], "experiment_id": experiment, "runs": len(plan["runs"]), **counts}


def _experiment(client: Any, plan: Mapping[str, Any], uri: str) -> str:
    """The suite's experiment, made when missing. Artifacts of a local store lie beside it, wherever we are."""
    found = client.get_experiment_by_name(plan["suite"])
    if found is None:
        place = (Path(plan["results"]).resolve() / "mlartifacts").as_uri() if uri.startswith("sqlite") else None
        return client.create_experiment(plan["suite"], artifact_location=place)
    if found.lifecycle_stage == "deleted":
        client.restore_experiment(found.experiment_id)
    return found.experiment_id


def _mirrored(client: Any, experiment: str) -> dict[str, list[tuple[str, str, str]]]:
    """bench.key -> [(run id, bench.fingerprint, status)] of what the store holds already."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    token = None
    while True:
        page = client.search_runs([experiment], max_results=1000, page_token=token)
        for run in page:
            tags = run.data.tags
            if KEY in tags:
                found.setdefault(tags[KEY], []).append((run.info.run_id, tags.get(STATE, ""), run.info.status))
        token = page.token
        if not token:
            return found


def _mirror(client: Any, experiment: str, mirrored: dict, key: str, content: dict[str, Any], log: Any) -> str:
    state = fingerprint(**{name: repr(value) for name, value in content.items()})
    before = mirrored.get(key, [])
    # An unfinished run is what a killed sync left behind.
    if [(found, status) for _, found, status in before] == [(state, "FINISHED")]:
        return "kept"
    run = client.create_run(experiment, tags={KEY: key, STATE: state}, run_name=key)
    log(run.info.run_id)
    client.set_terminated(run.info.run_id, status="FINISHED")
    for run_id, _, _ in before:  # only now: a failure above leaves the old run in place
        client.delete_run(run_id)
    return "replaced" if before else "added"


def _content(folder: Path) -> dict[str, Any]:
    """What the files of one run say: records, results of what its index names, history."""
    index = folder / "metrics.json"
    records = dict(read_json(folder / "train.json")["records"])
    results: dict[str, Any] = {}
    for key in read_json(index)["evaluations"] if index.is_file() else ():
        stored = read_json(folder / "metrics" / f"{key}.json")
        records |= stored["records"]
        results[key] = stored["result"]
        if "seen" in stored["result"]:
            results[f"{key}@seen"] = stored["result"]["seen"]
    with open(folder / "history.csv", encoding="utf-8", newline="") as file:
        history = list(csv.DictReader(file))
    return {"folder": str(folder), "records": records, "results": results, "history": history}


def _log_run(client: Any, run_id: str, content: Mapping[str, Any]) -> None:
    from mlflow.entities import Metric, Param, RunTag

    records = content["records"]
    train = records["train"]
    ended = int(datetime.datetime.fromisoformat(train["ended"]).timestamp() * 1000)
    settings = {"recipe": train["settings"]["recipe"], "protocol": train["settings"]["protocol"], "seed": train["seed"]}
    settings |= {"base_seed": train.get("base_seed"), "data": records["prepare"]["settings"]["name"]}
    params = [Param(name, str(value)[:6000]) for name, value in _flat(settings)]
    tags = [RunTag("status", train["status"]), RunTag("device", train["device"]), RunTag("code", train["code"])]
    if train["git"]:
        tags.append(RunTag("mlflow.source.git.commit", train["git"]["commit"]))
    points = [
        Metric(f"train/{name}", float(value), ended, int(float(row["epoch"])))
        for row in content["history"]
        for name, value in row.items()
        if name != "epoch" and value
    ]
    for key, result in content["results"].items():
        for name, value in result.items():
            if isinstance(value, int | float) and math.isfinite(value):
                points.append(Metric(f"{key}/{name}", float(value), ended, 0))
    for start in range(0, len(params), 100):
        client.log_batch(run_id, params=params[start : start + 100], tags=tags if start == 0 else ())
    for start in range(0, len(points), BATCH):
        client.log_batch(run_id, metrics=points[start : start + BATCH])
    for path in sorted(Path(content["folder"]).glob("*")):
        if path.name in ("train.json", "metrics.json", "history.csv"):
            client.log_artifact(run_id, str(path))
    for key in content["results"]:
        path = Path(content["folder"], "metrics", f"{key}.json")
        if path.is_file():
            client.log_artifact(run_id, str(path), artifact_path=f"metrics/{key}".rpartition("/")[0])


def _log_suite(client: Any, run_id: str, tables: Iterable[Path], results: str) -> None:
    for path in tables:
        client.log_artifact(run_id, str(path), artifact_path="tables")
    logs = Path(results) / "logs"
    if logs.is_dir():
        client.log_artifacts(run_id, str(logs), artifact_path="logs")


def _flat(settings: Mapping[str, Any], before: str = "") -> list[tuple[str, Any]]:
    """Nested settings as (dotted name, value)."""
    found = []
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found += _flat(value, f"{before}{name}.")
        else:
            found.append((f"{before}{name}", value))
    return found
