"""results.csv: one line for each number, and what is left out of it."""

import csv
import json
import os
import re
from pathlib import Path

import pandas as pd
import pytest

from pipeline import catalogue
from pipeline.plan import Plan
from report.collect import HEAD, _newer, collected, to_csv
from tests.conftest import ROOT
from tests.report.folders import probed, run, store

CONTRACT = ["dataset", "protocol", "recipe", "seed", "kind", "name", "metric", "value", "seconds", "fingerprint"]


def spec(runs, metrics=("ACC",), **more):
    return {"recipe": "r", "assigner": "kmeans", "metrics": list(metrics), "runs": runs} | more


def probe(runs):
    return {"recipe": "r", "probe": "probe", "metrics": ["ACC"], "runs": runs}


def plan(*rows):
    return {"name": "results", "rows": list(rows)}


def lines(*rows):
    """Every line as a mapping."""
    return list(csv.DictReader(to_csv(collected(plan(*rows))[0]).splitlines()))


def test_one_line_for_each_number(tmp_path):
    made = run(tmp_path / "a", 3, 0.625, n=40, status="ok", undefined=["AMI"], sizes={"0": 1}, seen={"ACC": 0.75})
    found = lines(spec([made]))
    assert list(found[0]) == [*CONTRACT, "status"]
    assert list(HEAD) == list(found[0])
    first = dict(
        zip(HEAD, ["d", "full", "r", "3", "assigner", "kmeans", "ACC", "0.625", "7.5", "s", "ok"], strict=True)
    )
    assert found[0] == first
    assert [(line["metric"], line["value"]) for line in found] == [
        ("ACC", "0.625"), ("occupied_clusters", "3"), ("degenerate", "0"), ("n", "40"), ("seen/ACC", "0.75"),
    ]  # fmt: skip
    assert all({**line, "metric": "ACC", "value": "0.625"} == first for line in found)


def test_numbers_are_not_rounded(tmp_path):
    assert float(lines(spec([run(tmp_path / "a", 0, 1 / 3)]))[0]["value"]) == 1 / 3


def test_settings_that_a_probe_repeats_are_no_results(tmp_path):
    made = probed(tmp_path / "a", 0, 0.9, lr=0.1, epochs=5, epoch=3)
    path = tmp_path / "a/metrics/probe.json"
    stored = json.loads(path.read_text())
    stored["records"]["probe/probe"]["settings"]["probe"] = {"name": "probe", "lr": 0.1, "epochs": 5}
    store(tmp_path / "a", "probe", stored["result"], stored["records"])
    found = lines(probe([made]))
    assert [(line["kind"], line["name"], line["metric"], line["value"], line["fingerprint"]) for line in found] == [
        ("probe", "probe", "ACC", "0.9", "p"), ("probe", "probe", "epoch", "3", "p"),
    ]  # fmt: skip


def test_lines_are_sorted_by_run(tmp_path):
    runs = [run(tmp_path / str(seed), seed, 0.5) for seed in (10, 2)]
    runs += [run(tmp_path / "other", 0, 0.5) | {"dataset": "a"}]
    found = lines(spec(runs))
    assert [(line["dataset"], line["seed"]) for line in found if line["metric"] == "ACC"] == [
        ("a", "0"), ("d", "2"), ("d", "10"),
    ]  # fmt: skip


def test_what_could_not_be_had_is_one_line_without_a_number(tmp_path):
    diverged = run(tmp_path / "a", 0, 0.5, train={"status": "diverged", "diverged": {"epoch": 3, "term": "push"}})
    failed = run(tmp_path / "b", 1, 0.5, status="failed", reason="KeyError")
    found = lines(spec([diverged, failed]))
    assert [(line["seed"], line["metric"], line["value"], line["seconds"], line["status"]) for line in found] == [
        ("0", "", "", "", "diverged"), ("1", "", "", "", "failed"),
    ]  # fmt: skip


def test_stale_damaged_and_missing_results_are_left_out_and_told(tmp_path):
    good, stale = run(tmp_path / "a", 0, 0.5), run(tmp_path / "b", 1, 0.9, fingerprint="old")
    missing, damaged = run(tmp_path / "c", 2, 0.5), run(tmp_path / "e", 3, 0.5)
    (tmp_path / "c/metrics/clustering/kmeans.json").unlink()
    (tmp_path / "e/metrics/clustering/kmeans.json").write_text("{")
    found, problems = collected(plan(spec([good, stale, missing, damaged])))
    assert {line[3] for line in found} == {0}
    assert [problem.kind for problem in problems] == ["stale", "not run", "unreadable"]


def test_what_other_seeds_have_and_one_lacks_is_damage(tmp_path):
    runs = [run(tmp_path / "a", 0, 0.5, NMI=0.4), run(tmp_path / "b", 1, 0.5)]
    found, problems = collected(plan(spec(runs, metrics=["ACC", "NMI"])))
    assert {line[3] for line in found} == {0}
    assert "has no NMI, which other seeds have" in str(problems[0])


@pytest.fixture
def stage(tmp_path, project):
    """Runs the stage over a plan; returns what it said and the file."""

    def call(rows, *words):
        (tmp_path / "plan.json").write_text(json.dumps(plan(*rows)))
        os.utime(tmp_path / "plan.json", (1, 1))
        done = project.stage("report.collect", "--plan", str(tmp_path / "plan.json"), "--out", str(out), *words)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    out = tmp_path / "results.csv"
    return call, out


def test_the_stage_writes_the_file_and_tells_what_it_left_out(stage, tmp_path):
    call, out = stage
    stale, missing = run(tmp_path / "b", 1, 0.9, fingerprint="old"), run(tmp_path / "c", 2, 0.5)
    (tmp_path / "c/metrics/clustering/kmeans.json").unlink()
    said = call([spec([run(tmp_path / "a", 0, 0.5), stale, missing])])
    assert f"warning: left out of {out}: {tmp_path}/b: stale, stage train ran with other settings" in said
    assert f"{out}: 3 lines; results that are not there yet: 1" in said
    assert f"{tmp_path}/c:" not in said
    assert len(out.read_text().splitlines()) == 4


def test_what_is_asked_for_after_every_command_is_made_where_there_is_news(tmp_path):
    """Nothing before the first result; then once for each result or other plan."""
    out, file = tmp_path / "results.csv", tmp_path / "plan.json"
    file.write_text("")
    entry = run(tmp_path / "a", 0, 0.5)
    index = tmp_path / "a" / "metrics.json"
    for path, time in ((file, 10), (index, 20)):
        os.utime(path, (time, time))
    made = plan(spec([entry]))
    assert _newer(made, file, out)
    out.write_text("")
    for time, new in ((30, False), (15, True), (5, True)):
        os.utime(out, (time, time))
        assert _newer(made, file, out) is new
    os.utime(out, (30, 30))
    os.utime(file, (40, 40))
    assert _newer(made, file, out)
    index.unlink()
    assert not _newer(made, file, out)


def test_the_plan_asks_for_each_result_once():
    """A recipe with an assigner that two tables show, metrics of both, its runs over both's data sets."""
    default = catalogue.read_yaml(catalogue.CONFIG / "config.yaml")
    made = Plan(default | {"seeds": [0, 1]})
    rows = made.results_plan()["rows"]
    keys = [(row["recipe"], row.get("assigner") or row.get("probe")) for row in rows]
    assert len(keys) == len(set(keys))
    asked = {
        (row["recipe"], row.get("assigner") or row.get("probe"))
        for table in made.tables.values()
        for row in table["rows"]
        if "recipe" in row
    }
    assert set(keys) == asked
    held = dict(zip(keys, rows, strict=True))
    assert held["simclr", "kmeans"]["metrics"] == ["ACC", "NMI", "ARI"]
    assert held["pixels", "knn"]["metrics"] == ["ACC"]  # of table 3
    assert [run["seed"] for run in held["simclr", "kmeans"]["runs"]] == [0, 1]
    assert list(held["simclr", "kmeans"]["runs"][0]["expected"])[-1] == "score/kmeans"
    files = made.metrics()
    assert len(files) == len(set(files))
    assert set(files) == {f"{run['folder']}/metrics.json" for row in rows for run in row["runs"]}


def test_the_example_of_the_docs_runs(tmp_path, monkeypatch, capsys):
    """Five lines of pandas on results as they come."""
    text = (ROOT / "docs/tables.md").read_text()
    code = re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]
    assert len(list(filter(None, code.splitlines()))) == 5
    runs = [run(tmp_path / str(seed), seed, acc) for seed, acc in enumerate([0.5, 0.75])]
    runs += [run(tmp_path / "c", 2, 0.5, train={"status": "diverged", "diverged": {"epoch": 3, "term": "push"}})]
    out = tmp_path / "results" / "results.csv"
    out.parent.mkdir()
    out.write_text(to_csv(collected(plan(spec(runs), probe([probed(tmp_path / "p", 0, 0.9)])))[0]))
    monkeypatch.chdir(tmp_path)
    held: dict = {}
    exec(compile(code, "docs/tables.md", "exec"), held)
    said = capsys.readouterr().out
    assert "0.625" in said
    assert "0.9" not in said
    table = held["table"]
    assert table.loc[("d", "full", "r", "kmeans"), "count"] == 2
    read = pd.read_csv(Path("results/results.csv"))
    assert read.value.dtype == float
    assert (read.status == "diverged").sum() == 1
