"""A run without Snakemake: its jobs, the messages that Snakemake would log, and what a handler asks of a workflow."""

import io
import logging
from types import SimpleNamespace

from pipeline.live import Live
from pipeline.watch import Job, Watch


def job(stage, recipe="", needs=(), epochs=None, log="", outputs=(), seed="0", uses=None, **more):
    wildcards = {"dataset": "digits", "recipe": recipe, "seed": seed, **more} if recipe else {}
    return Job(stage, wildcards, str(log), tuple(map(str, outputs)), frozenset(needs), uses or {"_cores": 1}, epochs)


def run_of(folder, kept=None, asked=None):
    """Two recipes through three stages, and a table of both."""
    table = job("tabulate", needs=[5, 6], log=folder / "table.log", outputs=[folder / f"t.{e}" for e in ("csv", "md")])
    jobs = {
        1: job("train", "simclr", epochs=20, log=folder / "1.log"),
        2: job("train", "mixem", needs=[1], epochs=10, log=folder / "2.log"),
        3: job("embed", "simclr", needs=[1]),
        4: job("embed", "mixem", needs=[2]),
        5: job("evaluate", "simclr", needs=[3]),
        6: job("evaluate", "mixem", needs=[4]),
        7: table,
    }
    return Watch(jobs, kept or {"prepare": 1}, [table] if asked is None else asked)


def message(text, event=None, level=logging.INFO, **facts):
    record = logging.LogRecord("snakemake.logging", level, __file__, 1, text, None, None)
    record.__dict__.update(facts | ({"event": event} if event else {}))
    return record


def starts(number):
    return message(f"Rule: x, Jobid: {number}", "job_info", jobid=number)


def ends(number):
    return message(f"Finished jobid: {number}", "job_finished", job_id=number)


def fails(number, **facts):
    return message(f"Error in rule x, jobid: {number}", "job_error", logging.ERROR, jobid=number, **facts)


def workflow(results, **settings):
    """As much of a Snakemake workflow as is looked at."""
    output = dict.fromkeys(("quiet", "dryrun", "verbose", "printshellcmds", "debug_dag")) | settings
    return SimpleNamespace(
        output_settings=SimpleNamespace(**output),
        is_main_process=True,
        touch=False,
        dag=None,
        rules=[],
        scheduler=SimpleNamespace(global_resources={"_cores": 2}),
        globals={"config": {"results": str(results)}},
        logger_manager=SimpleNamespace(get_logfile=lambda: [str(results / "whole.log")]),
    )


class Screen(io.StringIO):
    """A stream that says whether it is a terminal."""

    def __init__(self, terminal):
        super().__init__()
        self.terminal = terminal

    def isatty(self):
        return self.terminal


def shower(tmp_path, way, stream=None):
    own = logging.StreamHandler(stream or Screen(way == "live"))
    return Live(own, workflow(tmp_path), way)
