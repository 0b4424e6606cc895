"""The address of an MLflow store and who may write to it; no store is opened."""

import threading
from types import SimpleNamespace

import pytest
from mlflow.exceptions import MlflowException

from report.store import alone, experiment, folders, masked, store_uri, without_secrets


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("https://ann:s3cret@host:5000/x", "https://***@host:5000/x"),
        ("https://t0ken@host", "https://***@host"),
        ("http://ann:s3/c@ret@host", "http://***@host"),
        (
            "postgresql+psycopg2://ann:s3cret@db/runs?sslmode=require",
            "postgresql+psycopg2://***@db/runs?sslmode=require",
        ),
        ("mysql://db/runs?user=ann&password=s3cret&x=1", "mysql://db/runs?user=ann&password=***&x=1"),
        ("http://127.0.0.1:5000", "http://127.0.0.1:5000"),
        ("sqlite:////home/ann@host/mlflow.db", "sqlite:////home/ann@host/mlflow.db"),
    ],
)
def test_an_address_is_shown_without_its_secrets(uri, shown):
    assert masked(uri) == shown


def test_what_mlflow_says_is_shown_without_secrets(monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "t0ken")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "hunter2")
    uri = "https://ann:s3%21cret@host/x"
    said = f"{uri} refused: s3!cret of ann, s3%21cret, bearer t0ken, hunter2 at https://ann:s3%21cret@host/x/api"
    assert without_secrets(said, uri) == (
        "https://***@host/x refused: *** of ann, ***, bearer ***, *** at https://***@host/x/api"
    )


def test_the_store_is_that_of_the_variable_or_a_file_of_the_results(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert store_uri(str(tmp_path)) == f"sqlite:///{tmp_path}/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://host")
    assert store_uri(str(tmp_path)) == "http://host"
    assert list(folders("r", "http://host")) == [*folders("r", "")]
    assert [str(folder) for folder in folders("r", f"sqlite:///{tmp_path}/a/b.db?timeout=9")] == ["r", f"{tmp_path}/a"]


@pytest.mark.parametrize("shared", [0, 1])
def test_two_at_once_wait_for_each_other(tmp_path, capsys, shared):
    """Whether they share the results folder or the folder of the store; a folder given twice is no trouble."""
    places = [[tmp_path / "one", tmp_path / "store"], [tmp_path / "two", tmp_path / "store"]]
    places[1][0] = places[1][0] if shared else places[0][0]
    places[1][1] = places[1][1] if shared else tmp_path / "other"
    inside = threading.Event()

    def second():
        with alone(*places[1], places[1][0]):
            inside.set()

    thread = threading.Thread(target=second, daemon=True)
    with alone(*places[0]):
        thread.start()
        assert not inside.wait(0.3)
    assert inside.wait(10)
    thread.join()
    assert "another process mirrors results into MLflow here: waiting for it" in capsys.readouterr().err


class Server:
    """A tracking server on which somebody else makes the experiment between a look and the making."""

    def __init__(self, reason="RESOURCE_ALREADY_EXISTS", found=True):
        self.answers = iter(
            [None, SimpleNamespace(experiment_id="7", lifecycle_stage="active", tags={}) if found else None]
        )
        self.reason, self.tags = reason, {}

    def get_experiment_by_name(self, name):
        return next(self.answers)

    def create_experiment(self, name, artifact_location):
        assert artifact_location is None
        raise MlflowException(self.reason)

    def set_experiment_tag(self, number, key, value):
        self.tags[number, key] = value


def test_an_experiment_that_another_has_just_made_is_used():
    server = Server()
    assert experiment(server, "default", "results", "http://host") == "7"
    assert server.tags["7", "mlflow.experimentKind"] == "custom_model_development"


def test_a_server_that_makes_no_experiment_says_why():
    with pytest.raises(MlflowException, match="not allowed"):
        experiment(Server("not allowed", found=False), "default", "results", "http://host")
