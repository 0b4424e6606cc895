"""What MLflow is told of a run, and which of its results tables show; without a store."""

import datetime
from pathlib import Path

import pytest
import yaml

from pipeline.catalogue import CONFIG
from pipeline.plan import Plan
from pipeline.runs import Run
from report.contents import Contents
from report.entry import Entry

ENDED = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
NOON = int(ENDED.timestamp() * 1000)
RUN = {"dataset": "digits", "protocol": "full", "recipe": "r", "seed": 3}
SHOWN = {"linear": ["ACC"], "clustering/gmm": ["ACC", "NMI", "ARI"], "clustering/argmax": ["ACC"]}


def entry(history=(), shown=None, results=None, **train):
    records = {
        "prepare": {"settings": {"name": "digits"}},
        "train": {
            "settings": {"recipe": {"name": "r", "mAP@1": 3}, "protocol": {"name": "full"}}, "seed": 3, "status": "ok",
            "device": "cpu", "code": "c", "git": {"commit": "abc"}, "base_seed": None, "seconds": 5.0, **train,
        },
        "score/gmm": {"ended": "2026-01-01T12:00:07+00:00"},
        "probe/linear": {"ended": "2026-01-01T12:00:09+00:00"},
    }  # fmt: skip
    found = {
        "clustering/argmax": {"ACC": 0.25, "NMI": 0.5},
        "clustering/gmm": {"ACC": 0.75, "NMI": 0.625, "ARI": 0.5, "AMI": 0.1, "n": 40, "status": "ok"},
        "linear": {"ACC": 0.9, "lr": 0.1, "epochs": 100},
    }
    contents = Contents(Path("x"), records, found if results is None else results, list(history), ENDED)
    return Entry(contents, {**RUN, "shown": SHOWN if shown is None else shown})


def metrics(of):
    return {name: value for name, value, _, _ in of.points()}


def test_a_run_has_one_ACC_NMI_and_ARI_and_beside_them_what_tables_show():
    """No other number, such as a probe's rate or the count of rows: MLflow draws a chart for each."""
    assert metrics(entry()) == {
        "ACC": 0.75, "NMI": 0.625, "ARI": 0.5, "clustering/gmm/ACC": 0.75, "clustering/gmm/NMI": 0.625,
        "clustering/gmm/ARI": 0.5, "clustering/argmax/ACC": 0.25, "linear/ACC": 0.9,
    }  # fmt: skip


def test_the_first_assigner_of_the_tables_is_the_one_by_which_runs_sort():
    assert entry().tags()["assigner"] == "gmm"
    other = entry(shown={"clustering/argmax": ["ACC"], "clustering/gmm": ["ACC"]})
    assert other.tags()["assigner"] == "argmax"
    assert metrics(other)["ACC"] == 0.25
    assert "ARI" not in metrics(other)
    assert other.state != entry().state


def test_runs_without_clusters_or_labels_have_no_ACC_to_sort_by():
    """The accuracy of a probe is no accuracy of clusters."""
    probed = entry(shown={"linear": ["ACC"]})
    assert "assigner" not in probed.tags()
    assert metrics(probed) == {"linear/ACC": 0.9}
    unlabelled = entry(
        shown={"clustering/gmm": ["ACC", "largest_share"]}, results={"clustering/gmm": {"largest_share": 0.5}}
    )
    assert metrics(unlabelled) == {"clustering/gmm/largest_share": 0.5}


def test_results_of_seen_splits_stand_apart():
    found = entry(shown={"linear": ["ACC"]}, results={"linear": {"ACC": 0.5}, "linear/seen": {"ACC": 1.0, "n": 3}})
    assert metrics(found) == {"linear/ACC": 0.5, "linear/seen/ACC": 1.0}


def test_tags_say_what_the_run_is():
    tags = entry().tags()
    wanted = {"dataset": "digits", "protocol": "full", "recipe": "r", "seed": "3", "assigner": "gmm", "status": "ok"}
    assert wanted.items() <= tags.items()
    assert tags["mlflow.source.git.commit"] == "abc"
    assert entry().params() == {
        "recipe.name": "r", "recipe.mAP at 1": "3", "protocol.name": "full", "seed": "3", "base_seed": "None",
        "data": "digits",
    }  # fmt: skip


def test_curves_have_an_epoch_and_its_time_and_those_of_the_machine_stand_apart():
    history = [{"epoch": 1.0, "total": 2.0, "seconds": 3.0}, {"epoch": 2.0, "total": 1.0, "seconds": 4.0}]
    points = list(entry(history, shown={}).points())
    assert points == [
        ("train/total", 2.0, 1, NOON - 4000), ("system/seconds", 3.0, 1, NOON - 4000),
        ("train/total", 1.0, 2, NOON), ("system/seconds", 4.0, 2, NOON),
    ]  # fmt: skip


def test_a_run_lasts_from_the_start_of_its_training_to_the_end_and_results_have_their_own_time():
    found = entry()
    assert (found.started, found.ended, found.evaluated) == (NOON - 5000, NOON, NOON + 9000)
    times = {name: at for name, _, _, at in found.points()}
    assert (times["ACC"], times["clustering/gmm/NMI"], times["linear/ACC"]) == (NOON + 7000, NOON + 7000, NOON + 9000)
    assert times["clustering/argmax/ACC"] == NOON  # its record does not say


@pytest.mark.parametrize(("seconds", "began"), [(3.0, 5000), (30.0, 30000), (float("inf"), 5000)])
def test_a_resumed_training_began_as_long_ago_as_its_epochs_took(seconds, began):
    assert entry([{"epoch": 1.0, "seconds": seconds}]).started == NOON - began


def test_the_plan_says_what_tables_show_of_each_run():
    config = yaml.safe_load((CONFIG / "config.yaml").read_text())
    plan = Plan(config | {"tables": ["table2", "table3", "table1"], "seeds": [0]}, False).suite_plan()
    shown = {run["recipe"]: run["shown"] for run in plan["runs"]}
    assert list(shown["mixem"]) == [
        "clustering/kmeans_components", "clustering/argmax", "clustering/sinkhorn", "clustering/sinkhorn_p",
        "linear_mixem", "linear", "knn", "clustering/kmeans",
    ]  # fmt: skip
    assert shown["mixem"]["clustering/argmax"] == ["ACC", "NMI", "ARI"]
    assert shown["mixem"]["linear"] == ["ACC"]
    assert plan["figures"] == "results/figures"


def test_a_run_of_another_data_set_or_a_base_that_no_table_shows_shows_nothing():
    config = yaml.safe_load((CONFIG / "config.yaml").read_text()) | {"tables": ["table1"], "seeds": [0]}
    plan = Plan(config, False)
    assert Run("digits", "full", "simclr_base", 0) in plan.runs.all()
    (base,) = (run for run in plan.suite_plan()["runs"] if run["recipe"] == "simclr_base")
    assert base["shown"] == {}
