"""A failure costs its own cell: missing and damaged results are named with their cause, all others are printed."""

import csv
import json
import re

import pytest

from pipeline.provenance import fingerprint
from report.causes import cause
from report.results import command_to_mend
from report.tables import build
from tests.report.folders import plan, read, row, run


def damaged(folder, change):
    """A finished run, and the same after `change` of the text of its result."""
    entry = run(folder, 1, 0.6)
    path = folder / "metrics/clustering/kmeans.json"
    path.write_text(change(path.read_text()))
    return entry


def changed(text, **results):
    """Another result, recorded as the stage records its own."""
    stored = json.loads(text)
    stored["result"] |= results
    return recorded(stored)


def recorded(stored):
    stored["records"]["score/kmeans"]["result"] = fingerprint(result=stored["result"])
    return json.dumps(stored)


def without(text, *keys):
    """The JSON without the value at `keys`."""
    stored = json.loads(text)
    at = stored
    for key in keys[:-1]:
        at = at[key]
    del at[keys[-1]]
    return json.dumps(stored)


DAMAGES = {
    "cut off": (lambda text: text[: len(text) // 2], "not valid JSON"),
    "empty": (lambda text: "", "not valid JSON"),
    "no text": (lambda text: "\x00\x01", "not valid JSON"),
    "a list": (lambda text: "[]", r"\[\] is not of type 'object'"),
    "no result": (lambda text: without(text, "result"), "'result' is a required property"),
    "no status": (lambda text: without(text, "result", "status"), "key 'result': 'status' is a required property"),
    "no records": (lambda text: without(text, "records"), "'records' is a required property"),
    "no training": (lambda text: without(text, "records", "train"), "key 'records': 'train' is a required"),
    "no time": (
        lambda text: without(text, "records", "train", "training_seconds"),
        "key 'records.train': 'training_seconds' is a required property",
    ),
    "no splits": (
        lambda text: without(text, "records", "assign/kmeans", "settings"),
        "key 'records.assign/kmeans': 'settings' is a required property",
    ),
    "null": (lambda text: changed(text, ACC=None), "ACC is None, a number is expected"),
    "words": (lambda text: changed(text, ACC="0.9"), "ACC is '0.9', a number is expected"),
    "a number missing": (
        lambda text: recorded(json.loads(without(text, "result", "ACC"))),
        "its result has no ACC, which other seeds have",
    ),
    "edited": (lambda text: text.replace('"ACC": 0.6', '"ACC": 0.66'), "its result is not the one that was recorded"),
    "not finite": (lambda text: text.replace('"ACC": 0.6', '"ACC": NaN'), "NaN is no number that a stage writes"),
    "diverged, nobody knows where": (
        lambda text: text.replace('"status": "ok", "training', '"status": "diverged", "training'),
        "key 'records.train': 'diverged' is a required property",
    ),
}


@pytest.mark.parametrize("text", ['{"rec', "[]", '{"record": 1}'])
def test_a_damaged_data_card_costs_the_rows_of_its_data_alone(tmp_path, text):
    runs = [run(tmp_path / "a", 0, 0.5), run(tmp_path / "b", 1, 0.7)]
    card = tmp_path / "data" / "d" / "card.json"
    card.parent.mkdir(parents=True)
    card.write_text(text)
    made = {"output": str(card), "record": str(card), "stage": "prepare", "fingerprint": "p", "log": "prepare.log"}
    runs[1]["sources"].insert(0, made)
    table = build(plan([row("mine", runs)]))
    assert read(table)[0]["Data ACC n"] == "1"
    assert f"{card} cannot be read; delete it and run stage prepare again" in table.problems[0].reason


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_result_costs_its_run_alone(tmp_path, name):
    change, message = DAMAGES[name]
    runs = [run(tmp_path / "a", 0, 0.5), damaged(tmp_path / "b", change), run(tmp_path / "c", 2, 0.7)]
    table = build(plan([row("mine", runs)]))
    line = read(table)[0]
    assert [line["Data ACC"], line["Data ACC n"]] == ["60.0", "2"]
    (problem,) = table.problems
    assert problem.kind == "unreadable"
    assert re.search(message, problem.reason), problem.reason
    assert f"Data seed 1: {problem.reason}" in line["notes"]
    assert "delete it" in problem.reason
    if name != "a number missing":
        assert "metrics/clustering/kmeans.json" in problem.reason
    assert command_to_mend(table.problems, "t.csv").endswith(f"t.csv --forcerun {tmp_path}/b/metrics.json")


@pytest.mark.parametrize("file", ["train.json", "metrics.json"])
def test_files_that_a_table_does_not_need_cost_nothing_when_damaged(tmp_path, file):
    runs = [run(tmp_path / "a", 0, 0.5), run(tmp_path / "b", 1, 0.7)]
    (tmp_path / "b" / file).write_text('{"records')
    table = build(plan([row("mine", runs)]))
    assert read(table)[0]["Data ACC"] == "60.0"
    assert not table.problems


def test_what_must_be_made_anew_goes_back_to_the_first_damaged_record(tmp_path):
    entry = damaged(tmp_path / "b", lambda text: text[:9])
    for text in ("", "[]", '{"records": 3}', '{"records": {"train": []}}'):
        (tmp_path / "b/train.json").write_text(text)
        assert build(plan([row("mine", [entry])])).problems[0].outputs == (f"{tmp_path}/b/model.pt",)


def lost(folder, seed, log=None, stage="train"):
    """A run whose job failed with this text in its log, or was never started."""
    entry = run(folder, seed, 0.5)
    names = ("train.json", "model.pt") if stage == "train" else ()
    for name in (*names, "metrics/clustering/kmeans.json", "metrics.json"):
        (folder / name).unlink()
    if log is not None:
        (folder / f"{stage}.log").write_bytes(log)
    return entry


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (b"epoch 1\nerror: a.npy: no such file\n\n", "error: a.npy: no such file"),
        (b"10 %\r20 %\r\x1b[31m30 %\x1b[0m\r", "30 %"),
        (b"", "its log is empty, as of a job that was killed"),
        (b"x" * 20000 + b"\n\xff" + b"y" * 400, "\ufffd" + "y" * 299 + "..."),
        (None, None),
    ],
)
def test_what_failed_is_told_from_what_never_started(tmp_path, log, said):
    entry = lost(tmp_path / "a", 1, log)
    expected = f"stage train did not finish: {said} ({tmp_path}/a/train.log)" if said else "stage train never started"
    assert cause(entry) == expected
    table = build(plan([row("mine", [entry])]))
    assert f"Data seed 1: not run; {expected}" in read(table)[0]["notes"]


def test_the_cause_is_the_first_stage_that_failed(tmp_path):
    """Training failed in an earlier run and was mended: that log is of a success by now."""
    entry = lost(tmp_path / "a", 1, b"ValueError: k\n", "evaluate")
    (tmp_path / "a/train.log").write_text("done\n")
    said = f"stage score/kmeans did not finish: ValueError: k ({tmp_path}/a/evaluate.log)"
    assert cause(entry) == said
    # Stages after one that failed never start: it is the one to be named.
    other = lost(tmp_path / "b", 1, b"killed\n")
    assert cause(other) == f"stage train did not finish: killed ({tmp_path}/b/train.log)"


def test_a_stale_result_names_the_job_that_should_have_renewed_it(tmp_path):
    entry = run(tmp_path / "a", 1, 0.5, fingerprint="old")
    (tmp_path / "a/train.log").write_text("error: no space\n")
    assert cause(entry) == ""  # what the job made is there: its log is of that
    (tmp_path / "a/model.pt").unlink()
    (problem,) = build(plan([row("mine", [entry])])).problems
    assert problem.kind == "stale"
    assert problem.reason.endswith(f"; stage train did not finish: error: no space ({tmp_path}/a/train.log)")


def tabulate(project, folder, rows, *more):
    (folder / "plan.json").write_text(json.dumps(plan(rows)))
    return project.stage("report.tabulate", "--plan", str(folder / "plan.json"), "--out", str(folder / "t.csv"), *more)


def tables(folder):
    return sorted(path.name for path in folder.glob("t.*"))


def test_what_there_is_of_a_table_is_written_beside_it(tmp_path, project):
    """And makes room for the table when that is complete."""
    good = [run(tmp_path / str(seed), seed, acc) for seed, acc in ((0, 0.5), (1, 0.7))]
    rows = [row("mine", [*good, lost(tmp_path / "2", 2, b"error: loss.py: k\n"), lost(tmp_path / "3", 3)])]
    done = tabulate(project, tmp_path, rows, "--partial", "--strict")
    assert (done.returncode, done.stdout) == (0, "")
    assert tables(tmp_path) == ["t.partial.csv", "t.partial.md"]
    with open(tmp_path / "t.partial.csv", newline="") as file:
        (line,) = csv.DictReader(file)
    assert [line["Data ACC"], line["Data ACC n"]] == ["60.0", "2"]
    failed = f"stage train did not finish: error: loss.py: k ({tmp_path}/2/train.log)"
    assert line["notes"] == f"Data seed 2: not run; {failed}; Data seed 3: not run; stage train never started"
    assert (tmp_path / "t.partial.md").read_text().startswith("# A table (partial: runs are missing, see the notes)\n")
    assert done.stderr.splitlines() == [
        f"missing: {tmp_path}/2: not run; {failed}",
        f"missing: {tmp_path}/3: not run; stage train never started",
        f"{tmp_path}/t.csv was not made: 2 of its runs are missing, named above with the cause; what there is stands "
        f"in {tmp_path}/t.partial.csv and {tmp_path}/t.partial.md",
    ]
    rows = [row("mine", [*good, run(tmp_path / "2", 2, 0.6), run(tmp_path / "3", 3, 0.6)])]
    done = tabulate(project, tmp_path, rows)
    assert (done.returncode, done.stderr) == (0, "")
    assert tables(tmp_path) == ["t.csv", "t.md", "t.tex"]


def test_a_table_that_misses_nothing_gets_no_part(tmp_path, project):
    """It was for another one that the pipeline failed; a run that diverged is no missing run."""
    diverged = run(tmp_path / "1", 1, 0.5, train={"status": "diverged", "diverged": {"epoch": 3, "term": "push"}})
    (tmp_path / "t.partial.csv").touch()
    done = tabulate(project, tmp_path, [row("mine", [run(tmp_path / "0", 0, 0.5), diverged])], "--partial")
    assert (done.returncode, done.stderr, tables(tmp_path)) == (0, "", [])


def test_a_table_without_one_finished_run_is_not_written(tmp_path, project):
    (tmp_path / "t.partial.md").touch()
    rows = [row("mine", [lost(tmp_path / "0", 0, b"error: x\n")])]
    done = tabulate(project, tmp_path, rows, "--partial")
    assert (done.returncode, tables(tmp_path)) == (0, [])
    said = f"{tmp_path}/t.csv was not made: 1 of its runs is missing, named above with the cause"
    assert done.stderr.splitlines()[-1] == said
    (tmp_path / "t.csv").touch()
    told = tabulate(project, tmp_path, rows, "--partial").stderr.splitlines()[-1]
    assert told == f"{said}; {tmp_path}/t.csv itself is of an earlier run"


def test_a_part_that_cannot_be_removed_is_one_line(tmp_path, project):
    (tmp_path / "t.partial.md").mkdir()
    done = tabulate(project, tmp_path, [row("mine", [run(tmp_path / "0", 0, 0.5)])])
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {tmp_path}/t.partial.md: cannot be removed: ")
    assert len(done.stderr.splitlines()) == 1


def test_a_damaged_plan_is_one_line(tmp_path, project):
    (tmp_path / "plan.json").write_text('{"title"')
    words = ["--plan", str(tmp_path / "plan.json"), "--out", str(tmp_path / "t.csv")]
    done = project.stage("report.tabulate", *words)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {tmp_path}/plan.json: not valid JSON")
    assert len(done.stderr.splitlines()) == 1
