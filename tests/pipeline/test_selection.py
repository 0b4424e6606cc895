"""Which runs selection.csv asks for, and rows of one chosen run."""

import json

import pytest
import yaml

from pipeline import catalogue, suites
from pipeline.naming import ConfigError
from pipeline.plan import Plan
from pipeline.selection_plans import is_method

NAMES = "autoencoder dec idec dcrl jule mixem cdc cdc-self_label cdc_selflabel scan selflabel"
METHODS = {*NAMES.split()}


def config(**changes):
    default = catalogue.read_yaml(catalogue.CONFIG / "config.yaml")
    return (
        default | {"datasets": ["digits_200"], "overrides": {"*": {"batch_size": 64}}, "tables": ["table2"]} | changes
    )


def planned(plan):
    (text,) = (text for name, text in plan.plan_texts.items() if name.startswith("selection-"))
    return json.loads(text)


def test_the_suite_has_every_clustering_method_with_ten_seeds():
    plan = Plan(suites.configuration(catalogue.places("suites")["selection_digits"]))
    found = planned(plan)
    assert {row["recipe"] for row in found["rows"]} == METHODS
    assert all([run["seed"] for run in row["runs"]] == list(range(10)) for row in found["rows"])
    assert all(set(run["expected"]) >= {"train", "embed"} for row in found["rows"] for run in row["runs"])
    of_runs = {f"{run['folder']}/metrics.json" for row in found["rows"] for run in row["runs"]}
    assert set(plan.selection_metrics()) == of_runs
    assert len(of_runs) == 10 * len(METHODS)
    assert found["scale"] == 100
    assert found["datasets"] == {"digits": "digits"}


def test_controls_probes_and_seen_splits_are_no_methods():
    row = {"label": "M", "recipe": "mixem", "assigner": "argmax"}
    assert is_method(row)
    assert is_method(row | {"control": False})
    assert not any(is_method(row | {key: True}) for key in ("control", "seen", "lowest_own_loss"))
    assert not is_method({"label": "M", "recipe": "mixem", "probe": "knn"})
    assert not is_method({"label": "paper's"})
    assert "supervised" not in {row["recipe"] for row in planned(Plan(config(selection=True)))["rows"]}


def test_without_the_key_nothing_is_planned_and_the_target_says_how():
    plan = Plan(config())
    assert not any(name.startswith("selection-") for name in plan.plan_texts)
    with pytest.raises(
        ConfigError, match=r"results/digits_200/selection.csv: no selection asked for; add --config selection=true"
    ):
        plan.check_targets(["results/digits_200/selection.csv"])
    Plan(config(selection=True)).check_targets(["results/digits_200/selection.csv"])


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.setattr(catalogue, "OWN", tmp_path / "own")
    (tmp_path / "own/tables").mkdir(parents=True)

    def write(*rows, **more):
        content = {"title": "Mine", "metrics": ["ACC"], "rows": list(rows), **more}
        (tmp_path / "own/tables/mine.yaml").write_text(yaml.safe_dump(content))

    return write


ROW = {"label": "M", "recipe": "mixem", "assigner": "argmax"}


def test_a_chosen_run_without_its_mean_is_refused(table):
    for beside in ((), (ROW | {"assigner": "kmeans"},), (ROW | {"datasets": ["digits"]},)):
        table(ROW | {"lowest_own_loss": True}, *beside)
        with pytest.raises(ConfigError, match="never stands in place of their mean"):
            Plan(config(tables=["mine"]))
    table(ROW | {"lowest_own_loss": True}, ROW)
    assert Plan(config(tables=["mine"])).runs.all()


def test_a_suite_without_a_method_or_with_a_table_of_that_name_is_refused(table):
    table(ROW | {"control": True})
    with pytest.raises(ConfigError, match="selection: no row of mine is a recipe with an assigner"):
        Plan(config(tables=["mine"], selection=True))
    table(ROW, path="selection")
    with pytest.raises(
        ConfigError, match=r"its file is results/digits_200/selection.csv, and so is that of selection.csv"
    ):
        Plan(config(tables=["mine"]))
