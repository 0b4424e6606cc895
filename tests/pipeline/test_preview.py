"""Dry runs in few lines: what Snakemake said, and the settings that differ from those of the results at hand."""

import json
import sys
from types import SimpleNamespace

import pytest

from pipeline import catalogue, preview
from pipeline.plan import Plan
from pipeline.record import write_json
from pipeline.runs import Run

SAID = """
Building DAG of jobs...
[Thu Dec  3 06:03:12 2026]
rule train:
    input: a
    output: model.pt
    jobid: 3
    reason: Missing output files: model.pt
    wildcards: recipe=mixem
[Thu Dec  3 06:03:12 2026]
rule train:
    output: other.pt
    reason: Updated input files: a; Params have changed since last execution: before: 1 now: 2
group job 1 (jobs in lexicogr. order):
    rule embed:
        reason: Input files updated by another job: model.pt
localrule write_plan:
    reason: Missing output files: plan.json
localrule tabulate_table2:
    reason: Something new
Job stats:
job      count
Reasons:
    output files have to be generated:
        train
"""


def test_stages_and_reasons_are_read_from_a_dry_run():
    jobs = preview.planned(SAID)
    assert jobs == [
        ("train", "not made yet"),
        ("train", "its settings or code changed"),
        ("embed", "follows from the stages before it"),
        ("tabulate", "see snakemake --dry-run"),
    ]
    assert preview.counted(jobs) == [
        "4 jobs would run:",
        "  train         2  1 not made yet, 1 its settings or code changed",
        "  embed         1  follows from the stages before it",
        "  tabulate      1  see snakemake --dry-run",
    ]
    assert preview.planned("Building DAG of jobs...\nNothing to be done.\n") == []


@pytest.fixture
def made(tmp_path):
    """A plan of SimCLR and its base, with the records of results that it made; `write` changes some."""
    default = catalogue.read_yaml(catalogue.CONFIG / "config.yaml")
    suite = catalogue.read_yaml(catalogue.CONFIG / "suites/smoke.yaml")
    plan = Plan(default | suite | {"results": str(tmp_path)})
    runs = plan.runs.with_bases([Run("digits_200", "full", "simclr", 0)])

    def write(change=lambda name, record: record):
        for run in runs:
            for name, _, file, stage in preview._stages(plan, run):
                record = change(name, json.loads(json.dumps({"settings": stage.settings, "code": stage.code})))
                write_json(tmp_path / file, {"record": record} if name == "prepare" else {"records": {name: record}})

    return plan, runs, write


def test_results_of_these_settings_differ_in_nothing_and_none_is_no_difference(made):
    plan, runs, write = made
    assert preview.differences(plan, runs) == {}
    write()
    assert preview.differences(plan, runs) == {}


@pytest.mark.parametrize(
    ("stage", "change", "expected"),
    [
        ("prepare", lambda of: of["settings"].update(classes=9), "prepare digits_200: classes 9 -> 10"),
        ("train", lambda of: of["settings"]["recipe"].update(batch_size=7), "train {both}: recipe.batch_size 7 -> "),
        ("train", lambda of: of["settings"]["recipe"].pop("batch_size"), "train {both}: recipe.batch_size none -> "),
        ("train", lambda of: of["settings"].update(old=[1]), "train {both}: old [1] -> none"),
        ("embed", lambda of: of.update(code="x"), "embed {both}: code changed"),
        ("assign/kmeans", lambda of: of["settings"]["assigner"].update(a=1), "assign kmeans: assigner.a 1 -> none"),
        ("score/kmeans", lambda of: of.update(code="x"), "score kmeans: code changed"),
        ("probe/linear_mixem", lambda of: of["settings"].update(a=1), "probe linear_mixem: a 1 -> none"),
    ],
)  # fmt: skip
def test_what_differs_is_named_with_before_and_now(made, stage, change, expected):
    plan, runs, write = made

    def changed(name, record):
        if name == stage:
            change(record)
        return record

    write(changed)
    lines = preview.told(preview.differences(plan, runs))
    assert lines[0] == "unlike the results that are there:"
    assert len(lines) == 2
    assert lines[1].startswith("  " + expected.format(both="simclr_base, simclr"))


def test_damaged_records_are_no_difference(made, tmp_path):
    plan, runs, write = made
    write()
    (tmp_path / runs[0].path / "train.json").write_text("{")
    (tmp_path / runs[1].path / "train.json").write_text('{"records": []}')
    assert preview.differences(plan, runs) == {}


def test_settings_stand_before_code_and_long_lists_are_cut():
    found = {("train", "code", "changed"): list("abcdef")}
    found |= {("train", f"key{number}", "1 -> 2"): ["a"] for number in range(25)}
    lines = preview.told(found)
    assert lines[1] == "  train a: key0 1 -> 2"
    assert lines[-1] == "  and 6 more"
    assert (
        preview.told({("train", "code", "changed"): list("abcdef")})[1] == "  train a, b, c, d and 2 more: code changed"
    )


@pytest.mark.parametrize(
    ("said", "found", "expected"),
    [
        ("Nothing to be done.", {}, [preview.NOTHING]),
        ("Nothing to be done.", {("train", "code", "changed"): ["a"]},
         ["no job would run, and what is asked for is stale:", "unlike the results that are there:",
          "  train a: code changed"]),
        ("rule train:\n    reason: Forced execution\n", {},
         ["1 jobs would run:", "  train         1  asked for with --force"]),
    ],
)  # fmt: skip
def test_what_is_printed(monkeypatch, capsys, said, found, expected):
    def run(words, **_):
        assert words == [sys.executable, "-m", "snakemake", "table.csv", "--dry-run"]
        return SimpleNamespace(returncode=0, stdout=said, stderr="")

    monkeypatch.setattr(preview.subprocess, "run", run)
    monkeypatch.setattr(preview, "differences", lambda plan, runs: found)
    assert preview.main(["table.csv"], None, []) == 0
    assert capsys.readouterr().out.splitlines() == expected


def test_a_failed_dry_run_says_what_snakemake_said(monkeypatch, capsys):
    monkeypatch.setattr(
        preview.subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=4, stdout="", stderr="Bad.\n")
    )
    assert preview.main([], None, []) == 4
    assert capsys.readouterr() == ("", "Bad.\n")
