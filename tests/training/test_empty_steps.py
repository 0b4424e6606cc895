"""Steps of self-labelling in which no image is confident change no bit, and an epoch of them ends the training."""

import json
import sys

import numpy as np
import pytest
import torch

import training.loop
from methods.method import DataFacts, build_method
from pipeline.provenance import canonical_json
from pipeline.recipes import resolve
from pipeline.record import run_stage
from training.checkpoint import ResumeState
from training.fabric import Fabric, LightningEnvironment
from training.feed import Images
from training.loop import TrainingData
from training.train import main

ROWS, STEPS = 24, 3
COUNTERS = ("labelling.images", "labelling.labelled", "labelling.empty_steps")
OPTIMISERS = {
    "sgd": {"name": "sgd", "lr": 0.1, "momentum": 0.9, "weight_decay": 0.1},
    "adam": {"name": "adam", "lr": 0.01, "weight_decay": 0.1},
}
CASES = [(name, optimiser) for name in ("selflabel", "cdc_selflabel") for optimiser in OPTIMISERS]


class Watch:
    """One training whose steps in `empty` find no confident image: what method and optimiser are before each step."""

    def __init__(self, name, optimiser, empty, monkeypatch, epochs=2):
        changes = {"optimiser": OPTIMISERS[optimiser], "schedule": {"epochs": epochs}, "batch_size": ROWS // STEPS}
        changes |= {"base": None, "network": {"widths": [4, 6]}}
        settings = {"threshold": 0.0, "ema": 0.7}
        recipe = resolve(name, "digits", {"*": changes, name: {"settings": settings}})
        torch.manual_seed(0)
        self.method, self.recipe, self.seen = build_method(recipe, DataFacts(4, (8, 8, 1), ROWS)), recipe, []
        monkeypatch.setattr(training.loop, "build_optimiser", self.build_optimiser(training.loop.build_optimiser))
        method, threshold = self.method, self.method.labelling.threshold

        def before_step(context):
            self.seen.append(self.now())
            method.labelling.threshold = 2.0 if context.step in empty else threshold

        method.before_step = before_step

    def build_optimiser(self, plain):
        def build(*arguments):
            self.optimiser = plain(*arguments)
            return self.optimiser

        return build

    def now(self):
        """Clones of every tensor of the method (counters apart) and of the optimiser."""
        state = {f"method {k}": v.clone() for k, v in self.method.state_dict().items() if k not in COUNTERS}
        for number, kept in self.optimiser.state_dict()["state"].items():
            state |= {f"optimiser {number} {k}": torch.as_tensor(v).clone() for k, v in kept.items() if v is not None}
        return state

    def run(self, state=None):
        pixels = np.random.default_rng(0).random((ROWS, 8, 8, 1), dtype=np.float32)
        data = TrainingData(Images(pixels, None, torch.device("cpu")), {"mean": [0.5], "std": [0.3]})
        fabric = Fabric(accelerator="cpu", devices=1, plugins=[LightningEnvironment()])
        outcome = training.loop.train(fabric, self.method, self.recipe, data, 5, state or ResumeState("nowhere"), 0)
        self.seen.append(self.now())
        return outcome


class Unsaved(ResumeState):
    """Keeps no state."""

    def save(self, state):
        pass


class Killed(Exception):
    pass


class Dying(ResumeState):
    """The process dies after the first save."""

    def save(self, state):
        super().save(state)
        raise Killed


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())


@pytest.mark.parametrize(("name", "optimiser"), CASES)
def test_an_empty_epoch_changes_no_bit_and_is_untaught(name, optimiser, monkeypatch, tmp_path):
    watch = Watch(name, optimiser, range(STEPS), monkeypatch)
    outcome = watch.run(Unsaved(tmp_path))
    assert outcome.status == "untaught"
    assert outcome.untaught == {"epoch": 1, "steps": STEPS}
    assert len(outcome.history) == 1
    assert outcome.history[0]["empty_steps"] == STEPS
    assert outcome.history[0]["total"] == 0
    assert len(watch.seen) == STEPS + 1
    assert all(same(before, watch.seen[0]) for before in watch.seen)


@pytest.mark.parametrize(("name", "optimiser"), CASES)
def test_of_a_mixed_epoch_only_the_full_batches_step(name, optimiser, monkeypatch, tmp_path):
    """Momentum is in motion when the empty step comes; it neither moves a weight nor fades."""
    watch = Watch(name, optimiser, (1, 3, 4), monkeypatch)
    outcome = watch.run(Unsaved(tmp_path))
    assert outcome.status == "ok"
    assert [row["empty_steps"] for row in outcome.history] == [1, 2]
    assert any(key.startswith("optimiser") for key in watch.seen[1])
    moved = [not same(before, after) for before, after in zip(watch.seen, watch.seen[1:], strict=False)]
    assert moved == [step not in (1, 3, 4) for step in range(2 * STEPS)]
    after = watch.seen[-1]
    for part in ("method backbone.layers.0.weight", "method average.backbone.layers.0.weight"):
        assert not torch.equal(after[part], watch.seen[0][part])
    tracked = [value for key, value in after.items() if key.endswith("backbone.layers.1.num_batches_tracked")]
    assert [int(count) for count in tracked] == [6, 6]  # weak and strong views of three steps, not of six


def test_a_run_that_resumes_knows_that_it_was_taught(monkeypatch, tmp_path):
    """Only the first step teaches, and the process dies right after it: the epoch is not an empty one for that."""
    unbroken = Watch("selflabel", "sgd", (1, 2), monkeypatch, epochs=1)
    assert unbroken.run(Unsaved(tmp_path / "none")).status == "ok"
    broken = Watch("selflabel", "sgd", (1, 2), monkeypatch, epochs=1)
    with pytest.raises(Killed):
        broken.run(Dying(tmp_path / "state"))
    resumed = Watch("selflabel", "sgd", (1, 2), monkeypatch, epochs=1)
    outcome = resumed.run(ResumeState(tmp_path / "state"))
    assert outcome.status == "ok"
    assert outcome.history[0]["empty_steps"] == 2
    assert len(resumed.seen) == STEPS  # two steps, and the end
    assert same(resumed.seen[-1], unbroken.seen[-1])


@pytest.mark.parametrize("strict", [False, True])
def test_the_record_says_untaught_and_strict_makes_it_an_error(strict, digits_200, monkeypatch, tmp_path, capsys):
    changes = {"base": None, "batch_size": 64, "network": {"widths": [4, 6]}, "schedule": {"epochs": 3}}
    changes |= {"settings": {"threshold": 1.0}}
    recipe = canonical_json(resolve("selflabel", "digits_200", {"*": changes}))
    words = ["train", "--data", digits_200, "--recipe", recipe, "--protocol", "full", "--seed", 1, "--device", "cpu"]
    words += ["--out", tmp_path, "--resume", tmp_path / "resume", *(["--strict"] if strict else [])]
    monkeypatch.setattr(sys, "argv", list(map(str, words)))
    if strict:
        with pytest.raises(SystemExit):
            run_stage(main)
        assert "nothing to learn from: all 3 steps of epoch 1 were empty" in capsys.readouterr().err
        assert not (tmp_path / "train.json").exists()
        assert not (tmp_path / "resume").exists()
        return
    run_stage(main)
    record = json.loads((tmp_path / "train.json").read_text())["records"]["train"]
    assert (record["status"], record["epochs"]) == ("untaught", 1)
    assert record["untaught"] == {"epoch": 1, "steps": 3}
