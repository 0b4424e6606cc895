"""MLflow as a mirror of the results folder: rebuilt or extended from files at any time, never the truth itself.

Each run of the suite becomes one MLflow run. Its tag `bench.key` says which: the identity of the results folder, then
data set, protocol, recipe and seed, so that folders can share a store and none touches what another mirrored. Its tag
`bench.fingerprint` says what state of the files it mirrors: the same one is left alone, another one replaces the run.
All times are those that the stages recorded, so that logging twice cannot double a point. What a run becomes:
report/entry.py; the store and its experiment: report/store.py.
"""

import functools
import os
import re
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.provenance import fingerprint
from pipeline.record import StageError, sha256, whole
from report.contents import read_contents
from report.entry import LAYOUT, Entry
from report.store import alone, experiment, folders, masked, store_uri

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


def sync(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Mirror the suite that `plan` (pipeline/plan.py, suite_plan) describes; returns counts and the store's address."""
    # A store that does not answer must not hold up a finished suite: fail within seconds, not minutes.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", "1")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "30")
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    uri, results = store_uri(plan["results"]), plan["results"]
    from mlflow import MlflowClient

    with alone(*folders(results, uri)):
        client = MlflowClient(tracking_uri=uri, registry_uri=uri)
        found = experiment(client, plan["suite"], results, uri)
        own = identity(results)
        mirror = Mirror(client, found, _mirrored(client, found, own))
        about = {"uri": masked(uri), "experiment": plan["suite"], "experiment_id": found, "results": own}
        return {**about, "runs": len(plan["runs"]), **_put_all(mirror, plan, own)}


def _put_all(mirror: "Mirror", plan: Mapping[str, Any], own: str) -> dict[str, Any]:
    """All runs of a suite, and one for the suite itself; returns counts, and what cannot be read."""
    counts: dict[str, int] = {"kept": 0, "added": 0, "replaced": 0, "missing": 0}
    unreadable, entries = [], []
    for run in plan["runs"]:
        folder = Path(run["folder"])
        if not (folder / "train.json").exists():
            counts["missing"] += 1
            continue
        name = "/".join([run["dataset"], run["protocol"], run["recipe"], f"seed{run['seed']}"])
        try:
            entry = Entry(read_contents(folder), run)
        except StageError as problem:
            unreadable.append(str(problem))
            continue
        log: Callable[[str], None] = functools.partial(_log_run, mirror.client, entry=entry)
        counts[mirror.put(f"{own}/{name}", name, entry.state, (entry.started, entry.ended), log)] += 1
        entries.append(entry)
    files = _of_suite(plan)
    state = fingerprint(
        layout=LAYOUT,
        **{os.path.relpath(path, plan["results"]): sha256(path) for paths in files.values() for path in paths},
    )
    name, now = f"suite/{plan['suite']}", int(time.time() * 1000)
    span = (min((e.started for e in entries), default=now), max((e.evaluated for e in entries), default=now))
    log = functools.partial(_log_suite, mirror.client, suite=plan["suite"], files=files, results=plan["results"])
    mirror.put(f"{own}/{name}", name, state, span, log)
    return {**counts, "unreadable": unreadable}


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

    def put(self, key: str, name: str, state: str, span: tuple[int, int], log: Callable[[str], None]) -> str:
        """Have `log` fill a run, in place of those of another state; "kept" where this state is there already.

        `span`: when it began and ended, in milliseconds.
        """
        before = self.held.get(key, [])
        # An unfinished run is what a killed sync left behind.
        if [(found, status) for _, found, status in before] == [(state, "FINISHED")]:
            return "kept"
        tags = {KEY: key, STATE: state}
        run = self.client.create_run(self.experiment, start_time=span[0], tags=tags, run_name=name)
        log(run.info.run_id)
        self.client.set_terminated(run.info.run_id, status="FINISHED", end_time=span[1])
        for run_id, _, _ in before:  # only now: a failure above leaves the old run in place
            self.client.delete_run(run_id)
        return "replaced" if before else "added"


def _log_run(client: Any, run_id: str, entry: Entry) -> None:
    from mlflow.entities import Metric, Param, RunTag

    params = [Param(name, value) for name, value in entry.params().items()]
    tags = [RunTag(name, text) for name, text in entry.tags().items()]
    points = [Metric(name, value, at, epoch) for name, value, epoch, at in entry.points()]
    for start in range(0, len(params), 100):
        client.log_batch(run_id, params=params[start : start + 100])
    for start in range(0, len(tags), 100):
        client.log_batch(run_id, tags=tags[start : start + 100])
    for start in range(0, len(points), BATCH):
        client.log_batch(run_id, metrics=points[start : start + BATCH])
    folder = entry.contents.folder
    for name in ("train.json", "metrics.json", "history.csv"):
        if (path := folder / name).is_file():
            client.log_artifact(run_id, str(path))
    for key in entry.contents.results:
        path = folder / "metrics" / f"{key}.json"
        if path.is_file():
            client.log_artifact(run_id, str(path), artifact_path=f"metrics/{key}".rpartition("/")[0])


def _of_suite(plan: Mapping[str, Any]) -> dict[str, list[Path]]:
    """Folder among the suite's artifacts -> its files: tables, and every figure that was drawn for the suite."""
    tables = [Path(f"{table}{ending}") for table in plan["tables"] for ending in (".csv", ".md", ".tex")]
    found = {"tables": [path for path in tables if path.is_file()]}
    drawn = Path(plan["figures"])
    for path in sorted(drawn.rglob("*.png")):
        found.setdefault((Path("figures") / path.relative_to(drawn)).parent.as_posix(), []).append(path)
    return found


def _log_suite(client: Any, run_id: str, suite: str, files: Mapping[str, Iterable[Path]], results: str) -> None:
    client.set_tag(run_id, "suite", suite)
    for place, paths in files.items():
        for path in paths:
            client.log_artifact(run_id, str(path), artifact_path=place)
    logs = Path(results) / "logs"
    if logs.is_dir():
        client.log_artifacts(run_id, str(logs), artifact_path="logs")
