"""The MLflow store that results are mirrored into: its address, who may write to it, the experiment of a suite."""

import contextlib
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:
    fcntl = None

LOCAL = "sqlite:///"
FIRST = "0"  # MLflow's experiment "Default", which every new store has
# What MLflow's pages call "Model training". Those of 3.17 ask the browser first, and open on traces of language models
# unless "Model training" was chosen there or the part of the address after # ends with ?workflowType=machine_learning.
KIND = {"mlflow.experimentKind": "custom_model_development"}
MADE = "bench.experiment"  # tag of an experiment that was made, or taken over, here
USER = re.compile(r"^([a-z][\w+.-]*://)(.*)@", re.IGNORECASE | re.DOTALL)
SECRET = re.compile(r"([?&][^=&]*(?:pass|pwd|token|secret|key)[^=&]*=)([^&]+)", re.IGNORECASE)


def store_uri(results: str) -> str:
    """MLFLOW_TRACKING_URI, or a SQLite file in the results folder."""
    return os.environ.get("MLFLOW_TRACKING_URI") or _own(results)


def _own(results: str) -> str:
    return f"{LOCAL}{Path(results).resolve()}/mlflow.db"


def masked(uri: str) -> str:
    """The address without who logs in and without what only they know: what may be printed and stored."""
    if not uri.startswith("sqlite:"):  # a path, in which "@" is a character as any other
        uri = USER.sub(r"\1***@", uri)
    return SECRET.sub(r"\1***", uri)


def without_secrets(text: str, uri: str) -> str:
    """What MLflow says about a store, without the secrets of its address and of MLflow's own variables."""
    secrets = [os.environ.get(name, "") for name in ("MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN")]
    secrets += [secret for _, secret in SECRET.findall(uri)]
    if not uri.startswith("sqlite:") and (found := USER.match(uri)):
        secrets += [found[2], found[2].partition(":")[2]]
    text = text.replace(uri, masked(uri))
    for secret in sorted({*secrets, *map(unquote, secrets)} - {""}, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


@contextlib.contextmanager
def alone(*folders: Path) -> Iterator[None]:
    """While no other process mirrors from or into any of the folders: two that begin at once would both make the tables
    of a new SQLite file, which fails, or both mirror the same runs. Where folders cannot be locked, nobody waits.
    """
    with contextlib.ExitStack() as stack:
        wanted = {folder.resolve() for folder in folders} if fcntl else ()
        for folder in sorted(wanted):  # in one order: no two wait for each other
            _wait(stack.enter_context(_opened(folder)))
        yield


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int]:
    folder.mkdir(parents=True, exist_ok=True)
    number = os.open(folder, os.O_RDONLY)
    try:
        yield number
    finally:
        os.close(number)  # and with it the lock


def _wait(folder: int) -> None:
    assert fcntl is not None
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("another process mirrors results into MLflow here: waiting for it", file=sys.stderr)
        fcntl.flock(folder, fcntl.LOCK_EX)
    except OSError:
        return  # a file system without locks


def folders(results: str, uri: str) -> Iterable[Path]:
    """What `alone` locks: the results folder, and that of a SQLite store."""
    return [Path(results), *([_file(uri).parent] if uri.startswith(LOCAL) else [])]


def _file(uri: str) -> Path:
    """Path of a SQLite store."""
    return Path(uri.removeprefix(LOCAL).partition("?")[0]).resolve()


def experiment(client: Any, suite: str, results: str, uri: str) -> str:
    """Id of the suite's experiment, made when missing. Artifacts of a local store lie beside it, wherever we are."""
    found = client.get_experiment_by_name(suite) or _make(client, suite, uri)
    if found.lifecycle_stage == "deleted":
        client.restore_experiment(found.experiment_id)
    if MADE not in found.tags:
        for key, value in {**KIND, MADE: "1"}.items():
            if key not in found.tags:  # the user may have chosen another view
                client.set_experiment_tag(found.experiment_id, key, value)
        if uri == _own(results):
            _remove_empty(client)
    return found.experiment_id


def _make(client: Any, suite: str, uri: str) -> Any:
    from mlflow.exceptions import MlflowException

    place = (_file(uri).parent / "mlartifacts").as_uri() if uri.startswith(LOCAL) else None
    try:
        client.create_experiment(suite, artifact_location=place)
    except MlflowException:
        if (found := client.get_experiment_by_name(suite)) is not None:
            return found  # another process was faster, where nothing can be locked: on a server
        raise
    return client.get_experiment_by_name(suite)


def _remove_empty(client: Any) -> None:
    """Delete MLflow's experiment "Default", if it is empty: beside one called "default" it only confuses.

    In a store of ours alone, once: whoever restores it keeps it. In a store of others nobody knows who counts on it.
    """
    from mlflow.entities import ViewType

    first = client.get_experiment(FIRST)
    untouched = first.name == "Default" and first.lifecycle_stage == "active"
    if untouched and not client.search_runs([FIRST], run_view_type=ViewType.ALL, max_results=1):
        client.delete_experiment(FIRST)
