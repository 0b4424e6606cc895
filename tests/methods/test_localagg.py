import math

import pytest
import torch
import torch.nn.functional as F

from methods.localagg import aggregation, neighbours, rows_of
from methods.method import Batch, Context, DataFacts, build_method
from pipeline.recipes import resolve

M = torch.tensor([[1.0, 0], [0.6, 0.8], [0, 1], [-0.6, 0.8]], dtype=torch.float64)
Z = torch.tensor([[0.8, 0.6], [0, 1]], dtype=torch.float64)
ASSIGNED = torch.tensor([[0, 0, 1, 1], [0, 1, 1, 2]])
X = torch.rand(40, 1, 8, 8, generator=torch.Generator().manual_seed(0))


def build(**settings):
    recipe = resolve("localagg", "digits", {"*": {"network": {"widths": [8, 16]}}})
    small = {"embedding": 6, "background": 9, "clusters": 5, "clusterings": 2, "warmup_epochs": 0}
    recipe["settings"] |= small | settings
    torch.manual_seed(0)
    return build_method(recipe, DataFacts(10, (8, 8, 1), 40)).train()


def at(method, epoch):
    method.before_epoch(Context(epoch, 9, 40, lambda rows: X[rows], lambda *path: 3 + path[-1]))
    return method


def batch():
    index = torch.arange(8) * 5
    return Batch([X[index]], index)


def test_two_images_and_two_clusterings():
    similarities, close = neighbours(Z, M, torch.tensor([0, 2]), ASSIGNED, 3)
    losses = aggregation(similarities, close, 0.5)
    assert losses.tolist() == pytest.approx([0.2484113915, -1e-7], abs=1e-9)
    assert losses.mean().item() == pytest.approx(0.1242056457, abs=1e-9)


def test_the_loss_equals_loops_over_the_bank():
    method = at(build(temperature=0.2), 0)
    given, total, shares = batch(), 0.0, []
    before = method.bank.vectors.clone()
    found = method.losses(given)["aggregation"].item()
    z = method.embed(given.views[0])
    for i, row in enumerate(given.index):
        scores = (before @ z[i]).tolist()
        near = sorted(range(40), key=lambda j: -scores[j])[:9]
        close = [j for j in near if any(labels[j] == labels[row] for labels in method.assigned)]
        part, whole = (sum(math.exp(scores[j] / 0.2) for j in rows) for rows in (close, near))
        total -= math.log(part / whole + 1e-7)
        shares.append(len(close) / 9)
    assert found == pytest.approx(total / 8, rel=1e-4)
    said = method.statistics()
    assert said["close_share"] == pytest.approx(sum(shares) / 8, rel=1e-5)
    assert 0 < said["close_share"] < 1
    assert method.statistics() == {}  # counted anew


def test_order_of_the_batch_does_not_matter():
    order = torch.tensor([1, 0])
    one, other = (
        aggregation(*neighbours(z, M, index, ASSIGNED, 3), 0.5)
        for z, index in ((Z, torch.tensor([0, 2])), (Z[order], torch.tensor([2, 0])))
    )
    assert torch.equal(one[order], other)


def test_gradient():
    close = torch.tensor([[True, False, True], [False, False, False]])
    s = torch.tensor([[0.9, 0.5, 0.1], [0.3, 0.2, 0.1]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: aggregation(x, close, 0.3), s)
    method = at(build(), 0)
    method.losses(batch())["aggregation"].backward()
    assert all(p.grad is not None and p.grad.any() for p in method.parameters())


def test_odd_backgrounds():
    s = torch.tensor([[90.0, 80.0], [-90.0, -80.0]])  # exp(s / tau) of neither is a number
    assert aggregation(s, torch.tensor([[True, False], [False, True]]), 0.07).tolist() == pytest.approx(
        [0, 0], abs=1e-5
    )
    none = aggregation(s, torch.zeros(2, 2, dtype=torch.bool), 0.07)  # nothing close among the nearest
    assert none.tolist() == pytest.approx([-math.log(1e-7)] * 2)


def test_images_are_told_apart_before_the_first_clustering():
    method = at(build(warmup_epochs=1), 0)
    assert set(method.losses(batch())) == {"instance"}
    assert method.chance(8) == {"instance": pytest.approx(math.log(40))}
    assert method.statistics() == {}
    at(method, 1)
    assert set(method.losses(batch())) == {"aggregation"}
    assert method.chance(8) == {}
    assert [len(labels.unique()) for labels in method.assigned] == [5, 5]
    assert not torch.equal(*method.assigned)  # each clustering has a start of its own


def test_clusters_are_those_of_the_bank():
    method = build(clusters=2)
    kinds = torch.arange(40) % 2
    method.bank.vectors.copy_(F.normalize(torch.eye(6)[kinds] + 0.01 * torch.rand(40, 6), dim=1))
    for labels in at(method, 0).assigned:
        assert torch.equal(labels == labels[0], kinds == 0)


def test_a_collapse_is_told():
    """All rows alike: nearly all of the background is close, and the loss nears 0."""
    method = build(clusters=2)
    with torch.no_grad():
        method.head[0].weight.zero_()
        method.bank.vectors.copy_(F.normalize(method.head[0].bias, dim=0).expand(40, -1))
    assert at(method, 0).losses(batch())["aggregation"].item() < 0.2
    assert method.statistics()["close_share"] > 0.8


def test_counts_are_numbers_or_shares():
    assert rows_of("clusters", 0.25, 40) == 10
    assert rows_of("clusters", 0.001, 40) == 2
    assert rows_of("background", 7, 40) == 7
    for key in ("clusters", "background"):
        with pytest.raises(ValueError, match=f"{key}: 50 asked of 40 training rows"):
            build(**{key: 50})
