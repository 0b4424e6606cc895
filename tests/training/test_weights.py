"""What a training starts from: the weights of its base, those of a file, and then the copies of them."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import training.train
from methods.blocks.batch_norm import SplitBatchNorm2d
from pipeline.record import StageError
from training.weights import inherit, load_weights


@pytest.mark.parametrize(
    ("base", "file", "expected"),
    [
        (True, True, ["build", "base", "file", "inherited"]),
        (True, False, ["build", "base", "inherited"]),
        (False, True, ["build", "file", "inherited"]),
        (False, False, ["build"]),
    ],
)
def test_copies_are_made_after_all_weights_are_there(monkeypatch, base, file, expected):
    done = []

    def build_method(recipe, facts):
        done.append("build")
        assert facts.rows == 5
        return SimpleNamespace(backbone=None, inherited=lambda: done.append("inherited"))

    monkeypatch.setattr(training.train, "build_method", build_method)
    monkeypatch.setattr(training.train, "inherit", lambda *_: done.append("base"))
    monkeypatch.setattr(training.train, "load_weights", lambda *_: done.append("file") or {"file": "w"})
    recipe = {"network": {"weights": "w.pth"} if file else {}}
    card = {"classes": 3, "shape": [2, 2, 1]}
    model = {"method": {}, "seed": 0} if base else None
    inputs = SimpleNamespace(data=SimpleNamespace(card=card), recipe=recipe, rows=np.arange(5), base=model)
    _, weights = training.train.build(inputs, 0, "model.pt" if base else None)
    assert done == expected
    assert weights == ({"file": "w"} if file else None)


def test_a_file_of_two_networks_is_refused(tmp_path):
    layer = nn.Linear(2, 3)
    one, other = ({name: torch.rand_like(value) for name, value in layer.state_dict().items()} for _ in range(2))
    stored = {f"backbone.{name}": value for name, value in one.items()}
    torch.save(stored | {f"encoder.{name}": value for name, value in other.items()}, tmp_path / "two.pth")
    before = layer.weight.detach().clone()
    with pytest.raises(StageError, match=r"'backbone\.weight' and 'encoder\.weight' would both be 'weight'"):
        load_weights(layer, tmp_path / "two.pth")
    assert torch.equal(layer.weight, before)
    torch.save(stored | {f"projector.{name}": value for name, value in other.items()}, tmp_path / "one.pth")
    assert load_weights(layer, tmp_path / "one.pth")["backbone_keys"] == 2
    assert torch.equal(layer.weight, one["weight"])


def test_statistics_of_parts_become_their_mean_and_plain_ones_go_to_every_part():
    def method(norm):
        return SimpleNamespace(inherits=("backbone",), backbone=nn.Sequential(norm))

    parts = torch.tensor([1.0, 2, 3, 5, 6, 7])  # three channels, two parts
    weights = {"backbone.0.weight": torch.ones(3), "backbone.0.bias": torch.zeros(3)}
    weights |= {"backbone.0.running_mean": parts, "backbone.0.running_var": parts + 1}
    weights |= {"backbone.0.num_batches_tracked": torch.tensor(4), "head.weight": torch.ones(1)}
    plain = method(nn.BatchNorm2d(3))
    inherit(plain, weights, "base")
    assert plain.backbone[0].running_mean.tolist() == [3, 4, 5]
    assert plain.backbone[0].running_var.tolist() == [4, 5, 6]
    split = method(SplitBatchNorm2d(3, 2))
    inherit(split, {f"backbone.{name}": value for name, value in plain.backbone.state_dict().items()}, "base")
    assert split.backbone[0].running_mean.tolist() == [3, 4, 5] * 2
    with pytest.raises(StageError, match="its backbone does not fit this recipe's network"):
        inherit(method(nn.BatchNorm2d(4)), weights, "base")
