import dataclasses

import pytest

from pipeline.summary import LISTED, ROWS, End, screen, table
from pipeline.watch import Watch
from tests.pipeline.fake_run import job, run_of

HEADER = "method,protocol," + ",".join(f"{c},{c} std,{c} n,{c} paper" for c in ("digits ACC", "CIFAR10 ACC"))


def end(**changes):
    return dataclasses.replace(End(120.0, "whole.log", "snakemake t.csv", forced=False, browse="mlflow ui"), **changes)


@pytest.fixture
def run(tmp_path):
    rows = ["SCAN,full,91.50,0.20,3,88,,,,", "DEC,full,,,,71,,,,60", "CDC,full,80,,1,,,,,"]
    (tmp_path / "t.csv").write_text("\n".join([HEADER, *rows]))
    return run_of(tmp_path)


def finish(run, *numbers, seconds=4.0):
    for number in numbers:
        run.see("job_info", {"jobid": number}, now=0.0)
        run.see("job_finished", {"job_id": number}, now=seconds)


def test_the_screen_of_a_run_that_ended_well(run, tmp_path):
    finish(run, *run.jobs)
    assert screen(run, end(), width=80) == [
        "",
        f"{tmp_path}/t.csv .md",
        "",
        "method  digits ACC",
        "SCAN    91.50 ± 0.20 (3)",
        "CDC     80 (1)",
        "",
        "ran      train 2, embed 2, evaluate 2, tabulate 1: 7 of 7 jobs, in 2 min",
        "kept     prepare 1",
        "seconds  train 8, embed 8, evaluate 8, tabulate 4",
        "next     mlflow ui  (shows runs and curves, under Model training)",
        "log      whole.log",
    ]


def test_the_screen_of_a_run_that_failed(run, tmp_path):
    finish(run, 1, 3)
    (tmp_path / "2.log").write_text("starting\nerror: the loss is nan\n")
    (tmp_path / "t.partial.csv").write_text("")
    run.see("job_error", {"jobid": 2}, now=5.0)
    assert screen(run, end(), width=80) == [
        "",
        f"{tmp_path}/t.csv was not made; the one that is there is of an earlier run; what there is of it: "
        f"{tmp_path}/t.partial.csv",
        "ran      train 1, embed 1: 2 of 7 jobs, in 2 min",
        "failed   train 1",
        "not run  embed 1, evaluate 2, tabulate 1",
        "kept     prepare 1",
        "seconds  train 4, embed 4",
        "",
        f"train mixem digits seed0 failed ({tmp_path}/2.log):",
        "  error: the loss is nan",
        "",
        "next     snakemake t.csv  (goes on from here, once the cause is mended)",
        "log      whole.log",
    ]


def test_the_screen_of_a_run_that_was_stopped(run):
    run.see("job_info", {"jobid": 1}, now=0.0)
    said = screen(run, end(), width=80)
    assert "stopped  train 1" in said
    assert "not run  train 1, embed 2, evaluate 2, tabulate 1" in said
    assert "next     snakemake t.csv  (goes on from here)" in said
    forced = screen(run, end(forced=True), width=80)
    assert "next     snakemake t.csv  (without what forces jobs, it goes on from here)" in forced


def test_the_screen_where_nothing_was_to_be_done(run):
    asked = run.asked
    said = screen(Watch({}, {"train": 2}, asked), end(browse=""), width=80)
    assert said[-2:] == ["nothing to do: all of this is up to date", "kept     train 2"]
    assert "SCAN    91.50 ± 0.20 (3)" in said


def test_jobs_without_a_log_and_many_failures_are_told_of(tmp_path):
    run = Watch({n: job("embed", f"r{n}") for n in range(LISTED + 3)}, {}, [])
    for number in run.jobs:
        run.see("job_error", {"jobid": number}, now=1.0)
    said = screen(run, end(), width=80)
    assert "embed r0 digits seed0 failed (no log):" in said
    assert "and 3 more jobs failed" in said
    assert sum("failed (" in line for line in said) == LISTED


def test_many_files_are_counted_and_the_mirror_is_none(tmp_path):
    aims = [job("plot", outputs=[tmp_path / f"{n}.png"]) for n in range(LISTED + 2)]
    said = screen(Watch({}, {}, [*aims, job("track", outputs=["mlflow.json"])]), end(), width=80)
    assert f"{tmp_path}/0.png" in said
    assert "and 2 more" in said
    assert "mlflow.json" not in "".join(said)


def test_a_table_is_cut_to_the_width_and_says_so(run, tmp_path):
    rows = [f"r{n},full,{n},,1,,7,,1," for n in range(ROWS + 5)]
    (tmp_path / "t.csv").write_text("\n".join([HEADER, *rows]))
    wide, narrow = (table(tmp_path / "t.csv", width) for width in (80, 20))
    assert wide[0].split("  ") == ["method", "digits ACC", "CIFAR10 ACC"]
    assert wide[-1] == f"(not shown: 5 of {ROWS + 5} rows)"
    assert narrow[-1] == f"(not shown: 5 of {ROWS + 5} rows, 1 of 3 columns)"
    assert all(len(line) <= 20 for line in narrow[:-1])
    assert len(table(tmp_path / "t.csv", 1)[0]) == len("method")


def test_rows_of_two_protocols_are_told_apart(tmp_path):
    (tmp_path / "t.csv").write_text(f"{HEADER}\nSCAN,full,9,,1,,,,,\nSCAN,split,8,,1,,,,,\n")
    assert table(tmp_path / "t.csv", 80)[1].split() == ["SCAN", "full", "9", "(1)"]


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "method,x\nSCAN,2\n", None])
def test_what_is_no_such_table_is_not_shown(tmp_path, text):
    if text is not None:
        (tmp_path / "t.csv").write_text(text)
    assert table(tmp_path / "t.csv", 80) == []
