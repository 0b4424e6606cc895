"""What real runs of the pipeline show: the first of the smoke suite, through a pipe, and one on a terminal."""

import os
import pty
import re
import subprocess
import sys

from pipeline.remaining import START, alike, recorded
from tests.conftest import SMOKE


def test_a_run_shows_few_plain_lines_and_one_screen(smoke):
    lines = smoke.said.splitlines()
    assert len(lines) < 100, smoke.said
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", smoke.said)
    assert any(re.match(r"jobs to run: \d+ \(prepare 1, train \d+, .*tabulate 1\)$", line) for line in lines)
    begin = lines.index("results/smoke/table2.csv .md .tex")
    assert re.match(r"method +digits \(200\) ACC", lines[begin + 2])
    ends = {line.split()[0]: line for line in lines[begin:] if line}
    assert re.search(r"^ran +prepare 1, train (\d+), embed \1, .*: (\d+) of \2 jobs, in ", ends["ran"])
    assert re.search(r"^seconds +prepare \d+, train \d+, .*evaluate \d+", ends["seconds"])
    assert ends["next"].startswith("next     mlflow ui --backend-store-uri sqlite:///results/smoke/mlflow.db")
    assert not {"failed", "stopped", "kept"} & ends.keys()
    whole = (smoke.root / ends["log"].split()[1]).read_text()
    assert whole.count("Finished jobid") == int(ends["ran"].split(": ")[1].split()[0]) + 1  # one writes the plan
    assert "Job stats:" in whole
    assert "rule train:" in whole


def test_records_of_a_real_run_tell_of_every_stage(smoke):
    found = recorded(smoke.root / "results/smoke")
    like = {"dataset": "digits_200", "protocol": "full", "recipe": "simclr", "assigner": "kmeans"}
    for stage in ("train", "embed", "assign", "evaluate"):
        kind = alike(stage, {key: value for key, value in like.items() if key != "assigner" or stage == "assign"})[0]
        assert found.mean(kind) > (0 if stage == "train" else START), stage
    assert found.mean(("mine",)) > START


def test_on_a_terminal_a_second_run_says_what_was_kept(smoke):
    """A real terminal, and nothing to do: the screen alone, and no control characters but colours."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "snakemake", "results/smoke/table2.csv", "--cores", "2", "--configfile", SMOKE]
    env = smoke.environment({"BENCH_LOG": "live", "TERM": "xterm", "COLUMNS": "100"})
    with subprocess.Popen(command, cwd=smoke.root, env=env, stdin=theirs, stdout=theirs, stderr=theirs) as run:
        os.close(theirs)
        shown = b""
        while chunk := _read(ours):
            shown += chunk
    os.close(ours)
    text = shown.decode()
    assert run.returncode == 0, text
    assert "nothing to do: all of this is up to date" in text
    assert re.search(r"kept +prepare 1, train \d+, embed \d+", text)
    assert "results/smoke/table2.csv .md .tex" in text
    assert "Building DAG" not in text
    assert "\x1b[K" not in text


def _read(terminal):
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other side is closed
        return b""
