"""MLflow as a mirror of the results folder: rebuilt or extended from files at any time, never the truth itself.

Each run of the suite becomes one MLflow run. Its tag `bench.key` says which: the identity of the results folder, then
data set, protocol, recipe and seed, so that folders can share a store and none touches what another mirrored. Its tag
`bench.fingerprint` says what state of the files it mirrors: the same one is left alone, another one replaces the run.
Times of metrics are the recorded end of the stage, so that logging twice cannot double a point. What is not finite,
which stores cannot hold, is told in tags.
"""

import functools
import math
import os
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.provenance import fingerprint
from pipeline.record import StageError, whole
from report.contents import Contents, read_contents

KEY, STATE = "bench.key", "bench.fingerprint"
BATCH = 1000  # metrics per request, MLflow's limit


def identity(results: str) -> str:
    """What tells this results folder from every other, on whatever machine: 32 hex digits, drawn once and kept in its
    file .id. A copy of the folder holds the same results and has the same identity.
    """
    path = Path(results) / ".id"
    if not path.exists():
        with whole(path, "w") as file:
            file.write(f"{uuid.uuid4().hex}\n")
    try:
        found = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise StageError(f"{path}: cannot be read: {problem}") from None
    if not re.fullmatch("[0-9a-f]{32}", found):
        raise StageError(
            f"{path}: {found[:40]!r} found, 32 hex digits expected; put back what it held, or delete it: all runs are "
            "then mirrored anew, beside those that the store has"
        )
    return found


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
    experiment = _experiment(client, plan["suite"], uri)
    own = identity(plan["results"])
    mirror = Mirror(client, experiment, _mirrored(client, experiment, own))
    counts: dict[str, int] = {"kept": 0, "added": 0, "replaced": 0, "missing": 0}
    unreadable = []
    for run in plan["runs"]:
        folder = Path(run["folder"])
        if not (folder / "train.json").exists():
            counts["missing"] += 1
            continue
        name = "/".join([run["dataset"], run["protocol"], run["recipe"], f"seed{run['seed']}"])
        try:
            contents = read_contents(folder)
        except StageError as problem:
            unreadable.append(str(problem))
            continue
        log: Callable[[str], None] = functools.partial(_log_run, client, contents=contents)
        counts[mirror.put(f"{own}/{name}", name, contents.state, log)] += 1
    tables = [Path(f"{table}{ending}") for table in plan["tables"] for ending in (".csv", ".md", ".tex")]
    tables = [path for path in tables if path.is_file()]
    state = fingerprint(**{os.path.relpath(path, plan["results"]): repr(path.read_bytes()) for path in tables})
    name = f"suite/{plan['suite']}"
    mirror.put(f"{own}/{name}", name, state, lambda run_id: _log_suite(client, run_id, tables, plan["results"]))
    about = {"uri": uri, "experiment": plan["suite"], "experiment_id": experiment, "results": own}
    return {**about, "runs": len(plan["runs"]), **counts, "unreadable": unreadable}


def _experiment(client: Any, suite: str, uri: str) -> str:
    """The suite's experiment, made when missing. Artifacts of a local store lie beside it, wherever we are."""
    found = client.get_experiment_by_name(suite)
    if found is None:
        store = Path(uri.removeprefix("sqlite:///").partition("?")[0])
        place = (store.resolve().parent / "mlartifacts").as_uri() if uri.startswith("sqlite:///") else None
        return client.create_experiment(suite, artifact_location=place)
    if found.lifecycle_stage == "deleted":
        client.restore_experiment(found.experiment_id)
    return found.experiment_id


def _mirrored(client: Any, experiment: str, own: str) -> dict[str, list[tuple[str, str, str]]]:
    """bench.key -> [(run id, bench.fingerprint, status)] of what the store holds already of this results folder."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    token = None
    while True:
        wanted = f"tags.`{KEY}` LIKE '{own}/%'"
        page = client.search_runs([experiment], wanted, max_results=1000, page_token=token)
        for run in page:
            tags = run.data.tags
            found.setdefault(tags[KEY], []).append((run.info.run_id, tags.get(STATE, ""), run.info.status))
        token = page.token
        if not token:
            return found


@dataclass(frozen=True)
class Mirror:
    """One experiment of a store, and what it holds already: bench.key -> [(run id, bench.fingerprint, status)]."""

    client: Any
    experiment: str
    held: Mapping[str, list[tuple[str, str, str]]]

    def put(self, key: str, name: str, state: str, log: Callable[[str], None]) -> str:
        """Have `log` fill a run, in place of those of another state; "kept" where this state is there already."""
        before = self.held.get(key, [])
        # An unfinished run is what a killed sync left behind.
        if [(found, status) for _, found, status in before] == [(state, "FINISHED")]:
            return "kept"
        run = self.client.create_run(self.experiment, tags={KEY: key, STATE: state}, run_name=name)
        log(run.info.run_id)
        self.client.set_terminated(run.info.run_id, status="FINISHED")
        for run_id, _, _ in before:  # only now: a failure above leaves the old run in place
            self.client.delete_run(run_id)
        return "replaced" if before else "added"


def _log_run(client: Any, run_id: str, contents: Contents) -> None:
    from mlflow.entities import Metric, Param, RunTag

    records = contents.records
    train = records["train"]
    ended = int(contents.ended.timestamp() * 1000)
    settings = {"recipe": train["settings"]["recipe"], "protocol": train["settings"]["protocol"], "seed": train["seed"]}
    settings |= {"base_seed": train.get("base_seed"), "data": records["prepare"]["settings"]["name"]}
    params = [Param(_allowed(name), str(value)[:6000]) for name, value in _flat(settings)]
    tags = [RunTag("status", train["status"]), RunTag("device", train["device"]), RunTag("code", train["code"])]
    if train["git"]:
        tags.append(RunTag("mlflow.source.git.commit", train["git"]["commit"]))
    points = []
    for name, value, step in _numbers(contents):
        if math.isfinite(value):
            points.append(Metric(_allowed(name), value, ended, step))
    tags += [RunTag(_allowed(name), text[:5000]) for name, text in _not_finite(contents).items()]
    for start in range(0, len(params), 100):
        client.log_batch(run_id, params=params[start : start + 100], tags=tags if start == 0 else ())
    for start in range(0, len(points), BATCH):
        client.log_batch(run_id, metrics=points[start : start + BATCH])
    for name in ("train.json", "metrics.json", "history.csv"):
        if (path := contents.folder / name).is_file():
            client.log_artifact(run_id, str(path))
    for key in contents.results:
        path = contents.folder / "metrics" / f"{key}.json"
        if path.is_file():
            client.log_artifact(run_id, str(path), artifact_path=f"metrics/{key}".rpartition("/")[0])


def _numbers(contents: Contents) -> Iterator[tuple[str, float, int]]:
    """(name, value, epoch) of all that is a number; results stand at epoch 0."""
    for row in contents.history:
        yield from ((f"train/{name}", value, int(row["epoch"])) for name, value in row.items() if name != "epoch")
    for key, result in contents.results.items():
        yield from ((f"{key}/{name}", float(v), 0) for name, v in result.items() if isinstance(v, int | float))


def _not_finite(contents: Contents) -> dict[str, str]:
    """Tag -> where a number is inf or nan: a store turns inf into 1.8e308 and refuses or loses nan."""
    found: dict[str, list[str]] = {}
    for name, value, epoch in _numbers(contents):
        if not math.isfinite(value):
            found.setdefault(f"{name} not finite", []).append(f"{value} in epoch {epoch}")
    for key, result in contents.results.items():
        if result.get("undefined"):
            found[f"{key} not finite"] = list(result["undefined"])
    return {name: ", ".join(texts) for name, texts in found.items()}


def _allowed(name: str) -> str:
    """A name that MLflow takes: of the marks that ours have, it refuses "@"."""
    return name.replace("@", " at ")


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
