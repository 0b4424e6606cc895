import math

import pytest
import torch

from methods.blocks.lars import EPS, LARS


def net(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.BatchNorm1d(7), torch.nn.Linear(7, 3))


def steps(module, optimiser, count=5, rates=(0.5, 0.3)):
    """Train a little; the rate changes on the way, as a schedule's does."""
    generator = torch.Generator().manual_seed(1)
    for step in range(count):
        optimiser.param_groups[0]["lr"] = rates[step % len(rates)]
        x = torch.randn(8, 5, generator=generator).to(next(module.parameters()))
        optimiser.zero_grad()
        module(x).square().sum().backward()
        optimiser.step()


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("weight_decay", [1e-6, 0.01])
def test_with_weight_decay_it_is_lightlys(momentum, weight_decay):
    from lightly.utils.lars import LARS as Reference

    ours, theirs = net(), net()
    steps(ours, LARS(ours.parameters(), 0.5, momentum, weight_decay, trust=0.02))
    steps(theirs, Reference(theirs.parameters(), 0.5, momentum, weight_decay=weight_decay, trust_coefficient=0.02))
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(one, other)


def by_loops(values, gradients, velocities, settings):
    """One step on lists of floats -> new values and velocities."""
    size, slope = (math.sqrt(sum(v * v for v in x)) for x in (values, gradients))
    rate, decay = 1.0, 0.0
    if size and slope and not (settings["exclude_flat"] and settings["flat"]):
        decay = settings["weight_decay"]
        rate = settings["trust"] * size / (slope + decay * size + EPS)
        if settings["clip_lr"]:
            rate = min(rate / settings["lr"], 1)
    moved = [
        settings["momentum"] * v + rate * (g + decay * w) for w, g, v in zip(values, gradients, velocities, strict=True)
    ]
    return [w - settings["lr"] * v for w, v in zip(values, moved, strict=True)], moved


@pytest.mark.parametrize("exclude_flat", [False, True])
@pytest.mark.parametrize("clip_lr", [False, True])
@pytest.mark.parametrize(("weight_decay", "trust"), [(0.0, 0.001), (0.0, 5.0), (0.01, 0.02), (0.3, 50.0)])
def test_the_formula_in_plain_floats(weight_decay, trust, clip_lr, exclude_flat):
    module = net().double()
    with torch.no_grad():
        module[0].weight[:] = 0  # plain momentum until it is not zero any more
    settings = {"momentum": 0.9, "weight_decay": weight_decay, "trust": trust, "clip_lr": clip_lr}
    optimiser = LARS(module.parameters(), 0.5, **settings, exclude_flat=exclude_flat)
    expected = [(p.detach().flatten().tolist(), [0.0] * p.numel()) for p in module.parameters()]
    generator = torch.Generator().manual_seed(2)
    for step in range(4):
        lr = optimiser.param_groups[0]["lr"] = 0.5 / (step + 1)
        optimiser.zero_grad()
        module(torch.randn(8, 5, generator=generator, dtype=torch.float64)).square().sum().backward()
        for number, parameter in enumerate(module.parameters()):
            more = {"lr": lr, "exclude_flat": exclude_flat, "flat": parameter.ndim <= 1}
            expected[number] = by_loops(
                expected[number][0], parameter.grad.flatten().tolist(), expected[number][1], settings | more
            )
        optimiser.step()
        for (values, _), parameter in zip(expected, module.parameters(), strict=True):
            torch.testing.assert_close(parameter.detach().flatten(), torch.tensor(values, dtype=torch.float64))


def test_without_decay_the_step_follows_the_weights_not_the_gradient():
    """A loss a thousand times as large moves a layer as far: plain SGD would go a thousand times as far."""
    moved = []
    for scale in (1, 1000):
        layer = torch.nn.Linear(5, 3)
        with torch.no_grad():
            layer.weight.fill_(1)
        before = layer.weight.detach().clone()
        optimiser = LARS(layer.parameters(), 0.1, trust=0.001, exclude_flat=True)
        (scale * layer(torch.ones(2, 5)).sum()).backward()
        optimiser.step()
        moved.append((layer.weight - before).norm().item())
    assert moved == pytest.approx([0.1 * 0.001 * math.sqrt(15)] * 2, rel=1e-3)


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="trust is -1"):
        LARS(net().parameters(), 0.1, trust=-1)


def test_no_gradient_no_step_and_a_closure_gives_its_loss():
    layer = torch.nn.Linear(2, 2)
    before = layer.weight.detach().clone()
    optimiser = LARS(layer.parameters(), 0.1, momentum=0.9)
    optimiser.step()
    assert torch.equal(layer.weight, before)

    def closure():
        loss = layer(torch.ones(1, 2)).square().sum()
        loss.backward()
        return loss.item()

    assert optimiser.step(closure) > 0
    assert not torch.equal(layer.weight, before)
