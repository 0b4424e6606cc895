import numpy as np
import pytest
import torch

from evaluation.probes import linear
from tests.evaluation.samples import blobs, probe


def test_holdout_probe_never_reads_test_labels():
    """Scrambled test labels change the score, not what was chosen."""
    x, y = blobs(rows=400)
    scrambled = y.copy()
    scrambled[300:] = np.random.default_rng(0).permutation(scrambled[300:])
    results = [
        probe("linear_mixem", x, labels, range(300), range(300, 400), seed=1, epochs=30) for labels in (y, scrambled)
    ]
    assert results[0]["epoch"] == results[1]["epoch"]
    assert results[1]["ACC"] < results[0]["ACC"]


def test_random_features_give_chance():
    generator = np.random.default_rng(1)
    x, y = generator.normal(size=(600, 8)).astype(np.float32), np.arange(600) % 4
    found = probe("linear_mixem", x, y, range(400), range(400, 600))
    assert abs(found["ACC"] - 0.25) < 0.12


def test_a_step_schedule_falls_at_its_milestones():
    """After a milestone a rate of nearly nothing leaves the layer where it was."""
    x, y = blobs(rows=200)
    changes = {"lr": 0.05, "gamma": 1e-9, "milestones": [3]}
    found = [
        probe("linear_imagenet", x, y, range(150), range(150, 200), epochs=epochs, **changes)["NMI"]
        for epochs in (3, 30)
    ]
    assert found[0] == found[1]


def test_lars_adapts_the_rate_without_weight_decay():
    """As a step of the weights that is as long as they are, times rate and trust, whatever the gradient."""
    x, y = blobs(rows=60)
    settings = linear.Settings("h", False, False, "lars", 0.08, 0.0, "constant", 2, 60, False, "last", momentum=0.9)
    layer = torch.nn.Linear(6, 4)
    before = layer.weight.detach().clone()
    optimiser = linear._optimiser(layer, settings)
    torch.nn.functional.cross_entropy(layer(torch.from_numpy(x)), torch.from_numpy(y)).backward()
    slope = layer.bias.grad.clone()
    bias = layer.bias.detach().clone()
    optimiser.step()
    assert (layer.weight - before).norm().item() == pytest.approx(0.08 * 0.001 * before.norm().item(), rel=1e-3)
    torch.testing.assert_close(layer.bias.detach(), bias - 0.08 * slope)  # biases are not adapted
