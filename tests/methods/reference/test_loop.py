"""The loop's own wires: rates by group and step, momentum, decay, labels, a small last batch, the recipe's Adam."""

import math

import pytest
import torch

from tests.methods.reference.harness import BATCH, CLASSES, follow_along
from tests.methods.reference.test_pairs import nt_xent
from tests.methods.reference.weights import RATE, Weights, cross_entropy


def classified(w, step):
    h = w.convnet(step.views[0])
    return h @ w["classifier.weight"].T + w["classifier.bias"]


def smoothed(logits, labels, smoothing):
    spread = -logits.log_softmax(1).mean(1).mean()
    return (1 - smoothing) * cross_entropy(logits, labels) + smoothing * spread


def test_supervised_with_labels_and_a_last_batch_of_half_the_size():
    run = follow_along("supervised", settings={"label_smoothing": 0.1}, rows=20, labels=True)
    assert [len(step.index) for step in run.steps] == [8, 8, 4] * 2
    w = Weights(run, "backbone", "classifier")
    for step in run.steps:
        assert torch.equal(step.labels, step.index % CLASSES)
        w.step(step, {"cross_entropy": smoothed(classified(w, step), step.labels, 0.1)})
    run.check(w)


def test_heads_learn_at_their_own_rate_with_momentum_and_decay():
    """head_lr, SGD with momentum and decay, a rate that falls by steps: v <- 0.9 v + g + 0.01 w, w <- w - r v."""
    optimiser = {"name": "sgd", "lr": 0.05, "head_lr": 0.5, "momentum": 0.9, "weight_decay": 0.01}
    schedule = {"name": "step", "milestones": [1], "gamma": 0.5, "per": "epoch", "epochs": 2}
    run = follow_along("supervised", labels=True, optimiser=optimiser, schedule=schedule)
    w = Weights(run, "backbone", "classifier")
    speed = {}
    for step in run.steps:
        loss = cross_entropy(classified(w, step), step.labels)
        w.terms.append((step.epoch, {"cross_entropy": float(loss.detach())}))
        gradients = torch.autograd.grad(loss, [w[name] for name in w.learned])
        for name, gradient in zip(w.learned, gradients, strict=True):
            rate = (0.05 if name.startswith("backbone") else 0.5) * 0.5**step.epoch
            speed[name] = 0.9 * speed.get(name, 0) + gradient + 0.01 * w[name].detach()
            w.move(name, -rate * speed[name])
    run.check(w)


def test_simclr_with_the_recipes_own_adam_and_cosine_within_the_epoch():
    schedule = {"name": "cosine", "epochs": 2, "per": "step"}
    optimiser = {"name": "adam", "lr": 1e-3, "weight_decay": 1e-5}  # the family's
    run = follow_along("simclr", settings={"embedding": 5}, schedule=schedule, optimiser=optimiser)
    w = Weights(run, "backbone", "head")
    first, second = {}, {}
    for number, step in enumerate(run.steps):
        loss = nt_xent(*(w.embed(view) for view in step.views), 0.5)
        w.terms.append((step.epoch, {"contrast": float(loss.detach())}))
        gradients = torch.autograd.grad(loss, [w[name] for name in w.learned])
        rate = 1e-3 * 0.5 * (1 + math.cos(math.pi * number / len(run.steps)))
        for name, gradient in zip(w.learned, gradients, strict=True):
            g = gradient + 1e-5 * w[name].detach()  # Adam's own decay is part of the gradient
            first[name] = 0.9 * first.get(name, 0) + 0.1 * g
            second[name] = 0.999 * second.get(name, 0) + 0.001 * g * g
            mean = first[name] / (1 - 0.9 ** (number + 1))
            square = second[name] / (1 - 0.999 ** (number + 1))
            w.move(name, -rate * mean / (square.sqrt() + 1e-8))
    run.check(w)
    rates = [row["lr"] for row in run.outcome.history]  # of each epoch's last step
    expected = [1e-3 * 0.5 * (1 + math.cos(math.pi * n / 4)) for n in (1, 3)]
    torch.testing.assert_close(torch.tensor(rates), torch.tensor(expected))


def test_a_constant_rate_is_what_the_other_tests_use():
    assert follow_along("simclr", settings={"embedding": 5}).outcome.history[-1]["lr"] == RATE


def collapsed(method):
    """Every image gets the same output: the last layers see nothing but their bias."""
    if hasattr(method, "experts"):
        method.experts.weight.zero_()
        method.gate[2].weight.zero_()
    else:
        method.head[2].weight.zero_()


@pytest.mark.parametrize(("name", "candidates"), [("simclr", 2 * BATCH - 1), ("mixem", 2 * BATCH - 1), ("cdc", BATCH)])
def test_a_collapsed_contrast_is_told(name, candidates):
    """The loss of a collapsed network is the logarithm of an anchor's candidates."""
    weights = {"equipartition": 0} if name == "cdc" else {}
    row = follow_along(name, prepare=collapsed, optimiser={"lr": 1e-9}, weights=weights).outcome.history[-1]
    assert row["contrast"] == pytest.approx(math.log(candidates), rel=1e-5)
    assert row["at_chance"] == 1
    assert follow_along(name, weights=weights).outcome.history[-1]["at_chance"] == 0


def test_a_term_that_is_not_trained_says_nothing_of_chance():
    weights = {"contrast": 0, "equipartition": 1}
    run = follow_along("cdc", prepare=collapsed, weights=weights)
    assert "at_chance" not in run.outcome.history[-1]
