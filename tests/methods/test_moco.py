import copy
import math

import pytest
import torch
import torch.nn.functional as F

from methods.blocks.momentum import Queue, follow, follower
from methods.method import Batch, DataFacts, build_method
from pipeline.recipes import resolve


def build(seed=0, frozen=False, **settings):
    recipe = resolve("moco_base", "digits", {"*": {"network": {"widths": [8, 16], "split_batch_norm": 2}}})
    recipe["settings"] |= {"queue": 24, "embedding": 6, **settings}
    recipe["network"] |= {"frozen": True} if frozen else {}
    torch.manual_seed(seed)
    return build_method(recipe, DataFacts(10, (8, 8, 1), 64)).train()


def batch(count=8, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return Batch([torch.randn(count, 1, 8, 8, generator=generator) for _ in range(2)], torch.arange(count))


def test_a_queue_is_a_ring():
    queue = Queue(5, [2])
    torch.testing.assert_close(queue.keys.norm(dim=1), torch.ones(5))
    keys = torch.arange(16.0).view(8, 2)
    queue.write(keys[:3])
    queue.write(keys[3:6])  # wraps around
    torch.testing.assert_close(queue.keys, keys[[5, 1, 2, 3, 4]])
    assert queue.place == 1
    queue.write(keys)  # more than it holds: the last ones stay
    assert sorted(queue.keys[:, 0].tolist()) == [6, 8, 10, 12, 14]


def test_parts_of_a_queue_are_normalised_apart():
    queue = Queue(9, [3, 4])
    torch.testing.assert_close(queue.keys[:, :3].norm(dim=1), torch.ones(9))
    torch.testing.assert_close(queue.keys[:, 3:].norm(dim=1), torch.ones(9))


def test_momentum_moves_parameters_and_leaves_buffers():
    query = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
    key = follower(query)
    assert not any(p.requires_grad for p in key.parameters())
    before = [p.clone() for p in key.parameters()]
    with torch.no_grad():
        for p in query.parameters():
            p += 1
    query[1].running_mean += 5
    follow(key, query, 0.9)
    for old, new in zip(before, key.parameters(), strict=True):
        torch.testing.assert_close(new, old + 0.1)
    assert (key[1].running_mean == 0).all()


def test_the_queue_is_read_before_it_is_written():
    method = build(symmetric=False, shuffle=False)
    before = method.keys.negatives.clone()
    method.losses(batch())
    assert torch.equal(method.keys.negatives, before)
    held = method.keys.held.clone()
    method.after_step()
    torch.testing.assert_close(method.keys.negatives[:8], held)
    torch.testing.assert_close(method.keys.negatives[8:], before[8:])


def test_symmetric_enqueues_once_a_step():
    method = build(symmetric=True)
    method.losses(batch())
    method.after_step()
    assert method.keys.queue.place == 8


def test_no_gradient_reaches_the_key_encoder():
    method = build()
    method.losses(batch())["contrast"].backward()
    assert all(p.grad is None for p in method.keys.parameters())
    assert all(p.grad is not None for module in (method.backbone, method.head) for p in module.parameters())


def test_shuffling_changes_only_what_batch_norm_sees():
    method = build(shuffle=True)
    x = batch(16).views[1]
    torch.manual_seed(1)
    one, other = method.key(x), build(shuffle=False).key(x)
    assert not torch.allclose(one, other)  # other rows share a part of the split batch norm
    torch.testing.assert_close(build(shuffle=True).eval().key(x), build(shuffle=False).eval().key(x))


def test_the_first_loss_is_that_of_random_keys_and_a_collapse_sits_at_the_logarithm():
    method = build(queue=512, symmetric=False)
    loss = method.losses(batch(64))["contrast"].item()
    assert loss < math.log(513) + 1
    equal = F.normalize(torch.ones(4, 6), dim=1)
    from methods.blocks.contrast import info_nce

    assert info_nce(equal, equal, equal[:1].expand(512, 6), 0.2).item() == pytest.approx(math.log(513))


def test_a_base_starts_the_key_encoder_too():
    method, other = build(0), build(1)
    method.backbone.load_state_dict(other.backbone.state_dict())
    method.inherited()
    for a, b in zip(method.keys.backbone.parameters(), other.backbone.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_frozen_backbone_serves_queries_and_keys():
    method = build(frozen=True, shuffle=True)
    state = copy.deepcopy(method.backbone.state_dict())
    method.losses(batch())["contrast"].backward()
    method.after_step()
    assert all(p.grad is None for p in method.backbone.parameters())
    assert all(torch.equal(state[name], value) for name, value in method.backbone.state_dict().items())
