"""A copy of the project in which something goes wrong, and the runs of the pipeline in it."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.campaign.case import Lost, require
from tests.conftest import SMOKE, Project, warm_python

RESULTS = "results/smoke"
TABLE, RUNS = f"{RESULTS}/table2.csv", "runs/digits_200/full"
ENDINGS = (".csv", ".md", ".tex")
QUIET = ("--config", "track=false")
LIMIT = 600  # seconds for one run of the pipeline
ORPHANS = 20  # seconds in which a stage ends after its snakemake: one of watching, and a slow import before that
STAGE = re.compile(r"(preparation|training|evaluation|report)\.\w+")


@dataclass
class Running:
    """A run of the pipeline that is under way; both its streams go to one file."""

    process: subprocess.Popen
    output: Path

    def stages(self) -> list[psutil.Process]:
        """Processes of stages that this run started and that live."""
        try:
            below = psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        return [process for process in below if _stage_of(process)]

    def said(self) -> str:
        return self.output.read_text(encoding="utf-8", errors="replace")

    def wait(self, limit: float = LIMIT) -> str:
        """What it said in all, once it has ended."""
        try:
            self.process.wait(limit)
        except subprocess.TimeoutExpired:
            raise Lost(f"the run did not end within {limit} s") from None
        return self.said()

    def until(self, pattern: str, limit: float = LIMIT) -> None:
        """Wait until it has said something; Lost if it ends without."""
        end = time.monotonic() + limit
        while not re.search(pattern, self.said()):
            require(self.process.poll() is None and time.monotonic() < end, f"the run never said {pattern!r}")
            time.sleep(0.1)


class Site(Project):
    """A project with results in results/smoke."""

    @classmethod
    def copy(cls, finished: Path, folder: Path, results: bool = True) -> "Site":
        """A copy of the finished project, times kept, with or without its results; nothing in the tracker yet."""
        root = folder / "project"
        shutil.copytree(finished, root, symlinks=True)
        for name in ("mlflow.db", "mlflow.json", "mlartifacts"):  # the store holds the other folder's path
            _remove(root / RESULTS / name)
        if not results:
            _remove(root / RESULTS)
            _remove(root / ".snakemake")
        return cls(root)

    @property
    def results(self) -> Path:
        return self.root / RESULTS

    def environment(self, env: dict[str, str] | None = None) -> dict[str, str]:
        """Stages are processes of their own here, no copies of a warm one: what is killed is the stage itself."""
        found = super().environment(env)
        return found | {"PATH": found["PATH"].removeprefix(f"{warm_python()}{os.pathsep}")}

    def start(self, *words: str, target: str = TABLE, env: dict[str, str] | None = None) -> Running:
        """Start the pipeline and go on."""
        number = len(list(self.root.parent.glob("output*")))
        output = self.root.parent / f"output{number}"
        command = [sys.executable, "-m", "snakemake", target, "--cores", "2", "--configfile", SMOKE, *words]
        with output.open("wb") as file:
            process = subprocess.Popen(
                command, cwd=self.root, env=self.environment(env), stdout=file, stderr=subprocess.STDOUT
            )
        return Running(process, output)

    def make(
        self, *words: str, target: str = TABLE, env: dict[str, str] | None = None, traceback: bool = False
    ) -> tuple[int, str]:
        """(exit status, everything said) of a whole run. `traceback`: a stage may end with one, as a defect does."""
        running = self.start(*words, target=target, env=env)
        said = running.wait()
        require(traceback or "Traceback (most recent call last)" not in said, f"a traceback: {said[-1500:]}")
        return running.process.returncode, said

    def made(self, *words: str, target: str = TABLE, env: dict[str, str] | None = None) -> str:
        """Everything said by a whole run that must end well."""
        status, said = self.make(*words, target=target, env=env)
        require(status == 0, f"exit status {status}: {said[-1500:]}")
        return said

    def table(self) -> dict[str, bytes | None]:
        """Ending -> content of the table's files, None for one that is not there."""
        paths = {ending: (self.root / TABLE).with_suffix(ending) for ending in ENDINGS}
        return {ending: path.read_bytes() if path.is_file() else None for ending, path in paths.items()}

    def without(self, *recipes: str) -> None:
        """Remove runs, and the table: without that one nobody would miss them."""
        for recipe in recipes:
            shutil.rmtree(self.results / RUNS / recipe)
        self.without_table()

    def without_table(self) -> None:
        for ending in ENDINGS:
            (self.root / TABLE).with_suffix(ending).unlink(missing_ok=True)

    def require_table(self, expected: dict[str, bytes | None]) -> None:
        """The table is, byte for byte, the expected one."""
        found = self.table()
        for ending, content in expected.items():
            require(found[ending] is not None, f"no table2{ending}")
            require(found[ending] == content, f"table2{ending} differs from that of an unbroken run")


def line(said: str, pattern: str) -> str:
    """The one line in which a user is told `pattern`; Lost where there is none."""
    found = [text.strip() for text in said.splitlines() if re.search(pattern, text)]
    require(bool(found), f"nobody was told {pattern!r}; the last words were: {said[-800:]}")
    return found[-1]


def begun_by(snakemake: int) -> Iterator[psutil.Process]:
    """Living stages whose run has this number, its children or not."""
    for process in psutil.process_iter():
        try:
            main = process.environ().get("BENCH_MAIN", "")
        except psutil.Error:
            continue
        if main.endswith(f":{snakemake}") and _stage_of(process):
            yield process


def require_no_orphans(snakemake: int) -> float:
    """Seconds until no stage of a dead run lived any more; Lost after ORPHANS."""
    begun = time.monotonic()
    while left := list(begun_by(snakemake)):
        if time.monotonic() - begun > ORPHANS:
            raise Lost(f"{_stage_of(left[0])} still lives {ORPHANS} s after its snakemake")
        time.sleep(0.2)
    return time.monotonic() - begun


def _stage_of(process: psutil.Process) -> str:
    """The module of a stage's process, or nothing for any other (the shell that started it, for instance)."""
    try:
        words = process.cmdline() if process.status() != psutil.STATUS_ZOMBIE else []
    except psutil.Error:
        return ""
    if len(words) > 2 and words[1] == "-m" and STAGE.fullmatch(words[2]):
        return words[2]
    return ""


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
