import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from methods.blocks.self_label import self_label_loss
from methods.method import Batch, Context, DataFacts, Watched, build_method
from methods.scan import consistency, entropy
from pipeline.recipes import resolve
from pipeline.record import StageError, hashes, write_json
from training.augmentation import Augment
from training.feed import Images, Order
from training.mine import nearest, read_neighbours

GENERATOR = torch.Generator().manual_seed(0)


def probabilities(*shape):
    return torch.rand(*shape, generator=GENERATOR, dtype=torch.float64).softmax(-1)


def test_oracle_of_the_scan_loss():
    """Uniform assignments of two classes: consistency ln 2, entropy ln 2, so the loss at lambda 5 is -4 ln 2."""
    half = torch.full((1, 3, 2), 0.5, dtype=torch.float64)
    assert consistency(half, half).item() == pytest.approx(math.log(2))
    assert entropy(half).item() == pytest.approx(math.log(2))
    sharp = torch.eye(2, dtype=torch.float64)[None]
    assert consistency(sharp, sharp).item() == 0
    assert consistency(sharp, sharp.flip(1)).item() == 100  # the clamp of the logarithm
    assert entropy(sharp[:, :1]).item() == pytest.approx(-1e-8 * math.log(1e-8), rel=1e-6)


def test_oracles_of_scan_and_self_labels():
    anchors = torch.tensor([[[0.9, 0.1], [0.2, 0.8]]], dtype=torch.float64)
    partners = torch.tensor([[[0.8, 0.2], [0.3, 0.7]]], dtype=torch.float64)
    assert consistency(anchors, partners).item() == pytest.approx(0.3895704469, abs=1e-9)
    assert entropy(anchors).item() == pytest.approx(0.6881388137, abs=1e-9)
    assert (consistency(anchors, partners) - 5 * entropy(anchors)).item() == pytest.approx(-3.0511236217, abs=1e-9)
    weak = torch.tensor([[6, 0, 0], [0, 6, 0], [6, 0, 0], [0.1, 0, 0]], dtype=torch.float64)
    strong = torch.tensor([[2, 0, 0], [1, 1, 0], [3, 1, 0], [0, 0, 0]], dtype=torch.float64)
    p, label = weak.softmax(1).max(1)
    assert (p > 0.99).tolist() == [True, True, True, False]
    for balance, expected in ((True, 0.5333450985), (False, 0.4237951966)):
        assert self_label_loss(strong, label, p > 0.99, balance)[0].item() == pytest.approx(expected, abs=1e-9)


def test_scan_terms_by_loops():
    p, q = probabilities(3, 5, 4), probabilities(3, 5, 4)
    for head in range(3):
        agreed = [sum(float(p[head, i, c] * q[head, i, c]) for c in range(4)) for i in range(5)]
        assert consistency(p, q)[head].item() == pytest.approx(-sum(map(math.log, agreed)) / 5)
        mean = [sum(float(p[head, i, c]) for i in range(5)) / 5 for c in range(4)]
        assert entropy(p)[head].item() == pytest.approx(-sum(m * math.log(m) for m in mean))
    assert torch.autograd.gradcheck(lambda p: consistency(p, q), (p.clone().requires_grad_(),))
    assert torch.autograd.gradcheck(entropy, (p.clone().requires_grad_(),))
    order = torch.randperm(5, generator=GENERATOR)
    torch.testing.assert_close(consistency(p[:, order], q[:, order]), consistency(p, q))


def test_self_labels_by_loops_with_and_without_balance():
    logits = torch.randn(6, 3, generator=GENERATOR, dtype=torch.float64)
    label, sure = torch.tensor([0, 0, 0, 1, 1, 2]), torch.tensor([1, 1, 1, 1, 0, 0]).bool()
    each = F.cross_entropy(logits, label, reduction="none")
    loss, given = self_label_loss(logits, label, sure, balance=False)
    assert given.tolist() == [3, 1, 0]
    assert loss.item() == pytest.approx(each[:4].mean().item())
    weight = [4 / 3] * 3 + [4]  # rows labelled / rows of the class, as released
    expected = sum(w * float(e) for w, e in zip(weight, each[:4], strict=True)) / sum(weight)
    assert self_label_loss(logits, label, sure, balance=True)[0].item() == pytest.approx(expected)


@pytest.mark.parametrize("balance", [True, False])
def test_no_confident_image_is_a_loss_of_zero(balance):
    logits = torch.randn(4, 3, requires_grad=True)
    loss, given = self_label_loss(logits, torch.zeros(4, dtype=torch.long), torch.zeros(4).bool(), balance)
    loss.backward()
    assert loss == 0
    assert given.sum() == 0
    assert torch.equal(logits.grad, torch.zeros(4, 3))


def test_neighbours_start_with_the_row_itself_also_among_duplicates():
    z = torch.randn(40, 5, generator=GENERATOR)
    z[7], z[9] = 3 * z[3], z[3]
    near = nearest(z, 6)
    unit = F.normalize(z, dim=1)
    assert torch.equal(near[:, 0], torch.arange(40))
    for i in range(40):
        assert len(set(near[i].tolist())) == 7
        found = (unit[near[i, 1:]] @ unit[i]).sort(descending=True).values
        others = torch.cat([unit[:i], unit[i + 1 :]]) @ unit[i]
        torch.testing.assert_close(found, others.sort(descending=True).values[:6])
    assert {3, 9, 7} == set(near[3, :3].tolist())
    with pytest.raises(StageError, match="40 neighbours asked of 40 rows"):
        nearest(z, 40)


def test_neighbours_do_not_depend_on_blocks(monkeypatch):
    from training import mine

    z = torch.randn(50, 4, generator=GENERATOR)
    whole = nearest(z, 5)
    monkeypatch.setattr(mine, "BLOCK", 120)
    assert torch.equal(nearest(z, 5), whole)


def test_neighbours_of_other_data_rows_or_content_are_refused(tmp_path):
    def data(fingerprint, content="c"):
        return SimpleNamespace(folder="data", card={"record": {"fingerprint": fingerprint, "content": content}})

    path, rows = tmp_path / "z2-train.npz", np.arange(5)
    np.savez(path, neighbours=np.zeros((5, 3), np.int32), rows=rows)
    own = {"fingerprint": "ffff", "files": hashes(path)}
    write_json(path.with_suffix(".json"), {"records": {"prepare": data("aaaa").card["record"], "mine": own}})
    near, fingerprint = read_neighbours(path, rows, data("aaaa"))
    assert (near.shape, fingerprint) == ((5, 3), "ffff")
    with pytest.raises(StageError, match="was made from data aaaa, data holds bbbb"):
        read_neighbours(path, rows, data("bbbb"))
    with pytest.raises(StageError, match="was made from data c, data holds d"):
        read_neighbours(path, rows, data("aaaa", "d"))
    with pytest.raises(StageError, match="neighbours of 5 rows, this run uses 4"):
        read_neighbours(path, rows[:4], data("aaaa"))
    np.savez(path, neighbours=np.ones((5, 3), np.int32), rows=rows)
    with pytest.raises(StageError, match=r"z2-train\.npz: sha256"):
        read_neighbours(path, rows, data("aaaa"))


def test_partners_are_drawn_evenly_from_the_lists_and_repeat():
    neighbours = torch.arange(12)[:, None] + 100 * torch.arange(3)
    order = Order(12, 6, True, seed=4, neighbours=neighbours)
    drawn = torch.cat([order.partners(index, e, step) for e in range(200) for step, index in order.epoch(e)])
    rows = torch.cat([index for e in range(200) for _, index in order.epoch(e)])
    assert torch.equal(drawn % 100, rows)
    assert (torch.bincount(drawn // 100) / len(drawn) - 1 / 3).abs().max() < 0.03
    index = torch.arange(6)
    assert torch.equal(order.partners(index, 3, 1), order.partners(index, 3, 1))
    assert not torch.equal(order.partners(index, 3, 1), order.partners(index, 3, 0))


def test_batches_carry_partners_and_clean_images():
    images = np.arange(8, dtype=np.uint8).reshape(8, 1, 1, 1) * 10
    feed = Images(images, None, torch.device("cpu"))
    order = Order(8, 4, True, seed=0, neighbours=((torch.arange(8) + 1) % 8)[:, None])
    plain = Augment({}, {"mean": [0.0], "std": [1.0]})
    for _, batch in feed.epoch(order, 0, 0, plain, 1, clean=True):
        assert torch.equal(batch.clean, batch.views[0])
        expected = ((batch.index + 1) % 8 * 10 / 255).view(4, 1, 1, 1)
        torch.testing.assert_close(batch.partners[0], expected)


def build(name, **settings):
    recipe = resolve(name, "digits", {"*": {"network": {"widths": [8, 16]}}, name: {"settings": settings}})
    torch.manual_seed(0)
    return build_method(recipe, DataFacts(10, (8, 8, 1), 64)).train()


def batch(rows=12):
    x = [torch.randn(rows, 1, 8, 8, generator=torch.Generator().manual_seed(s)) for s in range(3)]
    return Batch([x[0]], torch.arange(rows), clean=x[1], partners=[x[2]])


CONTEXT = Context(0, 1, 64, lambda rows: rows, lambda *path: 0)


def test_the_head_with_the_lowest_training_loss_is_used():
    method = build("scan", heads=3)
    terms = method.losses(batch())
    sum(method.weights[name] * value for name, value in terms.items()).backward()
    assert all(p.grad is not None for p in method.parameters())
    method.losses_of_heads.copy_(torch.tensor([1.0, -2.0, 0.5]))
    method.after_epoch(CONTEXT)
    statistics = method.statistics()
    assert statistics["best_head"] == 1
    assert (method.occupancy.counts.sum(), method.losses_of_heads.abs().sum()) == (0, 0)
    method.eval()
    x = batch().clean
    h = method.backbone(x)
    expected = (h @ method.head.linear.weight[10:20].T + method.head.linear.bias[10:20]).softmax(1)
    torch.testing.assert_close(method.features(x)["p"], expected)


def watching(method, epoch, epochs=3):
    images = torch.randn(9, 1, 8, 8, generator=torch.Generator().manual_seed(5))
    near = torch.stack([torch.arange(9), (torch.arange(9) + 2) % 9, (torch.arange(9) + 5) % 9], dim=1)
    watched = Watched(lambda: iter(images.split(4)), near)
    method.after_epoch(Context(epoch, epochs, 64, lambda rows: rows, lambda *path: 0, watched=watched))
    method.eval()
    p = method.head(method.backbone(images)).double().softmax(2).detach()
    method.train()
    each = []
    for own in p:
        agreed = [-math.log(float(own[i] @ own[j])) for i in range(9) for j in near[i].tolist()]
        mean = own.mean(0)
        each.append(sum(agreed) / len(agreed) + float((mean * mean.log()).sum()))
    return each


def test_watched_images_choose_the_epoch_and_the_head_with_the_lowest_loss():
    method = build("scan-test_unsup", heads=3)
    lowest, chosen, weights = math.inf, None, {}
    for epoch in range(3):
        with torch.no_grad():
            method.head.linear.weight.normal_(std=[0.5, 3.0, 1.0][epoch], generator=GENERATOR)
        weights[epoch] = method.head.linear.weight.clone()
        if epoch == 2:  # a run that was killed goes on from the state
            state, method = method.state_dict(), build("scan-test_unsup", heads=3)
            method.load_state_dict(state)
        losses = watching(method, epoch, epochs=4)
        if min(losses) < lowest:
            lowest, chosen = min(losses), (epoch, losses.index(min(losses)))
        assert method.statistics()["watched_loss"] == pytest.approx(lowest, abs=1e-5)
    with torch.no_grad():
        method.head.linear.weight.zero_()  # uniform: a loss of 0, the worst
    watching(method, 3, epochs=4)
    assert torch.equal(method.head.linear.weight, weights[chosen[0]])
    statistics = method.statistics()
    assert (statistics["kept_epoch"], statistics["best_head"]) == (chosen[0] + 1, chosen[1])
    assert method.get_extra_state() == {"kept": None}


def test_the_entropy_term_keeps_clusters_occupied():
    """Gradient descent on one batch of free logits: without the entropy all rows may share one cluster."""
    occupied = {}
    for weight in (0.0, 5.0):
        logits = torch.randn(1, 40, 4, generator=torch.Generator().manual_seed(1)) * 0.1 + torch.tensor([1.0, 0, 0, 0])
        logits.requires_grad_()
        optimiser = torch.optim.Adam([logits], 0.1)
        for _ in range(150):
            p = logits.softmax(2)
            loss = consistency(p, p.roll(1, 1)).sum() - weight * entropy(p).sum()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        occupied[weight] = len(logits.argmax(2).unique())
    assert (occupied[0.0], occupied[5.0]) == (1, 4)


@pytest.mark.parametrize("name", ["selflabel", "cdc_selflabel"])
def test_self_labelling_counts_what_it_labels(name):
    method, unsure = build(name, threshold=0.0, ema=0.5), build(name, threshold=1.0)
    before = [p.clone() for p in method.average.parameters()]
    terms = method.losses(batch())
    terms["self_label"].backward()
    torch.optim.SGD([p for p in method.parameters() if p.requires_grad], 1.0).step()
    method.after_step()
    moved = [*method.backbone.parameters(), *method.head.parameters()]
    for old, own, live in zip(before, method.average.parameters(), moved, strict=True):
        torch.testing.assert_close(own, (old + live) / 2)
    live = [*method.backbone.buffers(), *method.head.buffers()]
    assert all(torch.equal(a, b) for a, b in zip(method.average.buffers(), live, strict=True))
    found = method.eval().features(batch().clean)["p"]  # what is used in the end is the average
    with torch.no_grad():
        a = method.average.head(method.average.backbone(batch().clean))
        logits = a[method.head.best] if name == "selflabel" else method.logits(a)
    torch.testing.assert_close(found, logits.softmax(1))
    statistics = method.statistics()
    assert (statistics["confident"], statistics["empty_steps"]) == (1, 0)
    assert unsure.losses(batch())["self_label"] == 0
    assert unsure.statistics() == {"confident": 0, "empty_steps": 1, "missing_classes": 10}


def test_a_trained_cdc_is_what_self_labelling_starts_from():
    cdc, after = build("cdc"), build("cdc_selflabel")
    for part in after.inherits:
        getattr(after, part).load_state_dict(getattr(cdc, part).state_dict())
    x = batch().clean
    torch.testing.assert_close(after.eval().features(x)["p"], cdc.eval().features(x)["p"])
