"""What a person sees of a run: one live line on a terminal, now and then a line elsewhere, and one screen at the end.

It takes the place of Snakemake's own handler of log messages, which it keeps for all that is not the daily course of a
run: errors and warnings pass through it, and of a failed job the end of its log. Snakemake's log file holds everything.
Whatever goes wrong in here ends in Snakemake's own messages, never in the run. Without Snakemake: events are read by
their names. It is no logger plugin: with one named in the profile, `snakemake` without ./run, which alone could put it
on Python's path, refuses its own command line; and a plugin is not told which jobs there will be.
"""

import contextlib
import logging
import os
import shlex
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.lines import fitting, opening, plain
from pipeline.log_files import Epoch, last_epoch, last_lines, notes
from pipeline.remaining import Samples, forecast, recorded
from pipeline.summary import End, heading, screen
from pipeline.watch import Watch, watch

WAYS = ("live", "lines", "full")  # of BENCH_LOG
TICK = 1.0  # seconds between two looks at what runs; more where much runs
CLEAR = "\r\x1b[K"  # to the first column, and nothing behind it
ELSEWHERE = 120  # characters in a line of no terminal
FORECAST, DEAR = 5.0, 50  # seconds for which a forecast holds, at least; and how many times as long as its making took
EVERY, SELDOM, SHARE = 30.0, 600.0, 0.05  # seconds between plain lines: at least, at most, of the time that passed
# Messages without an event that say what every run says.
DAILY = (
    "Config file ", "Assuming unrestricted shared", "Building DAG", "Using shell", "Select jobs", "Execute ",
    "Group jobs: inactive", "Conda environments: ignored", "Singularity containers: ignored", "Provided ",
    "Complete log(s)", "Elapsed time", "Nothing to be done", "Job rate limit", "Submitted job", "Submitted group job",
    "SLURM run ID", "Shutting down, this", "Workflow has started",
)  # fmt: skip
STOPPED = "Terminating processes on user request"
COMMAND_FAILED = "RuleException:\nCalledProcessError"  # an error of a job follows, and its log says why
FORCED = ("--forcerun", "-R", "--forceall", "-F", "--force", "-f")  # with these a second call makes all anew
WORDS = 20  # lines of a failed job's log that are shown at once


def attach(workflow: Any) -> None:
    """Take the place of Snakemake's handler in the process that plans and waits.

    Dry runs, jobs on a cluster and `--quiet all` are left alone. Who asks for details (`--verbose`, `--printshellcmds`,
    `--debug-dag`, another `--quiet`, BENCH_LOG=full) or for another logger (`--logger`) gets them, and the end screen.
    """
    try:
        settings = workflow.output_settings
        quiet = {part.name for part in settings.quiet or ()}
        if not workflow.is_main_process or settings.dryrun or "ALL" in quiet:
            return
        logger = logging.getLogger("snakemake.logging")
        own = next((handler for handler in logger.handlers if handler.name == "DefaultStreamHandler"), None)
        detailed = settings.verbose or settings.printshellcmds or settings.debug_dag or quiet
        logger.addHandler(Live(own, workflow, "full" if own is None or detailed else _way(own)))
        if own is not None:
            logger.removeHandler(own)
    except Exception as problem:
        print(f"no live line ({type(problem).__name__}: {problem})", file=sys.stderr)


def _way(own: Any) -> str:
    """How a run is shown: as BENCH_LOG asks, a live line on terminals alone."""
    asked = os.environ.get("BENCH_LOG") or "live"
    if asked not in WAYS:
        print(f"BENCH_LOG={asked}: live, lines or full is expected; going on with live", file=sys.stderr)
        asked = "live"
    terminal = own.stream.isatty() and os.environ.get("TERM") != "dumb"
    return "lines" if asked == "live" and not terminal else asked


class Live(logging.Handler):
    """Shows a run. `own`: Snakemake's handler, None where another logger shows it; `way`: one of WAYS."""

    def __init__(self, own: logging.Handler | None, workflow: Any, way: str):
        super().__init__()
        self.own, self.workflow, self.way = own, workflow, way
        self.stream: Any = getattr(own, "stream", sys.stderr)
        self.run: Watch | None = None
        self.here = Samples()  # what jobs of this run took
        self.begun = self.told = time.time()
        self.drawn = self.stopped = self.resting = False
        self.over = threading.Event()
        self.forecast: tuple[float, float | None] = (0.0, None)  # when it was made, seconds from then
        self.holds = 0.0  # until when it does

    def emit(self, record: logging.LogRecord) -> None:
        """Take note of a message, and show it if a person has to see it."""
        shown = True
        try:
            shown = self._see(record)
            if shown or self.resting or not (self.run and self.run.running):
                self._lift()
        except Exception as problem:
            self._give_up(problem)
        if shown and self.own is not None:
            self.own.handle(record)

    def close(self) -> None:
        """The screen at the end; Snakemake closes its handlers last of all, and Python those that are left."""
        over, self.way = self.over.is_set(), "full"
        self.over.set()
        try:
            self._lift()
            if self.run is not None and not over:
                self._write(*screen(self.run, self._end(), self._width()))
        except Exception as problem:
            self._give_up(problem)
        super().close()

    def _see(self, record: logging.LogRecord) -> bool:
        """Whether a message is to be shown, after what it says has been taken note of."""
        event, said = str(getattr(record, "event", None) or ""), str(record.msg or "")
        if event == "run_info" or said.startswith("Nothing to be done"):
            self._begin()
        # Between such a message and the next job, others than this process may write to the terminal.
        self.resting = (record.levelno >= logging.ERROR and event in ("", "error")) or said.startswith(STOPPED)
        self.stopped = self.stopped or said.startswith(STOPPED)
        if self.run is not None:
            self.run.stopped = self.stopped
            if event.startswith("job_"):
                self._note(self.run, event, record)
        if self.way == "full":
            return True
        if event == "job_error":
            return not (self.stopped or self._failed(record.__dict__))
        if said.startswith(COMMAND_FAILED) and self.run is not None and self.run.running:
            return False
        return record.levelno != logging.INFO or not (event or said.startswith(DAILY))

    def _note(self, run: Watch, event: str, record: logging.LogRecord) -> None:
        job = run.see(event, record.__dict__, record.created)
        if job is not None:
            self.here.add(job.stage, job.wildcards, run.seconds[record.__dict__["job_id"]], job.epochs)
            self._write(*notes(job.log, job.stage == "tabulate"))

    def _failed(self, facts: Mapping[str, Any]) -> bool:
        """Show what a failed job said last; whether that is all there is to say of it."""
        number, run = facts["jobid"], self.run
        if run is None or number not in run.jobs or facts.get("rule_msg") or facts.get("aux"):
            return False
        job = run.jobs[number]
        lines = last_lines(job.log, WORDS)
        if lines:
            self._write("", heading(run, number), *(f"  {line}" for line in lines), "")
        return bool(lines)

    def _begin(self) -> None:
        if self.workflow.touch:  # nothing is made
            self.way = "full"
            return
        self.run = watch(self.workflow.dag, [rule.name for rule in self.workflow.rules])
        self.begun = self.told = time.time()
        if self.run.jobs and self.way != "full":
            self._write(opening(self.run))
            threading.Thread(target=self._tick, args=(self.run,), daemon=True).start()

    def _end(self) -> End:
        before = [os.environ["BENCH_RUN"]] if os.environ.get("BENCH_RUN") else []
        store = self._store()
        return End(
            seconds=time.time() - self.begun,
            log=", ".join(os.path.relpath(path) for path in self.workflow.logger_manager.get_logfile()),
            command=shlex.join([*before, "snakemake", *sys.argv[1:]]),
            forced=any(word.partition("=")[0] in FORCED for word in sys.argv),
            browse=f"{shlex.join([*before, 'mlflow', 'ui', '--backend-store-uri'])} {store}" if store else "",
        )

    def _store(self) -> str:
        """MLflow's store as a shell's word, empty where there is none."""
        if os.environ.get("MLFLOW_TRACKING_URI"):
            return '"$MLFLOW_TRACKING_URI"'  # not what stands in it, which may hold a password
        place = f"{self._results()}/mlflow.db"
        return shlex.quote(f"sqlite:///{place}") if Path(place).is_file() else ""

    def _results(self) -> str:
        return str(self.workflow.globals["config"]["results"])

    # ---- the line

    def _tick(self, run: Watch) -> None:
        """In a thread of its own: read the old records once, then keep the line alive. Files are read without the lock,
        so that a slow disk holds up the line and not the run.
        """
        try:
            records = recorded(self._results())
            while not self.over.wait(max(TICK, TICK / 20 * len(run.running))):
                now = time.time()
                due = now - self.told >= min(SELDOM, max(EVERY, SHARE * (now - self.begun)))
                if self.way == "full" or not (self.way == "live" or due):
                    continue
                begun = {n: at for n, at in list(run.running.items()) if run.jobs[n].epochs}
                told = {n: last_epoch(run.jobs[n].log, since=at, now=now) for n, at in begun.items()}
                epochs = {n: epoch for n, epoch in told.items() if epoch is not None}
                with self.lock:  # type: ignore[union-attr]
                    self._show(run, {n: epoch for n, epoch in epochs.items() if n in run.running}, records, now)
        except Exception as problem:
            self._give_up(problem)

    def _show(self, run: Watch, epochs: Mapping[int, Epoch], records: Samples, now: float) -> None:
        """Draw the line anew, or write one below the others, while jobs run."""
        if self.resting or self.over.is_set() or not run.running:
            return
        if now > self.holds:
            began, capacity = time.monotonic(), self.workflow.scheduler.global_resources
            self.forecast = now, forecast(run, epochs, self.here, records, capacity, now)
            self.holds = now + max(FORECAST, DEAR * (time.monotonic() - began))
        made, left = self.forecast
        left = None if left is None else max(0.0, left - (now - made))
        if self.way == "live":
            self.stream.write(f"{CLEAR}{fitting(run, epochs, left, self._width() - 1)}")
            self.stream.flush()
            self.drawn = True
        elif self.way == "lines":
            self.told = now
            self._write(plain(run, epochs, left, now))

    def _lift(self) -> None:
        """Take the line away, so that something else can be written there."""
        if self.drawn:
            self.drawn = False
            self.stream.write(CLEAR)
            self.stream.flush()

    def _write(self, *lines: str) -> None:
        if lines:
            self._lift()
            self.stream.write("\n".join(lines) + "\n")
            self.stream.flush()

    def _width(self) -> int:
        try:
            return os.get_terminal_size(self.stream.fileno()).columns or ELSEWHERE
        except (OSError, ValueError):
            return ELSEWHERE

    def _give_up(self, problem: Exception) -> None:
        """From here on only Snakemake's own messages, whatever it was. Nobody may be there to read this, either."""
        if self.way != "full":
            self.way = "full"
            with contextlib.suppress(OSError, ValueError):
                print(f"\nno live line any more ({type(problem).__name__}: {problem})", file=sys.stderr)
