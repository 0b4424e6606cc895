"""What is shown of a run, from a stream of messages as Snakemake logs them."""

import logging
import os
import re
import time
from types import SimpleNamespace

import pytest

from pipeline import live
from pipeline.live import CLEAR, attach
from tests.pipeline.fake_run import Screen, ends, fails, message, run_of, shower, starts, workflow

STARTED = message("Job stats:", "run_info")


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    """No wish of the user's, no waiting, and a plan that was read already."""
    for name in ("BENCH_LOG", "BENCH_RUN", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(live, "TICK", 0.01)
    monkeypatch.setattr(live, "EVERY", 0.0)
    monkeypatch.setattr(live, "watch", lambda dag, rules: run_of(tmp_path))


@pytest.fixture
def snakemake():
    """Snakemake's logger with a handler of its own; gives what attaches another one to it."""
    logger = logging.getLogger("snakemake.logging")
    before, logger.handlers = logger.handlers, []

    def attached(stream, flow):
        own = logging.StreamHandler(stream)
        own.name = "DefaultStreamHandler"
        logger.handlers = [own]
        attach(flow)
        return logger.handlers

    yield attached
    for handler in logger.handlers:
        handler.close()
    logger.handlers = before


def until(handler, text):
    """What was shown once it holds `text`."""
    for _ in range(500):
        if re.search(text, handler.stream.getvalue()):
            return handler.stream.getvalue()
        time.sleep(0.01)
    raise AssertionError(f"{text!r} is not in {handler.stream.getvalue()!r}")


@pytest.mark.parametrize(
    ("terminal", "wish", "term", "way"),
    [
        (True, "", "xterm", "live"),
        (False, "", "xterm", "lines"),
        (True, "", "dumb", "lines"),
        (True, "lines", "xterm", "lines"),
        (True, "full", "xterm", "full"),
        (True, "quick", "xterm", "live"),
    ],
)
def test_a_live_line_is_for_terminals(snakemake, tmp_path, monkeypatch, capsys, terminal, wish, term, way):
    monkeypatch.setenv("BENCH_LOG", wish)
    monkeypatch.setenv("TERM", term)
    (handler,) = snakemake(Screen(terminal), workflow(tmp_path))
    assert handler.way == way
    assert ("BENCH_LOG=quick" in capsys.readouterr().err) == (wish == "quick")


@pytest.mark.parametrize("wish", [{"verbose": True}, {"printshellcmds": True}, {"debug_dag": True}, {"quiet": "RULES"}])
def test_who_asks_snakemake_for_something_gets_it(snakemake, tmp_path, wish):
    if "quiet" in wish:
        wish = {"quiet": [SimpleNamespace(name=wish["quiet"])]}
    (handler,) = snakemake(Screen(True), workflow(tmp_path, **wish))
    assert handler.way == "full"


@pytest.mark.parametrize("wish", ["dry", "all", "job"])
def test_dry_runs_jobs_and_silence_are_left_alone(snakemake, tmp_path, wish):
    flow = workflow(tmp_path, dryrun=wish == "dry", quiet=[SimpleNamespace(name="ALL")] if wish == "all" else None)
    flow.is_main_process = wish != "job"
    (handler,) = snakemake(Screen(True), flow)
    assert handler.name == "DefaultStreamHandler"


def test_beside_a_logger_of_the_user_only_the_end_is_shown(tmp_path, capsys):
    logger = logging.getLogger("snakemake.logging")
    before, logger.handlers = logger.handlers, [logging.NullHandler()]
    try:
        attach(workflow(tmp_path))
        theirs, ours = logger.handlers
        ours.stream = Screen(True)
        for record in (STARTED, starts(1)):
            ours.handle(record)
        assert (type(theirs), ours.stream.getvalue()) == (logging.NullHandler, "")
        ours.close()
        assert "stopped  train 1" in ours.stream.getvalue()
    finally:
        logger.handlers = before


def test_what_cannot_be_attached_leaves_the_messages_as_they_are(snakemake, capsys):
    (handler,) = snakemake(Screen(True), SimpleNamespace(is_main_process=True))
    assert handler.name == "DefaultStreamHandler"
    assert "no live line (AttributeError" in capsys.readouterr().err


def test_a_terminal_has_one_line(tmp_path):
    (tmp_path / "1.log").write_text("epoch 5/20 total 0.25 left 15 s\n")
    os.utime(tmp_path / "1.log", (time.time() + 1, time.time() + 1))
    handler = shower(tmp_path, "live")
    for record in (message("Building DAG of jobs..."), STARTED, starts(1), message("touch x", "shellcmd")):
        handler.handle(record)
    shown = until(handler, "simclr epoch 5/20 loss 0.25")
    opening, line = shown.split("\n", 1)
    assert opening.startswith("jobs to run: 7 (train 2")
    assert set(line.split(CLEAR)[1:]) >= {""} or line.startswith(CLEAR)
    assert "\n" not in line
    handler.handle(ends(1))
    handler.close()
    shown = handler.stream.getvalue()
    assert CLEAR + "\n" in shown[len(opening) :]  # the line is gone before the screen
    assert "ran      train 1" in shown
    assert "snakemake" in shown.split("next")[1]


def test_elsewhere_lines_are_plain_and_few(tmp_path, monkeypatch):
    handler = shower(tmp_path, "lines")
    for record in (STARTED, starts(1)):
        handler.handle(record)
    until(handler, r"\n\[\d\d:\d\d:\d\d\] 0 of 7 jobs \| train 0/2 embed 0/2")
    monkeypatch.setattr(live, "EVERY", 1000.0)
    monkeypatch.setattr(live, "SHARE", 1000.0)
    time.sleep(0.05)
    count = handler.stream.getvalue().count("of 7 jobs |")
    time.sleep(0.1)
    handler.handle(ends(1))
    handler.close()
    shown = handler.stream.getvalue()
    assert shown.count("of 7 jobs |") == count
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", shown)


def test_the_daily_course_is_not_shown_and_all_else_is(tmp_path):
    handler = shower(tmp_path, "lines")
    handler.handle(STARTED)
    before = handler.stream.getvalue()
    for record in (
        message("Select jobs to execute..."),
        message("Execute 2 jobs...", "job_started"),
        message("1 of 7 steps (14%) done", "progress"),
        message("Complete log(s): x"),
    ):
        handler.handle(record)
    assert handler.stream.getvalue() == before
    for record in (message("Storage: 3 files"), message("disk is full", level=logging.WARNING),
                   message("no such rule", "error", logging.ERROR)):  # fmt: skip
        handler.handle(record)
    assert handler.stream.getvalue() == before + "Storage: 3 files\ndisk is full\nno such rule\n"
    handler.close()


def test_a_failed_job_shows_the_end_of_its_log_instead_of_its_command(tmp_path):
    (tmp_path / "1.log").write_text("\n".join(f"line {n}" for n in range(100)) + "\nerror: the loss is nan\n")
    handler = shower(tmp_path, "lines")
    for record in (
        STARTED,
        starts(1),
        message("RuleException:\nCalledProcessError in file train.smk, line 36:\nCommand x", level=logging.ERROR),
        fails(1),
    ):
        handler.handle(record)
    shown = handler.stream.getvalue()
    assert f"train simclr digits seed0 failed ({tmp_path}/1.log):\n  line 81\n" in shown
    assert "  error: the loss is nan\n" in shown
    assert "Error in rule" not in shown
    assert "RuleException" not in shown
    # without a log, or with more to say, Snakemake's own words
    handler.handle(starts(2))
    handler.handle(fails(2))
    handler.handle(fails(1, rule_msg="SLURM job 7: out of memory"))
    assert handler.stream.getvalue().count("Error in rule x") == 2
    handler.close()
    assert handler.stream.getvalue().count("error: the loss is nan") == 2


def test_another_rule_exception_is_shown(tmp_path):
    handler = shower(tmp_path, "lines")
    handler.handle(STARTED)
    handler.handle(message("RuleException:\nCalledProcessError in a hook", level=logging.ERROR))  # no job is at work
    handler.handle(starts(1))
    handler.handle(message("RuleException:\nMissingOutputException: x", level=logging.ERROR))
    assert handler.stream.getvalue().count("RuleException") == 2
    handler.close()


def test_what_its_user_stopped_is_not_called_failed(tmp_path):
    (tmp_path / "1.log").write_text("KeyboardInterrupt\n")
    handler = shower(tmp_path, "live")
    for record in (STARTED, starts(1), message("Terminating processes on user request, this might"), fails(1)):
        handler.handle(record)
    handler.close()
    shown = handler.stream.getvalue()
    assert "stopped  train 1" in shown
    assert "(goes on from here)" in shown
    assert "failed" not in shown
    assert "KeyboardInterrupt" not in shown


def test_warnings_of_jobs_and_words_of_tables_are_shown(tmp_path):
    (tmp_path / "1.log").write_text("reading\nwarning: simclr, seed 0: it collapsed\n")
    (tmp_path / "table.log").write_text("to make what is stale anew:\n")
    handler = shower(tmp_path, "lines")
    for record in (STARTED, starts(1), ends(1), starts(7), ends(7)):
        handler.handle(record)
    handler.close()
    shown = handler.stream.getvalue()
    assert "warning: simclr, seed 0: it collapsed\n" in shown
    assert "to make what is stale anew:\n" in shown
    assert "reading" not in shown


def test_a_fault_in_here_ends_in_snakemakes_own_messages(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(live, "watch", lambda dag, rules: 1 / 0)
    handler = shower(tmp_path, "live")
    for record in (STARTED, starts(1), ends(1)):
        handler.handle(record)
    handler.close()
    assert handler.stream.getvalue() == "Job stats:\nRule: x, Jobid: 1\nFinished jobid: 1\n"
    assert capsys.readouterr().err.count("no live line any more (ZeroDivisionError") == 1


def test_a_terminal_that_is_gone_does_not_end_the_run(tmp_path, monkeypatch):
    class Gone(Screen):
        def write(self, text):
            raise OSError(5, "Input/output error")

    gone = Gone(True)
    monkeypatch.setattr("sys.stderr", gone)
    handler = shower(tmp_path, "live", gone)
    handler.own.handleError = lambda record: None
    for record in (STARTED, starts(1), ends(1)):
        handler.handle(record)
    handler.close()


def test_a_touched_run_made_nothing(tmp_path):
    handler = shower(tmp_path, "lines")
    handler.workflow.touch = True
    for record in (STARTED, starts(1), ends(1)):
        handler.handle(record)
    handler.close()
    assert "ran " not in handler.stream.getvalue()


def test_the_end_names_commands_that_can_be_typed(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["/bin/snakemake", "--cores", "2", "--config", "seeds=[0, 1]", "-R", "train"])
    monkeypatch.setenv("BENCH_RUN", "./run")
    handler = shower(tmp_path, "lines")
    end = handler._end()
    assert end.command == "./run snakemake --cores 2 --config 'seeds=[0, 1]' -R train"
    assert (end.forced, end.browse, end.log) == (True, "", os.path.relpath(tmp_path / "whole.log"))
    (tmp_path / "mlflow.db").touch()
    assert handler._end().browse == f"./run mlflow ui --backend-store-uri sqlite:///{tmp_path}/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://ann:s3cret@host")  # a password is not printed
    assert handler._end().browse == './run mlflow ui --backend-store-uri "$MLFLOW_TRACKING_URI"'
