"""Plan files: the rule that makes them knows their names; which stay and which go when a run has ended."""

import re
from pathlib import Path

from pipeline import catalogue
from pipeline.plan import Plan
from pipeline.tables import plan_name
from tests.conftest import ROOT
from tests.pipeline.test_plan import config


def test_plans_of_ended_runs_are_swept_and_those_of_another_results_folder_are_not(tmp_path, monkeypatch):
    """A results folder may lie below another, as results/smoke below results."""
    monkeypatch.chdir(tmp_path)
    outer, inner, before = (
        Plan(config(tables=["table2"], results=results, seeds=seeds))
        for results, seeds in (("results", [0]), ("results/smoke", [0]), ("results", [0, 1]))
    )
    for each in (outer, inner, before):
        each.leave_plans()
        each.write_plan("table2")
    monkeypatch.setattr("pipeline.plan.alone", lambda results: False)
    outer.sweep()
    assert Path(before.plan_path("table2")).exists()  # another run is at work
    monkeypatch.setattr("pipeline.plan.alone", lambda results: True)
    outer.sweep()
    plans = {Path(each.plan_path("table2")).stem for each in (outer, inner)}
    assert plans <= {path.stem for path in Path(".snakemake/plans").glob("table2-*.json")}
    assert Path(outer.plan_path("table2")).exists()
    assert not Path(before.plan_path("table2")).exists()
    assert not Path(before.made(Path(before.plan_path("table2")).stem)).exists()


def test_the_rule_that_makes_plans_knows_the_names_of_all_tables():
    """Names may have capital letters, as dcrl_tableA2."""
    pattern = re.search(r'plan="(.*)",', (ROOT / "Snakefile").read_text())[1]
    names = [*catalogue.names("table"), "suite", "results"]
    assert all(re.fullmatch(pattern, plan_name(name, "text")) for name in names)
    assert any(name != name.lower() for name in names)
    assert not re.fullmatch(pattern, "table2")
