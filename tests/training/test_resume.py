"""A training killed anywhere and run again ends in the same bits as one never killed. Real processes, real SIGKILL."""

import csv
import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.conftest import ROOT, warm_python
from training.checkpoint import ResumeState, read_state
from training.fabric import LightningEnvironment

TIMING = ("seconds", "images_per_s")  # the only columns that measure the machine


def command(data: Path, recipe: str, out: Path, resume: Path, *more: str) -> list[str]:
    words = [
        "--data",
        data,
        "--recipe",
        recipe,
        "--protocol",
        "full",
        "--seed",
        "3",
        "--out",
        out,
        "--resume",
        resume,
        *more,
    ]
    return ["python", "-m", "training.train", *map(str, words)]


def environment(minutes: str = "0") -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("BENCH_")}
    path = os.pathsep.join([warm_python(), os.environ["PATH"]])
    return kept | {"PATH": path, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "BENCH_CHECKPOINT_MINUTES": minutes}


def finish(words: list[str], minutes: str = "0") -> str:
    done = subprocess.run(words, env=environment(minutes), capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def start_until(words: list[str], resume: Path, ready) -> subprocess.Popen:
    """Start a training and return as soon as `ready(state)` holds for the newest state on disk."""
    process = subprocess.Popen(words, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    limit = time.monotonic() + 120
    while time.monotonic() < limit:
        assert process.poll() is None, f"ended before it could be killed: {process.communicate()}"
        for path in resume.glob("*/state.pt"):
            try:
                state = read_state(path)
            except (ValueError, RuntimeError, OSError, EOFError):
                continue
            if ready(state):
                return process
        time.sleep(0.01)
    process.kill()
    raise AssertionError("no state in time")


def columns(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return [{k: v for k, v in row.items() if k not in TIMING} for row in csv.DictReader(file)]


def same(one: Path, other: Path) -> None:
    a, b = (torch.load(folder / "model.pt", weights_only=True)["method"] for folder in (one, other))
    assert a.keys() == b.keys()
    for name in a:
        assert torch.equal(a[name], b[name]), name
    assert columns(one / "history.csv") == columns(other / "history.csv")


@pytest.fixture(scope="module")
def whole(digits_200, recipe, tmp_path_factory) -> Path:
    """The run that nobody killed."""
    folder = tmp_path_factory.mktemp("whole")
    finish(command(digits_200, recipe, folder, folder / "other"), minutes="10")
    return folder


@pytest.fixture(scope="module")
def recipe() -> str:
    """MIX'EM without a base, long enough to be killed three times."""
    from pipeline.provenance import canonical_json
    from pipeline.recipes import resolve

    overrides = {"base": None, "batch_size": 64, "schedule": {"epochs": 12}, "network": {"widths": [8, 16]}}
    return canonical_json(resolve("mixem", "digits_200", {"*": overrides}))


def test_killed_at_three_points_equals_unbroken(digits_200, recipe, whole, tmp_path, project):
    broken, resume = tmp_path / "broken", tmp_path / "resume"
    words = command(digits_200, recipe, broken, resume)
    # In the middle of the first epoch; at or after an epoch's end; late.
    for ready in (
        lambda state: state["epoch"] == 0 and state["step"] >= 1,
        lambda state: state["epoch"] >= 4,
        lambda state: state["epoch"] >= 9,
    ):
        process = start_until(words, resume, ready)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    assert "resuming at epoch" in finish(words)
    same(whole, broken)
    assert not resume.exists()  # removed once the results are written
    for folder in (whole, broken):
        done = project.stage(
            "training.embed", "--data", str(digits_200), "--model", str(folder / "model.pt"), "--out", str(folder)
        )
        assert done.returncode == 0, done.stderr
    assert (whole / "features.npz").read_bytes() == (broken / "features.npz").read_bytes()


def test_sigterm_saves_and_a_truncated_state_falls_back(digits_200, recipe, whole, tmp_path):
    broken, resume = tmp_path / "broken", tmp_path / "resume"
    words = command(digits_200, recipe, broken, resume)
    process = start_until(words, resume, lambda state: state["epoch"] >= 2)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 143, errors
    assert "state saved" in errors
    newest = next(resume.glob("*/state.pt"))
    newest.write_bytes(newest.read_bytes()[: newest.stat().st_size // 2])
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    assert "falling back to the state before" in done.stderr
    assert "resuming at epoch" in done.stdout
    same(whole, broken)


def test_another_recipe_or_seed_finds_no_state(digits_200, recipe, tmp_path):
    resume = tmp_path / "resume"
    process = start_until(
        command(digits_200, recipe, tmp_path / "a", resume), resume, lambda state: state["epoch"] >= 1
    )
    process.kill()
    process.wait()
    changed = recipe.replace('"lr":0.001', '"lr":0.002')
    assert changed != recipe
    assert "resuming" not in finish(command(digits_200, changed, tmp_path / "b", resume))
    # The first run's state is still there, in one generation or the other: the kill may fall between their renames.
    assert [ResumeState(folder).load()["epoch"] >= 1 for folder in resume.iterdir()] == [True]


class Killed(Exception):
    pass


class DyingState(ResumeState):
    """A resume state whose process dies right after the save with number `last`."""

    def __init__(self, folder, last):
        super().__init__(folder)
        self.left = last

    def save(self, state):
        super().save(state)
        self.left -= 1
        if self.left == 0:
            raise Killed


def trained(folder, settings, state):
    """(state of the method, history) of a training in this process that saves after every step."""
    from methods.method import DataFacts, build_method
    from preparation.prepared import open_prepared
    from training.fabric import Fabric
    from training.feed import training_feed
    from training.loop import TrainingData, train

    data = open_prepared(folder)
    fabric = Fabric(accelerator="cpu", devices=1, plugins=[LightningEnvironment()])
    images = training_feed(data, np.arange(200), None, fabric.device)
    torch.manual_seed(0)
    method = build_method(settings, DataFacts(10, (8, 8, 1), 200))
    outcome = train(fabric, method, settings, TrainingData(images, data.card["normalisation"]), 5, state, 0)
    history = [{k: v for k, v in row.items() if k not in TIMING} for row in outcome.history]
    return {key: value for key, value in method.state_dict().items() if isinstance(value, torch.Tensor)}, history


SMALL = {"base": None, "batch_size": 64, "network": {"widths": [8, 16]}, "schedule": {"epochs": 2}}
SMALL_MLP = {"base": None, "batch_size": 64, "network": {"widths": [16, 4]}, "schedule": {"epochs": 2}}
METHODS = {  # name -> (changes, steps per epoch)
    "mixem": (SMALL, 3),
    "dcrl": ({**SMALL_MLP, "settings": {"start_epoch": 1, "ramp_epochs": 2, "init_rows": 60}}, 4),
    "dec": ({**SMALL_MLP, "settings": {"interval": 3}}, 4),
    "cdc": ({**SMALL, "settings": {"queue": 100}}, 3),  # key encoder, and a queue that wraps around
    "pcl": ({**SMALL, "settings": {"queue": 100, "clusters": [4, 8], "warmup_epochs": 1}}, 3),
}


@pytest.mark.parametrize("name", METHODS)
def test_death_after_any_save_is_made_good(digits_200, name, tmp_path):
    """Every place where state can be saved, the end of an epoch's last step among them, in one short run."""
    from pipeline.recipes import resolve

    settings = resolve(name, "digits_200", {"*": METHODS[name][0]})

    def run(state):
        return trained(digits_200, settings, state)

    weights, history = run(ResumeState(tmp_path / "unbroken"))
    assert len(history) == 2
    saves = 2 * METHODS[name][1] + 1  # after each step of two epochs, and between the epochs
    for last in range(1, saves + 1, 1 if name == "mixem" else 3):
        folder = tmp_path / str(last)
        with pytest.raises(Killed):
            run(DyingState(folder, last))
        again, its_history = run(ResumeState(folder))
        assert its_history == history, last
        assert all(torch.equal(again[name], weights[name]) for name in weights), last


VARIANTS = {
    "sgd": {
        "optimiser": {"name": "sgd", "lr": 0.01, "weight_decay": 1e-5, "momentum": 0.9, "nesterov": True},
        "schedule": {"name": "step", "milestones": [3, 6], "gamma": 0.1, "per": "epoch", "epochs": 5},
    },
    "adamw": {
        "optimiser": {"name": "adamw", "lr": 1e-3, "weight_decay": 1e-5, "betas": [0.9, 0.95]},
        "schedule": {"name": "constant", "epochs": 5},
    },
    "lars": {
        "optimiser": {
            "name": "lars",
            "lr": 0.5,
            "weight_decay": 1e-5,
            "momentum": 0.9,
            "trust": 0.01,
            "exclude_bias_and_norm": True,
        },
        "schedule": {"warmup_epochs": 2},
    },
    "split_bn": {"network": {"split_batch_norm": 4}, "schedule": {"hold_epochs": 3, "per": "epoch"}},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_every_optimiser_schedule_and_split_batch_norm_resumes_exactly(digits_200, name, tmp_path):
    from pipeline.recipes import merge, resolve

    small = {"base": None, "batch_size": 64, "schedule": {"epochs": 5}, "network": {"widths": [8, 16]}}
    settings = resolve("simclr_base", "digits_200", {"*": merge(small, VARIANTS[name])})
    weights, history = trained(digits_200, settings, ResumeState(tmp_path / "unbroken"))
    assert len(history) == 5
    with pytest.raises(Killed):  # within the third epoch, after the warm-up and before a milestone
        trained(digits_200, settings, DyingState(tmp_path / "broken", 9))
    again, its_history = trained(digits_200, settings, ResumeState(tmp_path / "broken"))
    assert its_history == history
    assert all(torch.equal(again[key], weights[key]) for key in weights)


def test_two_unreadable_generations_start_anew(tmp_path, capsys):
    state = ResumeState(tmp_path / "run")
    assert state.load() is None
    state.save({"epoch": 1})
    state.save({"epoch": 2})
    assert state.load() == {"epoch": 2}
    written = state.newest.read_bytes()
    for place in (0, 40, len(written) // 2, len(written) - 1):  # one flipped bit anywhere is seen
        state.newest.write_bytes(written[:place] + bytes([written[place] ^ 1]) + written[place + 1 :])
        assert state.load() == {"epoch": 1}
    state.newest.write_bytes(b"")
    assert state.load() == {"epoch": 1}
    state.previous.write_bytes(b"PK\x03\x04 not an archive")
    assert state.load() is None
    assert capsys.readouterr().err.count("falling back") == 7
    state.remove()
    assert not (tmp_path / "run").exists()


def test_a_state_in_the_folder_of_another_run_is_not_taken_up(tmp_path, capsys):
    one, other = ResumeState(tmp_path / "train-a"), ResumeState(tmp_path / "train-b")
    one.save({"epoch": 3})
    assert one.load() == {"epoch": 3}
    (tmp_path / "train-b").mkdir()
    (tmp_path / "train-b" / "state.pt").write_bytes(one.newest.read_bytes())
    assert other.load() is None
    assert "train-b/state.pt cannot be read (its content is not what was written)" in capsys.readouterr().err
