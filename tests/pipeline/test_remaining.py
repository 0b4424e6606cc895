import json

import pytest

from pipeline.log_files import Epoch
from pipeline.remaining import START, Samples, duration, expected, forecast, makespan, pace, recorded
from tests.pipeline.fake_run import job, run_of


def test_the_narrowest_kind_is_asked_first_and_this_run_before_others():
    here, records = Samples(), Samples()
    records.add("embed", {"dataset": "digits", "protocol": "full", "recipe": "simclr"}, 8)
    records.add("embed", {"dataset": "digits", "protocol": "full", "recipe": "mixem"}, 4)
    assert expected(job("embed", "simclr", protocol="full"), [here, records]) == 8
    assert expected(job("embed", "scan", protocol="full"), [here, records]) == 6  # any of the data set
    here.add("embed", {"dataset": "digits", "protocol": "full", "recipe": "simclr"}, 3)
    assert expected(job("embed", "simclr", protocol="full"), [here, records]) == 3
    assert expected(job("mine", "scan"), [here, records]) == START


def test_a_training_is_measured_by_its_epochs():
    records = Samples()
    records.add("train", {"dataset": "digits", "recipe": "simclr"}, START + 20, epochs=10)
    assert expected(job("train", "simclr", epochs=50), [records]) == START + 100
    assert expected(job("train", "untrained", epochs=0), [Samples()]) == START
    assert expected(job("train", "simclr", epochs=50), [Samples()]) is None
    assert expected(job("train", "x", epochs=3), [Samples(records, 2.0)]) == START + 12


def test_jobs_take_turns_for_what_they_need_and_what_they_use():
    jobs = {n: job("train", f"r{n}", uses={"_cores": 1, "gpu": 1, "mem_mb": 7}) for n in (1, 2, 3)}
    seconds = dict.fromkeys(jobs, 10.0)
    assert makespan(jobs, {}, seconds, {"_cores": 3}) == 10
    assert makespan(jobs, {}, seconds, {"_cores": 3, "gpu": 1}) == 30
    assert makespan(jobs, {1: 4.0}, seconds, {"_cores": 2}) == 14
    chain = {1: job("train", "a"), 2: job("embed", "a", needs=[1]), 3: job("assign", "a", needs=[2, 99])}
    assert makespan(chain, {}, {1: 5.0, 2: 2.0, 3: 1.0}, {"_cores": 8}) == 8
    huge = {1: job("train", "a", uses={"_cores": 64})}
    assert makespan(huge, {}, {1: 5.0}, {"_cores": 2}) == 5  # alone it runs


def test_the_forecast_counts_neither_what_is_done_nor_what_never_comes(tmp_path):
    run, records = run_of(tmp_path), Samples()
    records.add("train", {"dataset": "digits", "recipe": "simclr"}, START + 20, epochs=10)
    for stage in ("embed", "evaluate"):
        records.add(stage, {"dataset": "digits"}, 10)
    capacity = {"_cores": 2}
    # simclr 44 s, then mixem 24 s, embed and evaluate 10 s each, and the table
    assert forecast(run, {}, Samples(), records, capacity, now=0) == pytest.approx(44 + 24 + 20 + START)
    run.failed.append(2)
    assert forecast(run, {}, Samples(), records, capacity, now=0) == pytest.approx(44 + 20)
    run.see("job_info", {"jobid": 1}, now=0.0)
    assert forecast(run, {}, Samples(), records, capacity, now=14.0) == pytest.approx(30 + 20)
    told = {1: Epoch(5, 20, "1.0", left=12.0, each=0.8)}
    assert forecast(run, told, Samples(), records, capacity, now=14.0) == pytest.approx(12 + 20)


def test_a_running_training_tells_of_those_to_come(tmp_path):
    run = run_of(tmp_path)
    run.see("job_info", {"jobid": 1}, now=0.0)
    assert forecast(run, {}, Samples(), Samples(), {"_cores": 2}, now=1.0) is None
    told = {1: Epoch(10, 20, "1.0", left=10.0, each=1.0)}
    # 10 s more of simclr, then mixem with 10 epochs of the same kind, embed, evaluate, table
    left = forecast(run, told, Samples(), Samples(), {"_cores": 2}, now=1.0)
    assert left == pytest.approx(10 + (START + 10) + 3 * START)


def test_a_slower_machine_stretches_what_earlier_runs_took(tmp_path):
    run, records = run_of(tmp_path), Samples()
    records.add("train", {"dataset": "digits", "recipe": "simclr"}, START + 16, epochs=20)
    assert pace(run, records, now=0.0) == 1
    run.see("job_info", {"jobid": 1}, now=0.0)
    assert pace(run, records, now=10.0) == 1  # it may still end in time
    assert pace(run, records, now=60.0) == 3
    run.see("job_finished", {"job_id": 1}, now=10.0)
    assert pace(run, records, now=60.0) == 0.5


def test_records_of_earlier_runs_are_read(tmp_path):
    folder = tmp_path / "runs" / "digits" / "full" / "simclr" / "seed0"
    for name, record in {
        "train.json": {"train": {"seconds": 2.0, "training_seconds": 30.0, "epochs": 10}},  # resumed at its end
        "features.json": {"train": {"seconds": 99.0}, "embed": {"seconds": 1.0}},
        "clusters/kmeans.json": {"assign": {"seconds": 5.0}},
        "metrics/kmeans.json": {"evaluate": {"seconds": 1.0}},
        "metrics/probes/linear.json": {"evaluate": {"seconds": 3.0}},
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps({"records": record}))
    (folder / "clusters/broken.json").write_text('{"records": {"assign"')
    found = recorded(tmp_path)
    like = {"recipe": "simclr", "protocol": "full"}
    assert expected(job("train", epochs=20, **like), [found]) == START + 60
    assert expected(job("embed", **like), [found]) == START + 1
    assert expected(job("assign", assigner="kmeans", **like), [found]) == START + 5
    assert expected(job("evaluate", **like), [found]) == START + 4  # one process for both
    assert recorded(tmp_path / "nothing").mean(("embed",)) is None


def test_a_time_is_as_exact_as_needed():
    assert [duration(s) for s in (0.4, 89, 100, 3600, 7380)] == ["0 s", "89 s", "2 min", "60 min", "2 h 3 min"]
