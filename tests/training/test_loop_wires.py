"""What the loop does in which order, and to what: a tiny method writes down every call."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Generator

import training.loop
from pipeline.record import StageError
from tests.training.recorder import ROWS, SEED, STEPS, Recorder
from training.checkpoint import ResumeState
from training.fabric import Fabric
from training.feed import Images
from training.loop import TrainingData, train
from training.optimisers import build_optimiser, schedule
from training.seeds import derive


class Killed(Exception):
    pass


class Dying(ResumeState):
    """Ends the run right after the save with number `left`."""

    left = 0

    def save(self, state):
        super().save(state)
        self.left -= 1
        if self.left == 0:
            raise Killed


SGD = {"name": "sgd", "lr": 0.1, "weight_decay": 0.01, "momentum": 0.9}
COSINE = {"name": "cosine", "epochs": 2, "warmup_epochs": 1, "per": "step"}


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Train a recorder; returns the outcome. The optimiser's steps stand among its calls, with rates and gradients."""

    def start(method, state=None, minutes=10.0, weights=None, optimiser=SGD, neighbours=None, **changes):
        def watched(settings, module):
            made = build_optimiser(settings, module)
            made.register_step_pre_hook(
                lambda own, *_: method.calls.append(
                    ("optimiser", [group["lr"] for group in own.param_groups],
                     {name: None if p.grad is None else p.grad.clone() for name, p in method.named_parameters()})
                )
            )  # fmt: skip
            method.groups = made.param_groups
            return made

        monkeypatch.setattr(training.loop, "build_optimiser", watched)
        recipe = {"method": "recorder", "schedule": COSINE, "batch_size": 4, "optimiser": optimiser, "augmentation": {}}
        recipe |= {"weights": weights or {"trunk": 1, "head": 1}, **changes}
        images = np.random.default_rng(0).integers(0, 256, (ROWS, 2, 2, 1), dtype=np.uint8)
        data = TrainingData(Images(images, None, torch.device("cpu")), {"mean": [0.5], "std": [0.5]}, neighbours)
        fabric = Fabric(accelerator="cpu", devices=1)
        return train(fabric, method, recipe, data, SEED, state or ResumeState(tmp_path / "state"), minutes)

    return start


def kinds(method):
    return [call[0] for call in method.calls]


STEP = ["before_step", "losses", "optimiser", "after_step"]
END = ["after_epoch", "statistics", "chance"]
EPOCH = ["before_epoch", *STEP * STEPS, *END]


def test_calls_come_in_their_order(run):
    method = Recorder()
    outcome = run(method)
    assert kinds(method) == EPOCH * 2
    assert [where for what, where, _ in method.calls if what == "before_step"] == list(range(6))
    assert [where for what, where, _ in method.calls if what in ("before_epoch", "after_epoch")] == [0, 0, 1, 1]
    epochs = [[c[1] for c in method.calls if c[0] == "losses"][i * STEPS : (i + 1) * STEPS] for i in (0, 1)]
    assert all(sorted(sum(epoch, ())) == list(range(ROWS)) for epoch in epochs)
    assert epochs[0] != epochs[1]
    assert [row["epoch"] for row in outcome.history] == [1, 2]


def test_torch_is_seeded_before_each_hook(run):
    """What a method draws depends on the run's seed and where it stands, not on what was drawn before."""
    method = Recorder()
    run(method)
    drawn = {(what, where): value for what, where, value in method.calls if what.startswith(("before", "after_epoch"))}
    steps = [value for what, _, value in method.calls if what == "losses"]

    def of(*path):
        return float(torch.rand((), generator=Generator().manual_seed(derive(SEED, *path))))

    for epoch in (0, 1):
        assert drawn["before_epoch", epoch] == of("before_epoch", epoch)
        assert drawn["after_epoch", epoch] == of("after_epoch", epoch)
        for step in range(STEPS):
            assert drawn["before_step", epoch * STEPS + step] == of("before_step", epoch, step)
            assert steps[epoch * STEPS + step] == of("step", epoch, step)


@pytest.mark.parametrize("per", ["step", "epoch"])
@pytest.mark.parametrize("killed", [None, 1, 3, 4])
def test_every_group_learns_at_schedule_times_its_scale_also_after_resume(run, per, killed, tmp_path):
    settings, optimiser = {**COSINE, "epochs": 3, "per": per}, SGD | {"head_lr": 0.5}
    found = []
    if killed:
        first, dying = Recorder(), Dying(tmp_path / "state")
        dying.left = killed
        with pytest.raises(Killed):
            run(first, dying, 0, optimiser=optimiser, schedule=settings)
        found += first.calls
    method = Recorder()
    outcome = run(method, optimiser=optimiser, schedule=settings)
    found = [call[1] for call in found + method.calls if call[0] == "optimiser"]
    factor = schedule(settings, STEPS)
    assert found == [pytest.approx([0.1 * factor(step), 0.5 * factor(step)]) for step in range(9)]
    assert len({rates[0] for rates in found}) > 1
    assert [len(group["params"]) for group in method.groups] == [4, 2]
    assert [row["lr"] for row in outcome.history] == pytest.approx([0.1 * factor(step) for step in (2, 5, 8)])


@pytest.mark.parametrize("killed", [1, 2, 3, 4, 5])  # saves: after each of three steps, and at an epoch's end
def test_a_resumed_run_calls_what_is_left_and_no_more(run, killed, tmp_path):
    whole, first, rest = Recorder(), Recorder(), Recorder()
    run(whole, ResumeState(tmp_path / "whole"))
    dying = Dying(tmp_path / "state")
    dying.left = killed
    with pytest.raises(Killed):
        run(first, dying, 0)
    run(rest, minutes=0)
    done = first.calls + rest.calls
    if killed == 3:  # saved before the epoch's end, which is then done by the second process alone
        assert kinds(rest)[: len(END)] == END
    assert kinds(SimpleNamespace(calls=done)) == kinds(whole)
    plain = [[call for call in calls if call[0] != "optimiser"] for calls in (done, whole.calls)]
    assert plain[0] == plain[1]
    for one, other in zip(rest.parameters(), whole.parameters(), strict=True):
        assert torch.equal(one, other)


def test_training_ends_with_the_epoch_after_which_the_method_has_finished(run):
    method = Recorder()
    method.ends_after = 2
    outcome = run(method, schedule={**COSINE, "epochs": 5})
    assert len(outcome.history) == 2
    assert kinds(method) == EPOCH * 2
    assert outcome.status == "ok"


def test_an_empty_batch_changes_neither_weights_nor_statistics(run):
    before, method = Recorder(), Recorder()
    method.empty_steps = tuple(range(6))
    outcome = run(method)
    assert kinds(method) == ["before_epoch", *["before_step", "losses"] * STEPS, *END]
    assert outcome.status == "untaught"
    assert outcome.untaught == {"epoch": 1, "steps": STEPS}
    for name, value in before.state_dict().items():
        if name != "ended":
            assert torch.equal(method.state_dict()[name], value), name
    some = Recorder()
    some.empty_steps = (1, 4)
    assert run(some).status == "ok"
    one = ["before_epoch", *STEP, "before_step", "losses", *STEP, *END]
    assert kinds(some) == one * 2
    assert int(some.backbone.norm.num_batches_tracked) == 4


def test_an_epoch_that_was_taught_before_a_kill_was_taught(run, tmp_path):
    first, rest, dying = Recorder(), Recorder(), Dying(tmp_path / "state")
    dying.left = 1
    with pytest.raises(Killed):
        run(first, dying, 0)
    rest.empty_steps = (1, 2, 3, 4)
    assert run(rest).status == "ok"


def gradients(method):
    return next(call[2] for call in method.calls if call[0] == "optimiser")


def test_weights_multiply_their_terms_and_zero_leaves_the_gradient_alone(run, tmp_path):
    plain, weighed, without = Recorder(), Recorder(), Recorder()
    run(plain, ResumeState(tmp_path / "1"))
    outcome = run(weighed, ResumeState(tmp_path / "2"), weights={"trunk": 3, "head": 0.5})
    for name, gradient in gradients(plain).items():
        if name != "backbone.frozen":
            factor = 0.5 if name.startswith("head.") else 3
            torch.testing.assert_close(gradients(weighed)[name], factor * gradient, rtol=1e-4, atol=1e-5)
    row = outcome.history[0]
    assert row["total"] == pytest.approx(3 * row["trunk"] + 0.5 * row["head"], rel=1e-5)
    before = without.head.weight.detach().clone()
    outcome = run(without, ResumeState(tmp_path / "3"), weights={"trunk": 1, "head": 0})
    assert gradients(without)["head.weight"] is None
    assert torch.equal(without.head.weight, before)  # no decay and no momentum either
    assert outcome.history[0]["head"] > 0  # shown all the same
    assert outcome.history[0]["total"] == pytest.approx(outcome.history[0]["trunk"])


def test_the_optimiser_holds_what_has_a_gradient_and_nothing_else(run):
    method = Recorder()
    run(method)
    held = {id(p) for group in method.groups for p in group["params"]}
    assert held == {id(p) for name, p in method.named_parameters() if name != "backbone.frozen"}
    assert method.backbone.frozen.tolist() == [1, 1]


def test_a_state_of_another_number_of_processes_is_refused(run, tmp_path):
    dying = Dying(tmp_path / "state")
    dying.left = 2
    with pytest.raises(Killed):
        run(Recorder(), dying, 0)
    saved = dying.load()
    dying.left = 0
    dying.save(saved | {"sums": saved["sums"].repeat(2, 1)})
    with pytest.raises(StageError, match="the saved state is of 2 processes, this run has 1"):
        run(Recorder())


@pytest.mark.parametrize(("declared", "given"), [(1, 2), (2, 1), (0, 2)])
def test_another_number_of_views_than_the_method_learns_from_is_refused(run, monkeypatch, declared, given):
    class Viewer(Recorder):
        views = declared

    whole = Images.epoch
    monkeypatch.setattr(Images, "epoch", lambda self, order, epoch, first, augment, views, clean: whole(
        self, order, epoch, first, augment, given, clean))  # fmt: skip
    method = Viewer()
    with pytest.raises(StageError, match=f"a batch of {given} views, but method 'recorder' learns from"):
        run(method)
    assert "losses" not in kinds(method)


@pytest.mark.parametrize(("wanted", "given"), [(2, 1), (2, 0), (0, 2)])
def test_another_number_of_views_of_partners_is_refused(run, monkeypatch, wanted, given):
    class Viewer(Recorder):
        views = 2

    def epoch(self, *arguments):
        for step, batch in whole(self, *arguments):
            batch.partners = batch.views[:given]
            yield step, batch

    whole = Images.epoch
    monkeypatch.setattr(Images, "epoch", epoch)
    method = Viewer()
    with pytest.raises(StageError, match=f"a batch of {given} views of partners, .* 'recorder' learns from {wanted}"):
        run(method, neighbours=torch.zeros(ROWS, 1, dtype=torch.long) if wanted else None)
    assert "losses" not in kinds(method)
