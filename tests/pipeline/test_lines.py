from pipeline.lines import fitting, opening, plain
from pipeline.log_files import Epoch
from pipeline.watch import Watch
from tests.pipeline.fake_run import job, run_of, starts

TOLD = {1: Epoch(5, 20, "-1.25", left=12.0, each=0.8)}


def at_work(folder):
    run = run_of(folder)
    run.see("job_info", starts(1).__dict__, now=0.0)
    return run


def test_the_opening_says_what_will_be_done(tmp_path):
    said = "jobs to run: 7 (train 2, embed 2, evaluate 2, tabulate 1)"
    assert opening(run_of(tmp_path)) == f"{said}; up to date: 1"
    run = run_of(tmp_path)
    run.kept.clear()
    assert opening(run) == said


def test_a_line_counts_stages_and_tells_of_trainings(tmp_path):
    run = at_work(tmp_path)
    line = fitting(run, TOLD, 75.0, width=150)
    stages = "train 0/2 embed 0/2 evaluate 0/2 tabulate 0/1"
    assert line == f"0 of 7 jobs | {stages} | simclr epoch 5/20 loss -1.25 | about 75 s left"
    run.see("job_finished", {"job_id": 1}, now=9.0)
    run.see("job_error", {"jobid": 3}, now=9.0)
    line = fitting(run, {}, None, width=150)
    assert line == "1 of 7 jobs, 1 failed | train 1/2 embed 0/2 evaluate 0/2 tabulate 0/1"


def test_the_line_never_breaks_and_keeps_what_matters_most(tmp_path):
    run = at_work(tmp_path)
    lines = [fitting(run, TOLD, 75.0, width) for width in range(200)]
    assert all(len(line) <= width for width, line in enumerate(lines))
    assert [len(line) for line in lines] == sorted(len(line) for line in lines)
    assert (
        lines[70] == "0 of 7 jobs | train 0/2 | simclr epoch 5/20 loss -1.25 | about 75 s left"[:70]
        or "about" in lines[70]
    )
    assert lines[30] == "0 of 7 jobs | about 75 s left"
    assert lines[5] == "0 of "


def test_of_many_trainings_those_that_fit_are_shown(tmp_path):
    jobs = {n: job("train", "simclr", epochs=9, seed=str(n)) for n in range(6)}
    run = Watch(jobs, {}, [])
    for number in jobs:
        run.see("job_info", {"jobid": number}, now=0.0)
    line = fitting(run, {4: Epoch(3, 9, "0.5", 6.0, 1.0)}, None, width=75)
    assert line == "0 of 6 jobs | train 0/6 | simclr seed4 epoch 3/9 loss 0.5 | simclr seed0 +4"
    assert line.count("seed") < plain(run, {}, None, now=0.0).count("seed") == 6


def test_a_plain_line_has_the_time_of_day(tmp_path):
    line = plain(at_work(tmp_path), TOLD, 75.0, now=0.0)
    assert (line[0], line[9:12]) == ("[", "] 0")
    assert line.endswith("simclr epoch 5/20 loss -1.25 | about 75 s left")
