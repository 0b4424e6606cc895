"""Methods that assign images to clusters: the real loop against the papers' formulas, written down anew."""

import pytest
import torch

from tests.methods.reference.harness import CLASSES, SEED, centred, follow_along
from tests.methods.reference.weights import Weights, balanced, cross_entropy, enqueue, unit
from training.seeds import derive

K, D, TAU, T, EPSILON = CLASSES, 5, 0.3, 0.2, 0.05


def soft_cross_entropy(targets, logits):
    return -(targets * logits.log_softmax(1)).sum(1).mean()


# ---- CDC

SURE = 0.8
CDC = {"embedding": D, "temperature": TAU, "cluster_temperature": T, "epsilon": EPSILON, "shuffle": False}
CDC |= {"momentum": 0.8, "threshold": SURE}
FORMS = {
    "in_batch": {"queue": 0},
    "queue": {"queue": 12, "symmetric": True},
    "queue_of_one_query": {"queue": 12, "symmetric": False},
    "swap": {"queue": 0, "target_view": "swap"},
    "joint": {"queue": 12, "joint_renorm": True},
}


def parts(w, x, copy=""):
    """(z^c, z^n) of unit length."""
    a = w.embed(x, copy)
    return unit(a[:, :K]), unit(a[:, K:])


def joined(pair, once_more):
    z = torch.cat(pair, dim=1)
    return unit(z) if once_more else z


def cdc_pair(w, query, key, settings):
    """The three terms of one query view with one key view (eqs. 3, 7; sec. 3.6)."""
    z_q, z_k = joined(query, settings["joint_renorm"]), joined(key, settings["joint_renorm"])
    if settings["queue"]:
        z_k = z_k.detach()
        negatives = w["keys.queue.keys"]
        scores = torch.cat([(z_q * z_k).sum(1, keepdim=True), z_q @ negatives.T], dim=1)
        contrast = cross_entropy(scores / TAU, torch.zeros(len(z_q), dtype=torch.long))
    else:
        contrast = cross_entropy(z_q @ z_k.T / TAU, torch.arange(len(z_q)))
    source = query[0] if settings["target_view"] == "same" else key[0]
    equal = soft_cross_entropy(balanced(source, EPSILON, 3), query[0] / T)
    p = (key[0].detach() / T).softmax(1)
    sure = p.max(1).values > SURE
    own = torch.tensor(0.0, dtype=torch.float64)
    if sure.any():
        own = cross_entropy(query[0][sure] / T, p.argmax(1)[sure])
    return {"contrast": contrast, "equipartition": equal, "self_label": own}


@pytest.mark.parametrize("form", FORMS)
def test_cdc(form):
    weights = {"contrast": 1, "equipartition": 2, "self_label": 0.5}
    run = follow_along("cdc", settings=CDC | FORMS[form], weights=weights)
    settings = run.recipe["settings"]
    w = Weights(run, "backbone", "head")
    if settings["queue"]:
        w.copy_of("keys", "backbone", "head")
    for step in run.steps:
        one_way = settings["queue"] and not settings["symmetric"]
        queries = [parts(w, view) for view in (step.views[:1] if one_way else step.views)]
        keys = queries
        if settings["queue"]:
            with torch.no_grad():
                keys = [None if one_way and view == 0 else parts(w, x, "keys") for view, x in enumerate(step.views)]
        pairs = [cdc_pair(w, queries[0], keys[1], settings)]
        if not one_way:
            pairs.append(cdc_pair(w, queries[1], keys[0], settings))
        w.step(step, {name: sum(pair[name] for pair in pairs) / len(pairs) for name in pairs[0]})
        if settings["queue"]:
            w.drift("keys", 0.8, "backbone", "head")
            enqueue(w, "keys.queue", joined(keys[1], settings["joint_renorm"]))
    assert any(0 < row["confident"] < 1 for row in run.outcome.history)
    run.check(w, 1e-5)


# ---- SwAV


@pytest.mark.parametrize("queue", [12, 0])
def test_swav(queue):
    settings = {"embedding": D, "prototypes": 6, "temperature": TAU, "epsilon": EPSILON, "queue": queue}
    settings |= {"queue_epoch": 0, "frozen_epochs": 1}
    run = follow_along("swav", double=False, settings=settings)
    w = Weights(run, "backbone", "head", "prototypes")
    for step in run.steps:
        z = [unit(w.embed(view)) for view in step.views]
        c = unit(w["prototypes.weight"])
        if step.epoch == 0:
            c = c.detach()
        codes = []
        for view in (0, 1):
            earlier = w["queue"][view, : int(w["filled"])]
            codes.append(balanced(torch.cat([earlier, z[view]]) @ c.T, EPSILON, 3)[len(earlier) :])
        losses = [soft_cross_entropy(codes[a], z[b] @ c.T / TAU) for a, b in ((0, 1), (1, 0))]
        w.step(step, {"swap": (losses[0] + losses[1]) / 2})
        if queue:
            newest = torch.stack([v.detach() for v in z])
            w["queue"] = torch.cat([newest, w["queue"]], dim=1)[:, :queue]
            w["filled"] = (w["filled"] + len(z[0])).clamp(max=queue)
        w["epoch"] = torch.tensor(step.epoch)
    run.check(w, 1e-4)


# ---- DeepCluster-v2


def test_deepcluster_v2():
    settings = {"embedding": D, "clusters": K, "heads": 2, "temperature": TAU}
    run = follow_along("deepcluster_v2", double=False, settings=settings)
    w = Weights(run, "backbone", "head")
    bank = unit(w.embed(run.images, training=False)).detach()
    for epoch, steps in run.epochs():
        # The partition is K-means'; that it is a fixed point on our own bank is checked, the rest follows from it.
        assigned = run.marks[epoch]["assigned"]
        centres = torch.stack(
            [unit(torch.stack([bank[labels == cluster].sum(0) for cluster in range(K)])) for labels in assigned]
        )
        for labels, of_head in zip(assigned, centres, strict=True):
            assert torch.equal((bank @ of_head.T).argmax(1), labels)
        for step in steps:
            z = [unit(w.embed(view)) for view in step.views]
            bank = bank.clone()
            bank[step.index] = z[0].detach()
            losses = [
                cross_entropy(view @ centres[head].T / TAU, assigned[head][step.index]) for head in (0, 1) for view in z
            ]
            w.step(step, {"assignment": sum(losses) / 4})
        w["assigned"], w["centres"], w["bank"] = assigned, centres, bank
    run.check(w, 1e-4)


# ---- SCAN and self-labelling


def heads_of(w, x, count):
    """Logits [B, K] of each linear classifier."""
    h = w.convnet(x)
    blocks = zip(w["head.linear.weight"].split(K), w["head.linear.bias"].split(K), strict=True)
    found = [h @ weight.T + bias for weight, bias in blocks]
    assert len(found) == count
    return found


def test_scan():
    run = follow_along("scan", settings={"heads": 2}, neighbours=True, weights={"consistency": 1, "entropy": 3})
    w = Weights(run, "backbone", "head")
    for _, steps in run.epochs():
        losses = torch.zeros(2, dtype=torch.float64)
        for step in steps:
            anchors = [logits.softmax(1) for logits in heads_of(w, step.views[0], 2)]
            partners = [logits.softmax(1) for logits in heads_of(w, step.partners[0], 2)]
            agreed = [-(p * q).sum(1).log().mean() for p, q in zip(anchors, partners, strict=True)]
            spread = [-(p.mean(0) * p.mean(0).log()).sum() for p in anchors]
            losses += torch.stack([a.detach() - 3 * s.detach() for a, s in zip(agreed, spread, strict=True)])
            w.step(step, {"consistency": sum(agreed), "entropy": -sum(spread)})
        w["head.best"] = losses.argmin()
    run.check(w, 1e-5)


def self_label_loss(weak, strong, threshold, balance):
    """Cross-entropy with the labels of confident clean images; with `balance` the mean of the classes' means."""
    p = weak.softmax(1)
    sure, label = p.max(1).values > threshold, p.argmax(1)
    own = torch.stack([cross_entropy(strong[i : i + 1], label[i : i + 1]) for i in range(len(label))])
    if not balance:
        return own[sure].mean()
    return torch.stack([own[sure & (label == c)].mean() for c in range(K) if (sure & (label == c)).any()]).mean()


@pytest.mark.parametrize("balance", [True, False])
def test_selflabel(balance):
    settings = {"heads": 2, "threshold": 0.4, "balance": balance, "ema": 0.7}
    run = follow_along("selflabel", settings=settings, base=centred("head.linear", 8))
    w = Weights(run, "backbone", "head.")
    w.copy_of("average", "backbone", "head")
    for step in run.steps:
        with torch.no_grad():
            weak = heads_of(w, step.clean, 2)[0]
        strong = heads_of(w, step.views[0], 2)[0]
        w.step(step, {"self_label": self_label_loss(weak, strong, 0.4, balance)})
        w.drift("average", 0.7, "backbone", "head", buffers=True)
    assert any(0 < row["confident"] < 1 for row in run.outcome.history)
    run.check(w, 1e-5)


@pytest.mark.parametrize("ema", [0.7, None])
def test_cdc_selflabel(ema):
    settings = {"embedding": D, "cluster_temperature": 0.2, "threshold": 0.6, "balance": True, "ema": ema}
    run = follow_along("cdc_selflabel", settings=settings, base=centred("head.2", 1))
    w = Weights(run, "backbone", "head")
    if ema:
        w.copy_of("average", "backbone", "head")
    for step in run.steps:
        with torch.no_grad():
            weak = unit(w.embed(step.clean)[:, :K]) / 0.2
        strong = unit(w.embed(step.views[0])[:, :K]) / 0.2
        w.step(step, {"self_label": self_label_loss(weak, strong, 0.6, True)})
        if ema:
            w.drift("average", ema, "backbone", "head", buffers=True)
    assert any(0 < row["confident"] < 1 for row in run.outcome.history)
    run.check(w, 1e-5)


# ---- JULE


def test_jule():
    """The loss on triplets drawn anew by the same numbers; clusters by pixels first, by the embedding in the end."""
    settings = {"embedding": D, "period": 1, "merged": 0.3, "neighbours": 3, "partners": 3, "plain_below": 0}
    settings |= {"absorbed_above": 9}
    network = {"padding": 1, "flatten": False}
    run = follow_along("jule", double=False, settings=settings | {"negatives": 2, "margin": 2.0}, network=network)
    w = Weights(run, "backbone", "head")
    for epoch, steps in run.epochs():
        labels = run.marks[epoch]["clusters"]
        if epoch == 0:
            together(labels, unit(run.images.flatten(1)), None)
        else:
            together(labels, None, run.marks[0]["clusters"])
        for number, step in enumerate(steps):
            torch.manual_seed(derive(SEED, "step", epoch, number))
            z, own = unit(w.embed(step.views[0])), labels[step.index]
            pairs = [(a, p) for a in range(len(own)) for p in range(a + 1, len(own)) if own[a] == own[p]]
            drawn = torch.rand(len(pairs), len(own))
            losses = []
            for (a, p), numbers in zip(pairs, drawn, strict=True):
                others = sorted((float(numbers[n]), n) for n in range(len(own)) if own[n] != own[a])
                for _, n in others[: min(2, len(set(own.tolist())) - 1)]:
                    losses.append(((z[a] - z[p]).square().sum() - (z[a] - z[n]).square().sum() + 2).relu())
            w.step(step, {"triplet": torch.stack(losses).mean()})
    w["clusters"] = run.method.clusters
    together(w["clusters"], None, run.marks[-1]["clusters"])
    w["bank"] = unit(w.embed(run.images, training=False)).detach()
    w["ended"], w["found"] = torch.tensor(True), run.method.found
    run.check(w, 1e-4)


def together(labels, x, before):
    """Clusters by pixels hold each row with its nearest other; later ones are unions of those before."""
    if before is None:
        d = (x.unsqueeze(1) - x).square().sum(2).fill_diagonal_(torch.inf)
        assert torch.equal(labels, labels[d.argmin(1)])
        return
    assert len(labels.unique()) < len(before.unique())
    for cluster in before.unique():
        assert len(labels[before == cluster].unique()) == 1
