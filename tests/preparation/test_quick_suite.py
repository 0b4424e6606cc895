"""The suite that a machine finishes in the minutes asked for: epochs, network and rows by a speed."""

import os
import platform
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pipeline import catalogue, recipes
from pipeline.record import write_json
from preparation import describe
from preparation.described import images, speed
from preparation.described.quick import FEWEST_EPOCHS, FOR_TRAINING, Training, seconds, shortened, size
from preparation.described.sized import duration, subset
from preparation.described.suite import shorter, together
from preparation.prepared import open_prepared
from tests.conftest import warm_python
from tests.preparation import described
from tests.preparation.described import picture

TRAININGS = {
    "base": Training(100, 1000, None),
    "second": Training(50, 1000, "base", share=0.8),
    "other": Training(100, 500, None, cost=0.5),
}


def test_time_is_that_of_the_longest_chain_or_of_an_even_share():
    epochs = {"base": 10, "second": 8, "other": 10}
    assert seconds(TRAININGS, epochs, speed=100, workers=4) == 180  # base, then second
    assert seconds(TRAININGS, epochs, speed=100, workers=1) == 205  # 100 + 80 + 25
    assert shortened(TRAININGS, 30) == {"base": 30, "second": 24, "other": 30}
    assert shortened(TRAININGS, 500) == {"base": 100, "second": 50, "other": 100}


def sized(speed, cut_rows=True, fewest=500):
    return size(TRAININGS, speed, 1, 1, total=1500, fewest=fewest, cut_rows=cut_rows)


def test_epochs_are_cut_before_rows():
    whole = sized(speed=1e6)
    assert (whole.epochs, whole.rows) == ({"base": 100, "second": 50, "other": 100}, None)
    some = sized(speed=1500)
    assert some.rows is None
    assert FEWEST_EPOCHS < some.epochs["base"] < 100
    assert 0.9 * 60 * FOR_TRAINING < some.seconds <= 60 * FOR_TRAINING
    few = sized(speed=500)
    assert few.epochs == shortened(TRAININGS, FEWEST_EPOCHS)
    assert 500 < few.rows < 1500
    assert few.rows % 100 == 0 or few.rows < 1000
    assert few.seconds <= 60 * FOR_TRAINING
    assert sized(speed=500, cut_rows=False) is None  # a smaller network is tried first
    assert sized(speed=1).rows == 500
    assert sized(speed=1, fewest=2000).rows is None  # all there are


def test_a_subset_keeps_the_share_of_every_split():
    spec = {"title": "Own", "splits": {"train": 800, "test": 200}, "classes": 2}
    assert subset(spec, 500) == {**spec, "title": "Own, 500 rows", "splits": {"train": 400, "test": 100}, "subset": 500}


def test_what_is_counted_in_epochs_is_shortened_with_them():
    change = shorter("reuters10k", {"dcrl": 100, "autoencoder": 300})["dcrl"]
    assert change["schedule"] == {"epochs": 100}
    assert set(change["settings"]) == {"start_epoch", "ramp_epochs"}
    assert change["settings"]["ramp_epochs"] > change["settings"]["start_epoch"] > 0
    merged = together({"a": {"batch_size": 8}}, {"a": {"schedule": {}}, "b": {}})
    assert merged == {"a": {"batch_size": 8, "schedule": {}}, "b": {}}


DURATIONS = [(90, "90 seconds"), (240, "4 minutes"), (9000, "2 hours"), (2e5, "2 days")]


@pytest.mark.parametrize(("value", "words"), DURATIONS)
def test_durations(value, words):
    assert duration(value) == words


def test_a_slow_machine_gets_a_smaller_network_for_photographs(monkeypatch, capsys, tmp_path):
    for number in range(30):
        picture(tmp_path / "birds" / "ab"[number % 2] / f"{number}.png", number, size=(32, 32))
    for rate, network in ((1e6, "resnet18"), (3, "convnet")):
        found = described.run(monkeypatch, capsys, tmp_path, tmp_path / "birds", "--force", "--minutes", 1, rate=rate)
        for name, expected in (("birds_quick", network), ("birds", "resnet18")):  # the full suite keeps the family's
            plan = found.plan(name)
            trained = [plan.runs.recipe(run) for run in plan.runs.all() if run.recipe in ("simclr_base", "scan")]
            assert {recipe["network"]["backbone"] for recipe in trained} == {expected}
    # 30 rows are the fewest, so that the minute asked for is not kept, and the screen says so.
    said = re.search(r"2 at once: (\d+) minutes; about (\d+) minutes with start-up", found.screen)
    assert int(said[2]) >= int(said[1]) > 1


def test_the_speed_is_measured(monkeypatch, capsys, tmp_path):
    """By the training stage itself, as it would train."""
    monkeypatch.setattr(sys, "executable", f"{warm_python()}/python")
    np.savez(tmp_path / "birds.npz", x=np.arange(60 * 64).reshape(60, 8, 8).astype(np.uint8), y=np.arange(60) % 2)
    found = described.run(monkeypatch, capsys, tmp_path, tmp_path / "birds.npz", rate=None)
    assert "simclr_base, convnet: " in found.screen
    assert "rows/s (measured, one " in found.screen
    assert "rows/s (measured" in (tmp_path / "own/suites/birds_quick.yaml").read_text()


def test_the_speed_is_that_of_the_kind_of_data(tmp_path):
    spec = {"title": "Own", "source": "folder", "folder": "birds", "shape": [4, 6, 3], "family": "cifar",
            "normalisation": {"mean": [0.5] * 3, "std": [0.2] * 3}}  # fmt: skip
    speed._write(tmp_path / "pixels", spec, 5, None, tmp_path)
    assert open_prepared(tmp_path / "pixels").images.dtype == np.uint8
    rows = spec | {"family": "vectors", "shape": [1, 7, 1], "normalisation": {"mean": [0], "std": [1]}}
    speed._write(tmp_path / "rows", rows, 5, None, tmp_path)
    assert open_prepared(tmp_path / "rows").images.dtype == np.float32
    speed._write(tmp_path / "files", spec, 5, np.array(["a.png", "b.png"]), tmp_path)
    files = open_prepared(tmp_path / "files")
    assert files.images.tolist() == ["a.png", "b.png", "a.png", "b.png", "a.png"]
    assert files.root == tmp_path / "birds"


def test_the_speed_is_that_of_the_second_epoch(monkeypatch, tmp_path):
    """The first one has the start of everything in it."""
    recipe = recipes.resolve("simclr_base", "digits")

    def trained(words, **_):
        out = Path(words[words.index("--out") + 1])
        out.mkdir()
        (out / "history.csv").write_text("epoch,images_per_s\n1,10.0\n2,300.0\n")
        write_json(out / "train.json", {"records": {"train": {"device": "cuda:0"}}})
        return subprocess.CompletedProcess(words, 0)

    monkeypatch.setattr(speed.subprocess, "run", trained)
    measured = speed.measure(recipe, catalogue.entry("data set", "digits"), None, tmp_path)
    assert measured == speed.Speed(300.0, "cuda")


class Asked(Exception):
    """The timed training was about to start."""


def test_a_timed_training_ends_with_the_description(monkeypatch, capsys, tmp_path):
    """Also where that is killed without a word."""
    seen = {}

    def start(*_, env, **__):
        seen.update(env)
        raise Asked

    monkeypatch.setattr(speed.subprocess, "run", start)
    np.savez(tmp_path / "birds.npz", x=np.arange(60 * 64).reshape(60, 8, 8).astype(np.uint8), y=np.arange(60) % 2)
    with pytest.raises(Asked):
        described.run(monkeypatch, capsys, tmp_path, tmp_path / "birds.npz", rate=None)
    assert seen["BENCH_MAIN"] == f"{platform.node()}:{os.getpid()}"
    assert "BENCH_DATA_ROOT" not in seen


def test_sigterm_leaves_nothing_behind(monkeypatch, capsys, tmp_path):
    """As Ctrl-C: blocks are left one by one, so that the timed training is stopped and temporary folders go."""
    held = []

    def killed(name, place, found, machine, staged):
        held.append(staged)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(describe, "written", killed)
    before = signal.signal(signal.SIGTERM, lambda *_: None)  # without the wire: the process of the tests goes on
    np.savez(tmp_path / "birds.npz", x=np.random.default_rng(0).normal(size=(40, 3)), y=np.arange(40) % 2)
    try:
        with pytest.raises(SystemExit, match="143"):
            described.run(monkeypatch, capsys, tmp_path, tmp_path / "birds.npz")
        assert signal.getsignal(signal.SIGTERM).__qualname__.startswith("test_sigterm")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert held
    assert not held[0].exists()
    assert not (tmp_path / "own").exists()


def test_statistics_of_large_images_take_few_of_them(monkeypatch, capsys, tmp_path):
    """2,000 images of a large --size would be more than the memory holds."""
    described.pictures(tmp_path / "birds")
    monkeypatch.setattr(images, "SAMPLED_BYTES", 5 * 16 * 16 * 3)
    found = described.run(monkeypatch, capsys, tmp_path, tmp_path / "birds", "--size", 16)
    assert "measured on 5 of the " in (found.own / "datasets/birds.yaml").read_text()
    found = described.run(monkeypatch, capsys, tmp_path, tmp_path / "birds", "--size", 64, "--force")
    assert "measured on 1 of the " in (found.own / "datasets/birds.yaml").read_text()
