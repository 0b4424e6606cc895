import copy

import pytest
import torch
from torch import nn

from methods.blocks.batch_norm import split_batch_norm
from methods.blocks.key_encoder import KeyEncoder
from methods.method import DataFacts, build_method
from pipeline.recipes import resolve

X = torch.randn(8, 4, generator=torch.Generator().manual_seed(0))


def networks():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6)), nn.Linear(6, 3)


def moved(*modules):
    with torch.no_grad():
        for module in modules:
            for parameter in module.parameters():
                parameter += 1


def test_it_starts_equal_and_takes_no_gradient():
    backbone, head = networks()
    keys = KeyEncoder(backbone, head, 0.9)
    torch.testing.assert_close(keys(X), head(backbone(X)))
    assert not keys(X).requires_grad
    assert not any(parameter.requires_grad for parameter in keys.parameters())
    assert keys.queue is None


@pytest.mark.parametrize(("momentum", "share"), [(None, 0.1), (0.75, 0.25), (1.0, 0.0)])
def test_parameters_follow_by_the_momentum_of_the_step(momentum, share):
    backbone, head = networks()
    keys = KeyEncoder(backbone, head, 0.9)
    before = [parameter.clone() for parameter in keys.parameters()]
    moved(backbone, head)
    keys.after_step(backbone, head, momentum)
    for old, new in zip(before, keys.parameters(), strict=True):
        torch.testing.assert_close(new, old + share)


@pytest.mark.parametrize("copy_buffers", [False, True])
def test_batch_norm_statistics_are_its_own_unless_copied(copy_buffers):
    backbone, head = networks()
    keys = KeyEncoder(backbone, head, 0.9, copy_buffers=copy_buffers)
    backbone[1].running_mean += 5
    keys.after_step(backbone, head)
    assert torch.equal(keys.backbone[1].running_mean, backbone[1].running_mean) == copy_buffers


def test_kept_keys_enter_the_queue_after_the_step_only():
    backbone, head = networks()
    keys = KeyEncoder(backbone, head, 0.9, queue=12, parts=[1, 2])
    before = keys.negatives.clone()
    held = keys(X)
    keys.hold(held)
    assert torch.equal(keys.negatives, before)
    keys.after_step(backbone, head)
    torch.testing.assert_close(keys.negatives[:8], held)
    torch.testing.assert_close(keys.negatives[8:], before[8:])


def test_shuffling_returns_rows_in_their_order_and_rests_in_eval_mode():
    x = torch.randn(8, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    backbone, head = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten()), nn.Linear(8, 3)
    split_batch_norm(backbone, 2)
    plain, mixed = KeyEncoder(backbone, head, 0.9), KeyEncoder(backbone, head, 0.9, shuffle=True)
    torch.manual_seed(1)
    assert not torch.allclose(plain(x), mixed(x))  # other images share each half's statistics
    state = torch.get_rng_state()
    for keys in (plain, mixed):
        keys.load_state_dict(plain.state_dict())
        keys.eval()
    assert torch.equal(plain(x), mixed(x))
    assert torch.equal(torch.get_rng_state(), state)


def test_start_as_copies_weights_statistics_and_head():
    backbone, head = networks()
    keys = KeyEncoder(backbone, head, 0.9)
    moved(backbone, head)
    backbone[1].running_mean += 5
    keys.start_as(backbone, head)
    for copied, module in ((keys.backbone, backbone), (keys.head, head)):
        assert all(torch.equal(value, module.state_dict()[name]) for name, value in copied.state_dict().items())
    moved(backbone)
    assert not torch.equal(keys.backbone[0].weight, backbone[0].weight)  # a copy, not the same tensor


def test_a_frozen_backbone_stays_in_eval_mode_and_the_head_follows():
    backbone, head = networks()
    keys = KeyEncoder(backbone, head, 0.9, shuffle=True).train()
    keys.freeze_backbone()
    before = copy.deepcopy(keys.state_dict())
    keys.train()
    keys(X)
    moved(head)
    keys.after_step(backbone, head)
    changed = {name for name, value in keys.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == {"head.weight", "head.bias"}


HOLDERS = {"moco": {}, "co2": {}, "pcl": {}, "cdc": {"queue": 16}, "byol": {}, "uniclr-ema": {}}
AVERAGED = {"selflabel": {"ema": 0.9}, "cdc_selflabel": {"ema": 0.9}}


@pytest.mark.parametrize("name", [*HOLDERS, *AVERAGED])
@pytest.mark.parametrize("frozen", [False, True])
def test_inherited_makes_every_copy_equal_to_the_loaded_network(name, frozen):
    """Weights may come from a base or from a file, and into a frozen backbone too."""
    settings = (HOLDERS | AVERAGED)[name]
    network = {"widths": [8, 16], **({"frozen": True} if frozen else {})}
    recipe = resolve(name, "digits", {"*": {"network": network}, name: {"settings": settings}})
    if name == "pcl":
        recipe["settings"] |= {"clusters": [3]}
    torch.manual_seed(0)
    method = build_method(recipe, DataFacts(10, (8, 8, 1), 64)).train()
    other = build_method(recipe, DataFacts(10, (8, 8, 1), 64))
    for part in ("backbone", "head"):
        getattr(method, part).load_state_dict(getattr(other, part).state_dict())
    method.inherited()
    keys = next(part for part in method.children() if isinstance(part, KeyEncoder))
    for part in ("backbone", "head"):
        state = getattr(method, part).state_dict()
        assert all(torch.equal(value, state[key]) for key, value in getattr(keys, part).state_dict().items())
    assert keys.frozen == frozen
    assert keys.backbone.training != frozen
