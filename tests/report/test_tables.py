import json
import subprocess
import sys
from pathlib import Path

import pytest

from report.latex import to_tex
from report.layouts import to_csv, to_markdown
from report.results import Problem, command_to_mend
from report.tables import build
from tests.conftest import ROOT
from tests.report.folders import ACC, plan, probed, read, reported, row, run, store


def test_mean_sample_std_and_n(tmp_path):
    runs = [run(tmp_path / str(s), s, acc) for s, acc in enumerate([0.5, 0.6, 0.8])]
    found = read(build(plan([row("mine", runs)])))[0]
    assert [found["Data ACC"], found["Data ACC std"], found["Data ACC n"]] == ["63.3", "15.3", "3"]
    assert [found["protocol"], found["fitted on"]] == ["train+test / test", "test"]


def test_a_table_may_show_the_time_of_training(tmp_path):
    metrics = {"training_seconds": {"title": "training, s", "scale": 1, "digits": 1, "better": "neither"}}
    found = read(build(plan([row("mine", [run(tmp_path / "a", 0, 0.5)])], metrics=metrics)))[0]
    assert found["Data training_seconds"] == "7.5"


def test_one_run_has_no_std(tmp_path):
    found = read(build(plan([row("mine", [run(tmp_path / "a", 0, 0.5)])])))[0]
    assert [found["Data ACC"], found["Data ACC std"], found["Data ACC n"]] == ["50.0", "", "1"]


def test_protocols_never_share_a_row(tmp_path):
    runs = [run(tmp_path / "a", 0, 0.5), run(tmp_path / "b", 0, 0.7, protocol="split")]
    found = read(build(plan([row("mine", runs)])))
    assert [(r["protocol"], r["Data ACC"]) for r in found] == [("train+test / test", "50.0"), ("train / test", "70.0")]


def test_stale_rows_are_named_not_printed(tmp_path):
    good, stale = run(tmp_path / "a", 0, 0.5), run(tmp_path / "b", 1, 0.9, fingerprint="old")
    other_code = run(tmp_path / "c", 2, 0.9, fingerprint="old", train={"code": "old"})
    table = build(plan([row("mine", [good, stale, other_code])]))
    found = read(table)[0]
    assert [found["Data ACC"], found["Data ACC n"]] == ["50.0", "1"]
    first, second = table.problems
    words = "stale, stage train ran with other settings, seed or inputs"
    assert first == Problem(str(tmp_path / "b"), "stale", words, "train", (f"{tmp_path}/b/model.pt",))
    assert str(second) == f"{tmp_path}/c: stale, stage train ran with other code"
    assert "Data seed 1: stale" in found["notes"]


def test_one_command_mends_all_that_is_stale_or_missing(tmp_path, monkeypatch):
    retrain = run(tmp_path / "a", 0, 0.5, fingerprint="old")
    rescore = run(tmp_path / "b b", 1, 0.5) | {"expected": {"score/kmeans": ["new", "c"]}}
    rescore["sources"][-1]["fingerprint"] = "new"
    diverged = run(tmp_path / "c", 2, 0.5, train={"status": "diverged", "diverged": {"epoch": 3, "term": "push"}})
    missing = run(tmp_path / "d", 3, 0.5)
    (tmp_path / "d/metrics/clustering/kmeans.json").unlink()
    problems = build(plan([row("mine", [retrain, rescore, diverged, missing])])).problems
    assert [problem.kind for problem in problems] == ["stale", "stale", "diverged", "not run"]
    files = f"{tmp_path}/a/model.pt '{tmp_path}/b b/metrics.json' {tmp_path}/d/metrics.json"
    monkeypatch.delenv("BENCH_COMMAND", raising=False)
    assert command_to_mend(problems, "t.csv") == f"snakemake --cores all t.csv --forcerun {files}"
    monkeypatch.setenv("BENCH_COMMAND", "./run snakemake --cores 2")
    assert command_to_mend(problems, "t.csv") == f"./run snakemake --cores 2 t.csv --forcerun {files}"
    assert command_to_mend(problems[2:3], "t.csv") == ""  # a diverged run diverges again


def test_what_could_not_be_done_is_said(tmp_path):
    impossible = run(tmp_path / "a", 0, 0.5, status="not_possible", reason="too few rows")
    failed = run(tmp_path / "b", 1, 0.5, status="failed", reason="KeyError: 'x'")
    table = build(plan([row("mine", [impossible, failed])]))
    notes = read(table)[0]["notes"]
    assert "Data seed 0: not possible: too few rows; Data seed 1: failed: KeyError: 'x'" in notes
    assert [problem.outputs for problem in table.problems] == [(), (f"{tmp_path}/b/metrics.json",)]


def test_a_selection_on_test_labels_is_marked(tmp_path):
    rows = [
        {"label": name, "recipe": "r", "probe": "probe", "runs": [probed(tmp_path / name, 0, 0.9, selected_on_test=on)]}
        for name, on in (("a", True), ("b", False))
    ]
    found = read(build(plan(rows)))
    assert [line["notes"] for line in found] == ["selected on test labels", ""]
    assert [line["fitted on"] for line in found] == ["train", "train"]


def test_diverged_missing_and_degenerate_are_said(tmp_path):
    diverged = run(tmp_path / "a", 0, 0.5, train={"status": "diverged", "diverged": {"epoch": 3, "term": "push"}})
    missing = {**run(tmp_path / "b", 1, 0.5), "folder": str(tmp_path / "nowhere")}
    collapsed = run(tmp_path / "c", 2, 0.1)
    found = read(build(plan([row("mine", [diverged, missing, collapsed])])))[0]
    assert "Data seed 0: diverged in epoch 3, term push" in found["notes"]
    assert "Data seed 1: not run" in found["notes"]
    assert "Data seed 2: degenerate, 3 clusters occupied" in found["notes"]
    assert found["Data ACC n"] == "1"


def test_one_class_only_is_said(tmp_path):
    """An accuracy of 100 of clusters that had nothing to tell apart."""
    of_one = run(tmp_path / "a", 0, 1.0, degenerate=True, classes_present=1, occupied_clusters=1)
    assert "Data seed 0: degenerate, one class only" in read(build(plan([row("mine", [of_one])])))[0]["notes"]


def test_rows_without_labels_have_empty_cells_and_a_note(tmp_path):
    """Neither zero nor an error, and beside labelled data the others keep their numbers."""
    metrics = {"ACC": ACC, "largest_share": ACC | {"title": "largest share"}}
    entries = [run(tmp_path / str(seed), seed, 0.5, largest_share=0.25) for seed in (0, 1)]
    for entry, (collapsed, entropy) in zip(entries, ((False, 1.5), (True, 0.693)), strict=True):
        path = Path(entry["folder"], "metrics/clustering/kmeans.json")
        stored = json.loads(path.read_text())
        result = {"status": "ok", "classes_present": 0, "occupied_clusters": 9, "largest_share": 0.25, "n": 60}
        result |= {"degenerate": collapsed, "size_entropy": entropy}
        store(path.parents[2], "clustering/kmeans", result, stored["records"])
    other = run(tmp_path / "other", 0, 0.7) | {"dataset": "e"}
    found = read(build(plan([row("mine", [*entries, other])], metrics=metrics, datasets={"d": "Data", "e": "Else"})))[0]
    assert [found["Data largest_share"], found["Data largest_share n"]] == ["25.0", "2"]
    assert "Data ACC" not in found
    assert [found["Else ACC"], found["Else ACC n"]] == ["70.0", "1"]
    assert found["notes"] == (
        "Data seeds 0, 1: no labels; Data seed 1: degenerate, sizes as uneven as of 2.0 equal clusters"
    )


def test_what_became_of_the_training_is_marked(tmp_path):
    """A collapse at chance and a training with nothing to learn from are printed, but not without a word."""
    runs = [
        run(tmp_path / "0", 0, 0.35, train={"at_chance": True}),
        run(tmp_path / "1", 1, 0.5, train={"status": "untaught", "untaught": {"epoch": 1, "steps": 3}}),
        run(tmp_path / "2", 2, 0.6),
    ]
    line = read(build(plan([row("mine", runs)])))[0]
    assert line["Data ACC n"] == "3"
    assert "Data seed 0: training collapsed: its loss sits at chance" in line["notes"]
    assert "Data seed 1: nothing to learn from in epoch 1: training ended there" in line["notes"]
    assert "seed 2" not in line["notes"]


def test_a_mean_over_precisions_says_so(tmp_path):
    runs = [run(tmp_path / str(n), n, 0.5, train={"precision": "bf16-mixed" if n else "32-true"}) for n in range(3)]
    mixed, alike = (read(build(plan([row("mine", some)])))[0]["notes"] for some in (runs, runs[1:]))
    assert mixed == "Data: a mean over precisions, 1 in 32-true, 2 in bf16-mixed"
    assert "precisions" not in alike


def test_reported_values_stand_beside_and_missing_stays_empty(tmp_path):
    values = [
        reported("A", "79.7"),
        reported("B", ""),
        reported("C", "0.561", unit="fraction", std="", note="as printed"),
    ]
    rows = [
        row("mine", [run(tmp_path / "a", 0, 0.5)], reported="A"),
        row("b", [], reported="B"),
        row("c", [], reported="C"),
    ]
    table = build(plan(rows, reported=values, paper_columns=True))
    found = read(table)
    assert [r["CIFAR10 ACC paper"] for r in found] == ["79.7", "", "56.1"]
    assert [r["CIFAR10 ACC paper std"] for r in found] == ["0.2", "", ""]
    assert [r["CIFAR10 ACC"] for r in found] == ["", "", ""]
    assert found[2]["notes"] == "as printed"
    assert "[79.7 ± 0.2]" in to_markdown(table)


def test_best_and_second_are_marked_controls_are_not(tmp_path):
    rows = [
        row("ceiling", [run(tmp_path / "a", 0, 0.99)], control=True),
        row("low", [run(tmp_path / "b", 0, 0.3)]),
        row("best", [run(tmp_path / "c", 0, 0.9)]),
        row("second", [run(tmp_path / "d", 0, 0.8)]),
    ]
    table = build(plan(rows))
    text = to_markdown(table)
    assert "**90.0** (1)" in text
    assert "<u>80.0</u> (1)" in text
    assert "| 99.0 (1)" in text
    tex = to_tex(table)
    assert "\\textbf{90.0} (1)" in tex
    assert "\\underline{80.0} (1)" in tex
    assert tex.partition("\\bottomrule")[0].count("\\\\\n") == 6  # two lines of heads


def test_clusterings_probes_and_protocols_are_ranked_apart(tmp_path):
    both = [run(tmp_path / "c", 0, 0.5), run(tmp_path / "d", 0, 0.7, protocol="split")]
    rows = [
        row("clusters", [run(tmp_path / "b", 0, 0.9)]),
        {"label": "probe", "recipe": "r", "probe": "probe", "runs": [probed(tmp_path / "a", 0, 0.99)]},
        row("two protocols", both),
    ]
    ranks = [next(iter(r.cells.values())).rank for r in build(plan(rows)).rows]
    assert ranks == [1, 1, 2, 1]


def test_tables_need_no_torch():
    code = "import sys, report.tabulate; sys.exit(any(m in sys.modules for m in ('torch', 'mlflow', 'sklearn')))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_data_sets_of_one_title_never_share_a_cell(tmp_path):
    """Titles are printed, no more: the mean of two data sets is nobody's accuracy."""
    runs = [run(tmp_path / name, 0, acc) | {"dataset": name} for name, acc in (("a", 0.75), ("b", 0.25))]
    table = build(plan([row("mine", runs)], datasets={"a": "Data", "b": "Data"}))
    assert {key: cell.values for key, cell in table.rows[0].cells.items()} == {
        ("a", "ACC"): [75.0],
        ("b", "ACC"): [25.0],
    }
    assert [line.split(",")[5:11] for line in to_csv(table).splitlines()] == [
        ["Data ACC", "Data ACC std", "Data ACC n"] * 2,
        ["75.0", "", "1", "25.0", "", "1"],
    ]


def test_a_data_set_of_the_paper_alone_is_no_data_set_of_ours(tmp_path):
    """A paper may call its data set what we call another of ours in config."""
    values = [reported("A", "79.7", dataset="d")]
    found = read(
        build(plan([row("mine", [run(tmp_path / "a", 0, 0.5)], reported="A")], reported=values, paper_columns=True))
    )[0]
    assert [found["Data ACC"], found["d ACC"], found["d ACC paper"]] == ["50.0", "", "79.7"]
    assert "Data ACC paper" not in found


def test_protocols_of_one_title_are_ranked_apart(tmp_path):
    both = [run(tmp_path / "a", 0, 0.9), run(tmp_path / "b", 0, 0.7, protocol="split")]
    table = build(plan([row("mine", both)], protocols={"full": "same", "split": "same"}))
    assert [next(iter(r.cells.values())).rank for r in table.rows] == [1, 1]


def test_a_bar_in_a_note_breaks_no_markdown_table(tmp_path):
    failed = run(tmp_path / "b", 1, 0.5, status="failed", reason="a|b")
    line = next(line for line in to_markdown(build(plan([row("x|y", [failed])]))).splitlines() if "seed 1" in line)
    assert "| x\\|y |" in line
    assert "failed: a\\|b |" in line


@pytest.mark.parametrize("strict", [False, True])
def test_strict_makes_problems_an_error(tmp_path, project, strict):
    stale = run(tmp_path / "run", 0, 0.5, fingerprint="old")
    (tmp_path / "plan.json").write_text(json.dumps(plan([row("mine", [stale])])))
    words = ["--plan", str(tmp_path / "plan.json"), "--out", str(tmp_path / "t.csv"), *(["--strict"] if strict else [])]
    done = project.stage("report.tabulate", *words)
    assert done.returncode == int(strict)
    assert "stale, stage train" in done.stderr
    assert (tmp_path / "t.csv").exists() != strict


def test_rows_of_seen_splits_and_of_some_metrics(tmp_path):
    made = run(tmp_path / "a", 0, 0.5, seen={"ACC": 0.9})
    reported = [
        {"table": "x", "method": "m", "dataset": "Data/train", "setting": "", "metric": "ACC", "mean": "0.95",
         "std": "", "unit": "fraction", "source": "p", "note": ""}
    ]  # fmt: skip
    rows = [
        row("held out", [made]),
        row("seen", [made], seen=True, reported="m", reported_dataset={"Data": "Data/train"}),
        row("no metric", [made], metrics=[]),
    ]
    table = build(plan(rows, reported=reported, paper_columns=True))
    assert table.datasets == {"d": "Data"}  # the paper's own name of a part makes no column of its own
    found = read(table)
    assert [line["Data ACC"] for line in found] == ["50.0", "90.0", ""]
    assert found[1]["Data ACC paper"] == "95.0"
