"""JULE's triplets and stages; its clusters have tests of their own (test_agglomeration.py)."""

import pytest
import torch
import torch.nn.functional as F

from methods.jule import draw_triplets, triplet_loss
from methods.method import Batch, Context, DataFacts, build_method
from pipeline import checks
from pipeline.naming import ConfigError
from pipeline.recipes import resolve
from pipeline.runs import Run

ROWS, CLASSES = 60, 4


def images():
    generator = torch.Generator().manual_seed(0)
    kinds = torch.rand(12, 1, 8, 8, generator=generator)
    return kinds[torch.arange(ROWS) % 12] + 0.1 * torch.rand(ROWS, 1, 8, 8, generator=generator)


def build(seed=0, name="jule", **settings):
    recipe = resolve(name, "digits", {"*": {"network": {"widths": [4]}}})
    small = {"embedding": 5, "period": 2, "plain_below": 0, "neighbours": 4, "merged": 0.5, "absorbed_above": 99}
    small = {"embedding": 5, "period": 2, "plain_below": 0, "neighbours": 4, "merged": 0.5, "absorbed_above": 99}
    recipe["settings"] |= small | settings
    torch.manual_seed(seed)
    return build_method(recipe, DataFacts(CLASSES, (8, 8, 1), ROWS)).train()


def context(epoch, x, epochs=99):
    return Context(epoch, epochs, ROWS, lambda rows: x[rows], lambda *path: 1)


# ---- triplets


def oracle():
    """Two triplets as rows of z: anchors 0 and 1, positives 2 and 3, negatives 4 and 5."""
    return torch.tensor([[1, 0], [0.6, 0.8], [0.8, 0.6], [1, 0], [0, 1], [0.8, 0.6]], dtype=torch.float64)


def test_loss_of_two_triplets():
    z = oracle()
    places = torch.tensor([0, 1]), torch.tensor([2, 3]), torch.tensor([[4], [5]])
    assert triplet_loss(z, z, *places, 1, 0.2).item() == pytest.approx(0.46, abs=1e-12)
    single = [triplet_loss(z, z, *(place[k : k + 1] for place in places), 1, 0.2).item() for k in (0, 1)]
    assert single == pytest.approx([0, 0.92], abs=1e-12)


@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize("gamma", [1.0, 2.0])
def test_loss_equals_loops_and_has_their_gradient(gamma, released):
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(9, 3, dtype=torch.float64, generator=generator, requires_grad=True)
    labels = torch.arange(9) % 3
    anchors, positives, negatives = draw_triplets(labels, 2)
    others = z.detach() if released else z
    total = 0.0
    for a, p, chosen in zip(anchors, positives, negatives, strict=True):
        for n in chosen:
            gap = gamma * (z[a] - others[p]).square().sum() - (z[a] - others[n]).square().sum()
            total = total + (gap + 0.3).clamp(min=0)
    total = total / negatives.numel()
    found = triplet_loss(z, others, anchors, positives, negatives, gamma, 0.3)
    torch.testing.assert_close(found, total)
    torch.testing.assert_close(torch.autograd.grad(found, z)[0], torch.autograd.grad(total, z)[0])


def test_gradcheck():
    z = F.normalize(torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2)), dim=1)
    places = draw_triplets(torch.tensor([0, 0, 1, 1, 2, 2]), 2)
    torch.autograd.gradcheck(lambda rows: triplet_loss(rows, rows, *places, 1.0, 3.0), z.requires_grad_())


def test_triplets_are_all_pairs_with_distinct_negatives():
    labels = torch.tensor([5, 2, 5, 7, 2, 5])
    anchors, positives, negatives = draw_triplets(labels, 20)
    assert list(zip(anchors.tolist(), positives.tolist(), strict=True)) == [(0, 2), (0, 5), (1, 4), (2, 5)]
    assert negatives.shape == (4, 2)  # two other clusters
    for anchor, chosen in zip(anchors, negatives, strict=True):
        assert len(set(chosen.tolist())) == 2
        assert all(labels[n] != labels[anchor] for n in chosen)
    assert draw_triplets(labels, 1)[2].shape == (4, 1)
    seen = {tuple(draw_triplets(labels, 1)[2].flatten().tolist()) for _ in range(30)}
    assert len(seen) > 5  # random


@pytest.mark.parametrize("labels", [[0], [3, 3, 3], [0, 1, 2]])
def test_without_a_pair_or_a_negative_there_is_no_triplet(labels):
    assert draw_triplets(torch.tensor(labels), 20)[2].numel() == 0


# ---- stages


def test_stages_merge_a_share_until_the_classes_are_left():
    """12 kinds of images: half of the clusters goes at each stage, at first by pixels, then by the embedding."""
    method, x, seen = build(), images(), []
    for epoch in range(9):
        method.before_epoch(context(epoch, x))
        seen.append(method.count())
        method.after_epoch(context(epoch, x))
        if method.finished:
            break
    first = seen[0]
    assert first > 8
    expected = [first] * 2
    while (kept := expected[-1] - -(-expected[-1] // 2)) > CLASSES:
        expected += [kept] * 2
    assert seen == expected  # no period for the last stage: the classes are left, and training ends
    assert method.count() == CLASSES
    assert len(method.found.unique()) == CLASSES
    assert method.training
    kinds = torch.arange(ROWS) % 12
    method.before_epoch(context(0, x))
    for cluster in method.clusters.unique():
        assert len(kinds[method.clusters == cluster].unique()) == 1


def test_merging_uses_the_newest_embedding():
    x = images()
    one, other = build(merged=0.8), build(merged=0.8)
    with torch.no_grad():
        other.head[0].weight.copy_(torch.randn(other.head[0].weight.shape, generator=torch.Generator().manual_seed(5)))
    for method in (one, other):
        method.before_epoch(context(0, x))
    assert torch.equal(one.clusters, other.clusters)  # pixels know no network
    for method in (one, other):
        method.after_epoch(context(0, x))
    assert torch.equal(one.clusters, other.clusters)  # in the middle of a period
    for method in (one, other):
        method.after_epoch(context(1, x))
    assert not torch.equal(one.clusters, other.clusters)


def test_training_that_ends_early_still_has_its_clusters():
    method, x = build(), images()
    method.before_epoch(context(0, x, epochs=1))
    method.after_epoch(context(0, x, epochs=1))
    method.eval()
    with torch.no_grad():
        features = method.features(x)
    assert torch.equal(features["p"].argmax(1), method.found)  # every training row its own cluster
    assert features["p"].shape == (ROWS, CLASSES)
    with torch.no_grad():
        near = method.features(x[:5] + 1e-4)["p"].argmax(1)
    assert torch.equal(near, method.found[:5])
    assert method.statistics()["occupied_clusters"] == CLASSES


def test_batches_without_triplets_are_empty_and_chance_counts_the_others():
    method, x = build(), images()
    method.before_epoch(context(0, x))
    method.clusters.copy_(torch.arange(ROWS))
    assert method.losses(Batch([x[:8]], torch.arange(8)))["triplet"].item() == 0
    assert method.empty()
    method.clusters.copy_(torch.arange(ROWS) % 3)
    method.losses(Batch([x[:8]], torch.arange(8)))
    assert not method.empty()
    assert method.statistics()["empty_steps"] == 1
    assert method.chance(8) == {"triplet": pytest.approx(0.1)}  # half of the steps, each at the margin
    method.losses(Batch([x[:8]], torch.arange(8)))
    assert method.statistics()["empty_steps"] == 0
    assert method.chance(8) == {"triplet": pytest.approx(0.2)}


def test_equal_embeddings_sit_at_chance():
    method, x = build(), images()
    method.clusters.copy_(torch.arange(ROWS) % 3)
    with torch.no_grad():
        method.head[0].weight.zero_()
        method.head[0].bias.fill_(1)
    assert method.losses(Batch([x[:16]], torch.arange(16)))["triplet"].item() == pytest.approx(0.2, rel=1e-5)


def test_the_released_gradient_moves_anchors_alone():
    x, gradients = images(), []
    for name in ("jule", "jule-released"):
        method = build(name=name)
        method.clusters.copy_(torch.arange(ROWS) % 3)
        torch.manual_seed(0)
        method.losses(Batch([x[:16]], torch.arange(16)))["triplet"].backward()
        gradients.append(method.head[0].weight.grad)
    assert gradients[0].abs().max() > 0
    assert not torch.allclose(gradients[0], gradients[1], rtol=1e-2)


def test_fewer_clusters_than_classes_are_told_and_end_the_training():
    method, x = build(), images()[torch.arange(ROWS) % 2] + 1e-3 * images()
    method.before_epoch(context(0, x))
    method.clusters.copy_(torch.arange(ROWS) % 2)  # chains as long as can be
    method.after_epoch(context(2, x))
    assert not method.finished  # in the middle of a period
    method.after_epoch(context(3, x))
    assert method.finished
    assert method.count() == 2
    assert method.statistics()["clusters"] == 2
    method.clusters.zero_()
    method.losses(Batch([x[:8]], torch.arange(8)))
    assert method.empty()
    method.statistics()
    assert method.chance(8) == {}


@pytest.mark.parametrize(("dataset", "fits"), [("mnist_test", True), ("usps", True), ("mnist_full", False)])
def test_more_rows_than_memory_allows_are_refused_before_any_job(dataset, fits):
    run, recipe = Run(dataset, "all", "jule", 0), resolve("jule", dataset)
    if fits:
        checks.check_run(run, recipe, ["argmax"], [])
        return
    with pytest.raises(ConfigError, match=r"N=70000 training rows.*'jule' grows with their square: at most 10000"):
        checks.check_run(run, recipe, ["argmax"], [])


def test_text_is_not_defined():
    with pytest.raises(ConfigError, match="vectors"):
        resolve("jule", "reuters10k")
