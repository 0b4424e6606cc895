"""Methods that compare two views of a batch: the real loop against the papers' formulas, written down once more."""

import pytest
import torch
import torch.nn.functional as F

from tests.methods.reference.harness import BATCH, CLASSES, follow_along
from tests.methods.reference.weights import Weights, cross_entropy, unit


def nt_xent(z1, z2, tau, anchors="both"):
    """Mean over anchors of -log exp(s_ij / tau) / sum_{k != i} exp(s_ik / tau)."""
    z = unit(torch.cat([z1, z2]))
    losses = []
    for i in range(2 * BATCH if anchors == "both" else BATCH):
        s = z @ z[i] / tau
        others = torch.cat([s[:i], s[i + 1 :]])
        losses.append(torch.logsumexp(others, 0) - s[(i + BATCH) % (2 * BATCH)])
    return torch.stack(losses).mean()


@pytest.mark.parametrize("anchors", ["both", "first"])
def test_simclr(anchors):
    run = follow_along("simclr", settings={"embedding": 5, "anchors": anchors})
    w = Weights(run, "backbone", "head")
    for step in run.steps:
        z1, z2 = (w.embed(view) for view in step.views)
        w.step(step, {"contrast": nt_xent(z1, z2, 0.5, anchors)})
    run.check(w)


def mixture(w, x, count):
    """p [B, M], e [B, M, D] of unit length, z [B, D]."""
    h = w.convnet(x)
    p = w.stack(h, "gate").softmax(1)
    e = []
    for m in range(count):
        rows = slice(m * h.shape[1], (m + 1) * h.shape[1])
        hidden = (h @ w["experts.first.weight"][rows].T + w["experts.first.bias"][rows]).relu()
        e.append(unit(hidden @ w["experts.weight"][m] + w["experts.bias"][m, 0]))
    z = sum(p[:, m : m + 1] * e[m] for m in range(count))
    return p, e, z


def distance(a, b):
    return torch.linalg.vector_norm(a - b)


def shape_of_code(p, z):
    """(push, pull) of the released code: every component holds one zero vector besides its members' z."""
    members = [(p.argmax(1) == m).nonzero().flatten().tolist() for m in range(CLASSES)]
    nothing = torch.zeros(z.shape[1], dtype=z.dtype)
    mu = [sum([z[i] for i in rows], nothing) / (len(rows) + 1) for rows in members]
    pull = sum(
        (sum(distance(z[i], mu[m]) for i in rows) + distance(nothing, mu[m])) / (len(rows) + 1)
        for m, rows in enumerate(members)
    )
    pairs = [(m, k) for m in range(CLASSES) for k in range(CLASSES) if m != k]
    return -sum(distance(mu[m], mu[k]) for m, k in pairs) / len(pairs), pull / CLASSES


def shape_of_paper(p, e):
    """(push, pull) of eqs. 6 to 8, over components that have members."""
    members = [(p.argmax(1) == m).nonzero().flatten().tolist() for m in range(CLASSES)]
    mu = {m: e[m][rows].mean(0) for m, rows in enumerate(members) if rows}
    pull = sum(distance(e[m][i], mu[m]) for m, rows in enumerate(members) for i in rows)
    push = sum(distance(mu[m], mu[k]) for m in mu for k in mu if m != k)
    return -push / CLASSES, pull / CLASSES


def several_components(method):
    """A gate so steep that images differ in their component."""
    method.gate[2].weight.mul_(40)
    method.gate[2].bias.zero_()


@pytest.mark.parametrize("follow", ["code", "paper"])
def test_mixem(follow):
    weights = {"contrast": 1, "comp_ent": 2.0, "inst_ent": 0.1, "push": 0.05, "pull": 0.1}
    run = follow_along(
        "mixem", settings={"embedding": 5, "follow": follow}, weights=weights, prepare=several_components
    )
    w = Weights(run, "backbone", "experts", "gate")
    for step in run.steps:
        mixtures = [mixture(w, view, CLASSES) for view in step.views]
        terms = {"contrast": nt_xent(mixtures[0][2], mixtures[1][2], 0.5)}
        terms |= dict.fromkeys(("comp_ent", "inst_ent", "push", "pull"), 0.0)
        for p, e, z in mixtures:
            mean = p.mean(0)
            doubt = 1 - p.max(1).values
            push, pull = shape_of_code(p, z) if follow == "code" else shape_of_paper(p, e)
            terms["comp_ent"] = terms["comp_ent"] + (mean * mean.log()).sum()
            terms["inst_ent"] = terms["inst_ent"] + (doubt.mean() if follow == "code" else doubt.sum())
            terms["push"], terms["pull"] = terms["push"] + push, terms["pull"] + pull
        w.step(step, terms)
    assert run.outcome.history[0]["occupied_components"] > 1
    run.check(w)


@pytest.mark.parametrize("stop", [True, False])
def test_simsiam(stop):
    run = follow_along("simsiam", settings={"embedding": 5, "bottleneck": 3, "stop_gradient": stop})
    w = Weights(run, "backbone", "head", "predictor")
    for step in run.steps:
        z1, z2 = (w.embed(view) for view in step.views)
        p1, p2 = w.stack(z1, "predictor"), w.stack(z2, "predictor")
        if stop:
            z1, z2 = z1.detach(), z2.detach()
        cosines = [(unit(p) * unit(z)).sum(1).mean() for p, z in ((p1, z2), (p2, z1))]
        w.step(step, {"prediction": -(cosines[0] + cosines[1]) / 2})
    run.check(w, 1e-5)


def test_barlow_twins():
    run = follow_along("barlow_twins", settings={"hidden": 6, "embedding": 4})
    w = Weights(run, "backbone", "head")
    for step in run.steps:
        z = [w.embed(view) for view in step.views]
        a, b = ((v - v.mean(0)) / (v.var(0, correction=0) + 1e-5).sqrt() for v in z)
        c = a.T @ b / BATCH
        on = (1 - c.diag()).square().sum()
        off = c.square().sum() - c.diag().square().sum()
        w.step(step, {"redundancy": on + 0.005 * off})
    run.check(w, 1e-5)


def test_vicreg():
    run = follow_along("vicreg", settings={"hidden": 6, "embedding": 4}, optimiser={"lr": 0.01})
    w = Weights(run, "backbone", "head")
    for step in run.steps:
        z1, z2 = (w.embed(view) for view in step.views)
        loss = 25 * (z1 - z2).square().mean()
        for z in (z1, z2):
            loss = loss + 25 * (1 - (z.var(0) + 1e-4).sqrt()).relu().mean() / 2
            c = (z - z.mean(0)).T @ (z - z.mean(0)) / (BATCH - 1)
            loss = loss + (c.square().sum() - c.diag().square().sum()) / 4
        w.step(step, {"regularised": loss}, 0.01)
    run.check(w, 1e-5)


def test_wmse():
    run = follow_along("wmse", settings={"hidden": 6, "embedding": 2, "slice_size": BATCH}, optimiser={"lr": 0.05})
    w = Weights(run, "backbone", "head")
    for step in run.steps:
        white = []
        for view in step.views:
            z = w.embed(view)
            z = z - z.mean(0)
            root = torch.linalg.cholesky(z.T @ z / (BATCH - 1))
            white.append(unit(z @ torch.linalg.inv(root).T))
        w.step(step, {"whitened": 2 - 2 * (white[0] * white[1]).sum(1).mean()}, 0.05)
    run.check(w, 1e-5)


# ---- UniCLR


def inverse(z1, z2, count, ridge):
    """(the joint mean, the inverse of the joint scatter over `count`, ridge on its diagonal)."""
    joint = torch.cat([z1, z2])
    mean = joint.mean(0)
    sigma = sum(torch.outer(row - mean, row - mean) for row in joint) / count
    return mean, torch.linalg.inv(sigma + ridge * torch.eye(len(mean), dtype=z1.dtype))


def affinity(kind, follow, z1, z2, ridge):
    """A [N, N] of the text, or of the released code."""
    n = len(z1)
    if kind == "affinity":
        return unit(z1) @ unit(z2).T
    if follow == "code":
        z1, z2 = unit(z1), unit(z2)
        mean, m = inverse(z1, z2, 2 * n - 1, ridge)
        if kind == "trace":
            mean, m = mean.detach(), m.detach()
        return (z1 - mean) @ m @ (z2 - mean).T / (n if kind == "whitening" else 1)
    mean, m = inverse(z1, z2, 2 * n if kind == "whitening" else 1, ridge)
    z1, z2 = z1 - mean, z2 - mean
    a = z1 @ m @ z2.T
    if kind == "trace":
        return a
    lengths = [((z @ m) * z).sum(1).sqrt() for z in (z1, z2)]
    return a / lengths[0].unsqueeze(1) / lengths[1]


def uniclr_terms(settings, z1, z2):
    a = affinity(settings["affinity"], settings["follow"], z1, z2, settings["ridge"])
    if settings["affinity"] == "trace":
        return {"fit": -a.diag().sum() / (len(a) if settings["follow"] == "code" else 1)}
    terms = {"fit": cross_entropy(a / settings["temperature"], torch.arange(len(a)))}
    # Of A itself: the text's symmetry term has no temperature; the released code's has.
    uneven = a / settings["temperature"] if settings["follow"] == "code" else a
    return terms | {"symmetry": ((uneven - uneven.T).square().sum() + 1e-12).sqrt() - 1e-6}


@pytest.mark.parametrize("follow", ["paper", "code"])
@pytest.mark.parametrize("kind", ["affinity", "whitening", "trace"])
def test_uniclr(kind, follow):
    settings = {"widths": [6, 4], "affinity": kind, "follow": follow, "ridge": 0.01}
    weights = {"fit": 1, "symmetry": 0 if kind == "trace" else 0.5}
    # The trace of the text is a sum over images, not a mean: a smaller step.
    run = follow_along("uniclr", settings=settings, weights=weights, optimiser={"lr": 0.02})
    w = Weights(run, "backbone", "head")
    for step in run.steps:
        z1, z2 = (w.embed(view) for view in step.views)
        w.step(step, uniclr_terms(run.recipe["settings"], z1, z2), 0.02)
    run.check(w, 2e-5)


def test_uniclr_with_a_key_encoder_and_a_predictor():
    settings = {"widths": [6, 4], "ema": 0.8, "predictor": 5}
    run = follow_along("uniclr", settings=settings, weights={"fit": 1, "symmetry": 0.5})
    w = Weights(run, "backbone", "head", "predictor")
    w.copy_of("keys", "backbone", "head")
    for step in run.steps:
        first, second = step.views
        with torch.no_grad():
            keys = [w.embed(first, "keys"), w.embed(second, "keys")]
        pairs = [
            uniclr_terms(run.recipe["settings"], w.stack(w.embed(view), "predictor"), key)
            for view, key in ((first, keys[1]), (second, keys[0]))
        ]
        w.step(step, {name: (pairs[0][name] + pairs[1][name]) / 2 for name in pairs[0]})
        w.drift("keys", 0.8, "backbone", "head")
    run.check(w, 1e-5)


def test_the_references_plain_layers_are_torchs():
    """The harness itself: its batch norm is torch's."""
    x = torch.randn(8, 3, 2, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    layer = torch.nn.BatchNorm2d(3).double()
    w = Weights.__new__(Weights)
    w |= {f"n.{name}": value.clone() for name, value in layer.state_dict().items()}
    torch.testing.assert_close(w.batch_norm("n", x, True), layer(x))
    torch.testing.assert_close(w["n.running_var"], layer.running_var)
    torch.testing.assert_close(w.batch_norm("n", x, False), layer.eval()(x))
    torch.testing.assert_close(
        cross_entropy(x[:, :, 0, 0], torch.arange(8) % 3), F.cross_entropy(x[:, :, 0, 0], torch.arange(8) % 3)
    )
