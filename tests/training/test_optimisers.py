import math
from itertools import pairwise

import pytest
import torch

from pipeline.recipes import resolve
from pipeline.record import StageError
from training.optimisers import build_optimiser, schedule


def test_cosine_per_epoch_with_hold_is_mixems_schedule():
    """Constant for 10 epochs, then torch's CosineAnnealingLR with T_max = epochs - 10."""
    factor = schedule({"name": "cosine", "epochs": 30, "hold_epochs": 10, "per": "epoch"}, steps_per_epoch=7)
    layer = torch.nn.Linear(1, 1)
    optimiser = torch.optim.SGD(layer.parameters(), 1.0)
    reference = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=20)
    for epoch in range(30):
        expected = 1.0 if epoch < 10 else reference.get_last_lr()[0]
        for step in (0, 6):
            assert factor(epoch * 7 + step) == pytest.approx(expected, abs=1e-12)
        if epoch >= 10:
            optimiser.step()
            reference.step()


def test_warmup_rises_to_one_and_cosine_falls_to_the_final_factor():
    factor = schedule(
        {"name": "cosine", "epochs": 10, "warmup_epochs": 2, "final_factor": 0.1, "per": "step"}, steps_per_epoch=5
    )
    values = [factor(step) for step in range(50)]
    assert values[0] == pytest.approx(0.1)  # one of ten warm-up steps
    assert values[9] == pytest.approx(1.0)
    assert all(a < b for a, b in pairwise(values[:10]))
    assert all(a >= b for a, b in pairwise(values[10:]))
    assert values[-1] == pytest.approx(0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * 39 / 40)))


def test_constant_stays():
    factor = schedule({"name": "constant", "epochs": 3}, steps_per_epoch=4)
    assert {factor(step) for step in range(12)} == {1.0}


def test_inverse_schedule_falls_with_the_steps_of_the_whole_training():
    factor = schedule({"name": "inverse", "epochs": 9, "decay": 0.5, "power": 0.75}, steps_per_epoch=4)
    assert [factor(step) for step in (0, 1, 6)] == pytest.approx([1, 1.5**-0.75, 4**-0.75])


def test_step_schedule_falls_at_its_milestones():
    settings = {"name": "step", "epochs": 100, "milestones": [60, 80], "gamma": 0.1, "per": "epoch"}
    factor = schedule(settings, steps_per_epoch=3)
    assert [factor(epoch * 3) for epoch in (0, 59, 60, 79, 80, 99)] == pytest.approx([1, 1, 0.1, 0.1, 0.01, 0.01])


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({"name": "sgd", "lr": 0.06, "momentum": 0.9, "weight_decay": 5e-4}, torch.optim.SGD),
        ({"name": "adam", "lr": 1e-4, "weight_decay": 1e-5}, torch.optim.Adam),
        ({"name": "adamw", "lr": 1e-4, "weight_decay": 1e-5, "betas": [0.9, 0.95]}, torch.optim.AdamW),
    ],
)
def test_optimiser_settings_arrive(settings, kind):
    layer = torch.nn.Linear(2, 2)
    layer.bias.requires_grad_(False)
    optimiser = build_optimiser(settings, layer)
    assert isinstance(optimiser, kind)
    group = optimiser.param_groups[0]
    assert [group["lr"], group["weight_decay"]] == [settings["lr"], settings["weight_decay"]]
    assert len(group["params"]) == 1  # frozen parameters are left out


def test_momentum_and_nesterov_arrive():
    settings = {"name": "sgd", "lr": 0.1, "momentum": 0.8, "weight_decay": 0}
    for nesterov in (False, True):
        group = build_optimiser(settings | {"nesterov": nesterov}, torch.nn.Linear(2, 2)).param_groups[0]
        assert [group["momentum"], group["nesterov"]] == [0.8, nesterov]


def test_biases_and_norms_go_without_decay():
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    settings = {"name": "sgd", "lr": 1, "weight_decay": 0.1, "exclude_bias_and_norm": True}
    groups = build_optimiser(settings, net).param_groups
    assert [(len(group["params"]), group["weight_decay"]) for group in groups] == [(1, 0.1), (3, 0.0)]


def test_a_rate_of_the_head_and_no_decay_for_biases_go_together():
    net = torch.nn.Module()
    net.backbone, net.head = torch.nn.Linear(2, 3), torch.nn.Linear(3, 4)
    settings = {"name": "sgd", "lr": 1, "head_lr": 5, "weight_decay": 0.1, "exclude_bias_and_norm": True}
    groups = build_optimiser(settings, net).param_groups
    found = {
        (tuple(p.shape), group["weight_decay"], group.get("scale", 1)) for group in groups for p in group["params"]
    }
    assert found == {((3, 2), 0.1, 1), ((3,), 0.0, 1), ((4, 3), 0.1, 5), ((4,), 0.0, 5)}


def test_lars_against_its_formula():
    """Two steps of You et al.: trust |w| / (|g| + decay |w|) for weights, plain momentum for biases."""
    torch.manual_seed(0)
    layer = torch.nn.Linear(3, 2).double()
    settings = {
        "name": "lars", "lr": 0.5, "momentum": 0.9, "weight_decay": 0.01, "trust": 0.02, "exclude_bias_and_norm": True,
    }  # fmt: skip
    optimiser = build_optimiser(settings, layer)
    x = torch.randn(4, 3, dtype=torch.float64)
    expected = {name: value.detach().clone() for name, value in layer.named_parameters()}
    momentum = {name: torch.zeros_like(value) for name, value in expected.items()}
    for _ in range(2):
        optimiser.zero_grad()
        layer(x).square().sum().backward()
        for name, value in layer.named_parameters():
            update = value.grad.clone()
            if name == "weight":
                trust = 0.02 * expected[name].norm() / (update.norm() + 0.01 * expected[name].norm())
                update = trust * (update + 0.01 * expected[name])
            momentum[name] = 0.9 * momentum[name] + update
            expected[name] = expected[name] - 0.5 * momentum[name]
        optimiser.step()
        for name, value in layer.named_parameters():
            torch.testing.assert_close(value.detach(), expected[name], rtol=1e-6, atol=1e-9)


def test_a_cosine_longer_than_the_training_ends_above_zero():
    """MIX'EM's released schedule: T_max is all epochs, of which the first ten are held."""
    settings = {"name": "cosine", "epochs": 30, "hold_epochs": 10, "cosine_over": "all", "per": "epoch"}
    factor = schedule(settings, steps_per_epoch=1)
    assert factor(10) == 1
    assert factor(29) == pytest.approx(0.5 * (1 + math.cos(math.pi * 19 / 30)))


def test_named_parts_keep_their_rate():
    module = torch.nn.Module()
    module.backbone, module.predictor = torch.nn.Linear(2, 2), torch.nn.Linear(2, 3)
    settings = {"name": "sgd", "lr": 0.5, "weight_decay": 0.1, "constant_rate": ["predictor"]}
    groups = build_optimiser(settings, module).param_groups
    assert [len(group["params"]) for group in groups] == [2, 2]
    assert [group["constant"] for group in groups] == [False, True]
    assert groups[1]["params"][0] is module.predictor.weight
    with pytest.raises(StageError, match="the method has no part 'predicter'"):
        build_optimiser({**settings, "constant_rate": ["predicter"]}, module)


@pytest.mark.parametrize("name", ["barlow_twins", "byol", "simclr_solo", "swav", "vicreg"])
def test_solo_learns_recipes_clip_lars_as_solo_learn_does(name):
    settings = resolve(name, "cifar10", {})["optimiser"]
    assert [settings[key] for key in ("name", "trust", "clip_lr", "exclude_bias_and_norm")] == [
        "lars",
        0.02,
        True,
        True,
    ]
    group = build_optimiser(settings, torch.nn.Linear(2, 2)).param_groups[0]
    assert [group[key] for key in ("trust", "clip_lr", "exclude_flat")] == [0.02, True, True]


def test_other_lars_is_not_clipped():
    group = build_optimiser(resolve("uniclr", "imagenet1k", {})["optimiser"], torch.nn.Linear(2, 2)).param_groups[0]
    assert [group[key] for key in ("trust", "clip_lr", "exclude_flat", "weight_decay")] == [0.001, False, True, 1e-6]
