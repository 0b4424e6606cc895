"""The finished smoke suite against the published one: on one kind of processor it prints the same digits."""

import csv

import pytest

from pipeline.record import processor
from tests.conftest import ROOT

PUBLISHED = ROOT / "reference/smoke.csv"


def test_the_smoke_suite_prints_the_published_digits(smoke):
    with PUBLISHED.open(newline="") as file:
        kinds = {line["processor"] for line in csv.DictReader(file)}
    if kinds != {processor()}:
        pytest.skip(f"published on {', '.join(sorted(kinds))}: other kinds of processors have other last bits")
    done = smoke.stage("pipeline.bench", "verify", "--results", "results/smoke", "--reference", str(PUBLISHED))
    assert done.returncode == 0, done.stdout + done.stderr
    counts = done.stdout.splitlines()[-1]
    assert "0 within the noise of seeds, 0 different" in counts, done.stdout
    assert not counts.startswith("0 cells")


def test_what_is_published_of_a_finished_suite_is_verified_bit_by_bit(smoke, tmp_path):
    out = tmp_path / "smoke.csv"
    done = smoke.stage("pipeline.bench", "publish", "--results", "results/smoke", "--out", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    done = smoke.stage("pipeline.bench", "verify", "--results", "results/smoke", "--reference", str(out))
    last = done.stdout.splitlines()[-1]
    assert (done.returncode, last.endswith("0 only here, 0 only published")) == (0, True), done.stdout
    assert last.split(": ")[1].startswith(f"{last.split()[0]} same bits")
