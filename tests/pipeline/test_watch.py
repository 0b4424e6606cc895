from types import SimpleNamespace

from pipeline.watch import Watch, watch
from tests.pipeline.fake_run import job, run_of


def test_jobs_run_finish_fail_and_are_tried_again(tmp_path):
    run = run_of(tmp_path)
    assert run.see("job_info", {"jobid": 1}, now=3.0) is None
    assert run.running == {1: 3.0}
    assert run.see("job_finished", {"job_id": 1}, now=8.0) is run.jobs[1]
    assert (run.running, run.seconds) == ({}, {1: 5.0})
    run.see("job_info", {"jobid": 2}, now=8.0)
    run.see("job_error", {"jobid": 2}, now=9.0)
    run.see("job_error", {"jobid": 2}, now=9.0)  # a group tells of its jobs twice
    assert (run.running, run.failed) == ({}, [2])
    run.see("job_info", {"jobid": 2}, now=9.0)
    assert (run.running, run.failed) == ({2: 9.0}, [])
    assert run.see("job_finished", {"job_id": 77}, now=9.0) is None


def test_what_its_user_stops_has_not_failed(tmp_path):
    run = run_of(tmp_path)
    run.see("job_info", {"jobid": 1}, now=0.0)
    run.stopped = True
    run.see("job_error", {"jobid": 1}, now=1.0)
    assert (list(run.running), run.failed) == ([1], [])


def test_jobs_are_named_by_what_tells_them_apart():
    run = Watch({1: job("train", "scan", seed="0"), 2: job("train", "scan", seed="3")}, {}, [])
    assert (run.name(2), run.name(2, everything=True)) == ("scan seed3", "scan digits seed3")
    run = Watch({1: job("train", "scan"), 2: job("train", "cdc")}, {}, [])
    assert run.name(1) == "scan"


class Planned:
    """A job as Snakemake holds it."""

    def __init__(self, rule, number, needed=True, needs=(), recipe=None, outputs=()):
        self.rule, self.number, self.needed, self.needs = SimpleNamespace(name=rule), number, needed, needs
        self.wildcards_dict = {"recipe": f"r{number}"} if recipe else {}
        self.params = SimpleNamespace(recipe=recipe)
        self.output, self.log = outputs, [f"{number}.log"] if recipe else []
        self.scheduler_resources = {"_cores": 2, "tmpdir": "/tmp"}


class Dag:
    def __init__(self, *jobs):
        self.jobs = list(jobs)
        self.dependencies = {job: job.needs for job in jobs}
        self.depending = {job: [other for other in jobs if job in other.needs] for job in jobs}

    def jobid(self, job):
        return job.number

    def needrun(self, job):
        return job.needed


def test_what_snakemake_is_about_to_do_is_read_from_its_plan():
    recipe = '{"schedule": {"epochs": 30}}'
    kept = Planned("train", 1, needed=False, recipe=recipe)
    new = Planned("train", 2, needs=[kept], recipe=recipe)
    plan = Planned("write_plan", 3)
    table = Planned("tabulate_table2", 4, needs=[kept, new, plan], outputs=["t.csv", "t.md"])
    dag = Dag(Planned("all", 5, needs=[table]), table, plan, new, kept)
    run = watch(dag, ["all", "write_plan", "train", "tabulate_table2"])
    assert run.stages() == {"train": [2], "tabulate": [4]}
    assert run.kept == {"train": 1}
    assert [(aim.stage, aim.outputs) for aim in run.asked] == [("tabulate", ("t.csv", "t.md"))]
    assert (run.jobs[4].needs, run.jobs[4].epochs, run.jobs[4].log) == (frozenset([2]), None, "")
    train = run.jobs[2]
    assert (train.needs, train.epochs, train.uses, train.log) == (frozenset(), 30, {"_cores": 2}, "2.log")
