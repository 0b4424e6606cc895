import math

import pytest
import torch
import torch.nn.functional as F

from methods.blocks.sinkhorn import sinkhorn
from methods.method import Batch, Context, DataFacts, build_method
from pipeline.recipes import resolve


def build(**settings):
    recipe = resolve("swav", "digits", {"*": {"network": {"widths": [8, 16]}}})
    recipe["settings"] |= {"embedding": 6, "prototypes": 5, "frozen_epochs": 1, **settings}
    torch.manual_seed(0)
    return build_method(recipe, DataFacts(10, (8, 8, 1), 64)).train()


def batch(count=8, scale=1.0):
    generator = torch.Generator().manual_seed(0)
    return Batch([scale * torch.randn(count, 1, 8, 8, generator=generator) for _ in range(2)], torch.arange(count))


def at(method, epoch):
    method.before_epoch(Context(epoch, 9, 64, lambda rows: rows, lambda *path: 0))
    return method


def test_loss_equals_loops():
    method = at(build(), 1)
    views = batch()
    found = method.losses(views)["swap"].item()
    method = at(build(), 1)
    z = [F.normalize(method.head(method.backbone(v)), dim=1) for v in views.views]
    c = F.normalize(method.prototypes.weight, dim=1)
    scores = [part @ c.T for part in z]
    total = 0.0
    for a in (0, 1):
        q = sinkhorn(scores[a], 0.05, 3)
        logits = (scores[1 - a] / 0.1).tolist()
        for i in range(8):
            norm = math.log(sum(map(math.exp, logits[i])))
            total -= sum(q[i, k].item() * (logits[i][k] - norm) for k in range(5))
    assert found == pytest.approx(total / 16, rel=1e-4)


def test_prototypes_rest_at_first_and_learn_then():
    for epoch, learns in ((0, False), (1, True)):
        method = at(build(), epoch)
        method.losses(batch())["swap"].backward()
        gradient = method.prototypes.weight.grad
        assert (gradient is not None and gradient.abs().sum() > 0) == learns


def test_inputs_a_hundred_times_as_large_stay_finite():
    method = at(build(), 1)
    with torch.no_grad():
        for p in method.head.parameters():
            p *= 100
    loss = method.losses(batch(scale=100.0))["swap"]
    loss.backward()
    assert torch.isfinite(loss)
    assert all(torch.isfinite(p.grad).all() for p in method.parameters() if p.grad is not None)


def test_equal_embeddings_sit_at_the_logarithm():
    """Collapse alarm: when every image has the same scores the loss is ln K at best spread codes."""
    method = at(build(), 1)
    same = Batch([torch.ones(8, 1, 8, 8)] * 2, torch.arange(8))
    method.prototypes.weight.data.copy_(torch.ones(5, 6))
    assert method.losses(same)["swap"].item() == pytest.approx(math.log(5), rel=1e-5)


def test_the_queue_joins_the_assignment_from_its_epoch_on():
    method = at(build(queue=12, queue_epoch=2), 1)
    method.losses(batch())
    method.after_step()
    assert method.filled == 8
    early = method.codes(0, torch.eye(8, 5), torch.eye(5, 6))
    torch.testing.assert_close(early, sinkhorn(torch.eye(8, 5), 0.05, 3, "log"))
    at(method, 2)
    late = method.codes(0, torch.eye(8, 5), torch.eye(5, 6))
    assert late.shape == (8, 5)
    assert not torch.allclose(late, early)
    method.losses(batch())
    method.after_step()
    assert method.filled == 12  # newest first, the oldest fall out


@pytest.mark.parametrize("queue", [0, 16])
def test_scores_codes_and_loss_are_float32_under_autocast(queue):
    """The network runs in bfloat16; what follows its output is computed as if it had been float32 all along."""
    method = at(build(queue=queue, queue_epoch=0), 1)
    outputs = []
    method.head.register_forward_hook(lambda module, given, out: outputs.append(out.detach()))
    with torch.autocast("cpu", torch.bfloat16):
        method.losses(batch())
        method.after_step()
        earlier = method.queue.clone()
        found = method.losses(batch())["swap"]
    assert found.dtype == torch.float32
    assert outputs[-1].dtype == torch.bfloat16
    z = [F.normalize(out.float(), dim=1) for out in outputs[-2:]]
    c = F.normalize(method.prototypes.weight.detach(), dim=1)
    filled = int(method.filled)
    codes = [sinkhorn(torch.cat([earlier[v, :filled], z[v]]) @ c.T, 0.05, 3, "log")[filled:] for v in (0, 1)]
    losses = [-(codes[a] * (z[1 - a] @ c.T / 0.1).log_softmax(1)).sum(1).mean() for a in (0, 1)]
    assert found.item() == pytest.approx(float(sum(losses)) / 2, rel=1e-6)
