"""Two runs in one place, and what a killed one leaves: real processes."""

import errno
import json
import platform
import signal
import subprocess
import sys
import time

import pytest

from pipeline import locks
from pipeline.record import StageError
from tests.conftest import ROOT

HOLDER = """
import sys, time
from pathlib import Path
from pipeline import locks
locks.ROOT = Path(sys.argv[1])
locks.take_results(sys.argv[2])
locks.take_working_directory(sys.argv[3])
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def start(tmp_path):
    """Start a process that is at work for a checkout in the results folder and in a working directory."""
    running = []

    def one(checkout, folder="work"):
        words = [sys.executable, "-c", HOLDER, checkout, str(tmp_path / "results"), str(tmp_path / folder)]
        process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        running.append(process)
        assert process.stdout.readline() == "held\n"
        return process

    yield one
    for process in running:
        process.kill()
        process.wait()


def test_a_second_checkout_waits_and_is_told_afterwards(start, tmp_path, capsys):
    first = start("/home/a")
    assert not locks.alone(tmp_path / "results")  # it is not taken by this process
    start("/home/a", "other")  # a second run of the same checkout may be
    with pytest.raises(StageError, match=r"in use by the checkout /home/a \(process \d+ on .*wait for it, or give"):
        locks.take_results(tmp_path / "results")
    first.send_signal(signal.SIGKILL)
    first.wait()
    with pytest.raises(StageError, match="in use by"):  # the second still is
        locks.take_results(tmp_path / "results")


def test_a_dead_checkout_holds_nothing(start, tmp_path, capsys):
    process = start("/home/a")
    process.kill()
    process.wait()
    locks.take_results(tmp_path / "results")
    assert "last used by the checkout /home/a" in capsys.readouterr().err
    locks._held.clear()
    locks.take_results(tmp_path / "results")
    assert capsys.readouterr().err == ""
    assert json.loads((tmp_path / "results" / ".lock").read_text())["checkout"] == str(ROOT)
    assert locks.alone(tmp_path / "results")
    start(str(ROOT))
    assert not locks.alone(tmp_path / "results")


def test_locks_of_a_killed_run_are_removed_and_those_of_a_living_one_are_not(start, tmp_path, capsys):
    process, locked = start("/home/a"), tmp_path / "work" / "locks"
    locked.mkdir()
    (locked / "0.output.lock").write_text("results/table2.csv\n")
    locks.take_working_directory(tmp_path / "work")
    assert (locked / "0.output.lock").exists()
    locks._held.clear()
    process.kill()
    process.wait()
    locks.take_working_directory(tmp_path / "work")
    assert not locked.exists()
    assert "the run before was killed: its lock is removed" in capsys.readouterr().err
    locks._held.clear()
    locked.mkdir()
    (locked / "0.output.lock").write_text("results/table2.csv\n")
    (tmp_path / "work" / "running").write_text("another-host")
    locks.take_working_directory(tmp_path / "work")
    assert (locked / "0.output.lock").exists()
    assert "locked by a run on another-host: once that has ended, `snakemake --unlock`" in capsys.readouterr().err
    assert (tmp_path / "work" / "running").read_text() == "another-host"  # also for the next try


def test_jobs_of_a_killed_run_that_a_cluster_has_keep_its_locks(tmp_path, capsys):
    """They do not die with it, and a second one of each would write into the same files."""
    folder, locked = tmp_path / "work", tmp_path / "work" / "locks"
    locks.jobs_run_elsewhere(folder)  # a process that holds nothing has nothing to say
    assert not folder.exists()
    locks.take_working_directory(folder)
    for _ in range(2):  # once is enough
        locks.jobs_run_elsewhere(folder)
    assert (folder / "running").read_text() == f"{platform.node()}\nwith a cluster\n"
    locked.mkdir()
    (locked / "0.output.lock").write_text("results/table2.csv\n")
    for _ in range(2):  # the second try is no wiser
        locks._held.clear()
        locks.take_working_directory(folder)
        assert (locked / "0.output.lock").exists()
        assert "its jobs are with a cluster, and may still run: once none does" in capsys.readouterr().err
    (locked / "0.output.lock").unlink()  # `snakemake --unlock`
    locks._held.clear()
    locks.take_working_directory(folder)
    assert (folder / "running").read_text() == f"{platform.node()}\n"
    assert capsys.readouterr().err == ""
    (folder / "running").write_text("another-host\n")
    locks.jobs_run_elsewhere(folder)
    assert (folder / "running").read_text() == "another-host\n"


def test_without_file_locks_nobody_is_shown_to_be_dead(tmp_path, monkeypatch):
    """Some network file systems lock nothing: what may be a living run's stays."""

    def unsupported(*_):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(locks, "flock", unsupported)
    (tmp_path / "work" / "locks").mkdir(parents=True)
    (tmp_path / "work" / "locks" / "0.output.lock").write_text("results/table2.csv\n")
    (tmp_path / "work" / "running").write_text(platform.node())
    locks.take_working_directory(tmp_path / "work")
    assert (tmp_path / "work" / "locks" / "0.output.lock").exists()
    locks.take_results(tmp_path / "results")
    assert not locks.alone(tmp_path / "results")


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("a file where a folder should be")
    for take in (locks.take_results, locks.take_working_directory):
        with pytest.raises(StageError, match=r"file.*: cannot be written: (File exists|Not a directory); mend that"):
            take(tmp_path / "file")


def test_notes_of_snakemake_that_are_no_text_are_removed_and_named(tmp_path, capsys):
    """It ends with a traceback at these; what is cut off it skips by itself."""
    notes = tmp_path / "metadata" / "@long"
    notes.mkdir(parents=True)
    for name, content in (("sound", b'{"rule": "train"}'), ("cut", b'{"rule'), ("flipped", b'{"rule": "tra\xe9n"}')):
        (notes / name).write_bytes(content)
    locks.take_working_directory(tmp_path)
    assert sorted(path.name for path in notes.iterdir()) == ["cut", "sound"]
    assert capsys.readouterr().err == f"{notes / 'flipped'}: damaged; Snakemake goes on without this note\n"


def test_a_stage_ends_with_the_snakemake_that_started_it():
    code = (
        "import os, platform, signal, subprocess, sys, time\n"
        "os.environ['BENCH_MAIN'] = f'{platform.node()}:{os.getpid()}'\n"
        "stage = 'import time; from pipeline.record import run_stage; run_stage(lambda: time.sleep(60))'\n"
        "child = subprocess.Popen(['bash', '-c', f'exec {sys.executable} -c \"{stage}\"'])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    time.sleep(1.5)
    state = lambda: subprocess.run(["ps", "-o", "stat=", "-p", str(child)], capture_output=True, text=True)  # noqa: E731
    assert state().stdout.strip()  # it lives while its parent does
    parent.kill()
    parent.wait()
    limit = time.monotonic() + 10
    while state().stdout.strip() and time.monotonic() < limit:
        time.sleep(0.1)
    assert state().stdout.strip() in ("", "Z")
    assert platform.node()
