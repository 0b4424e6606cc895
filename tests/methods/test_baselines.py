"""The self-supervised baselines: losses against their formulas, what gets gradients, what moves."""

import math

import pytest
import torch
import torch.nn.functional as F

from methods.co2 import consistency
from methods.method import Batch, Context, DataFacts, build_method
from pipeline.recipes import resolve


def build(name, **settings):
    recipe = resolve(name, "digits", {"*": {"network": {"widths": [8, 16]}}})
    recipe["settings"] |= settings
    torch.manual_seed(0)
    return build_method(recipe, DataFacts(10, (8, 8, 1), 64)).train()


def batch(count=16):
    generator = torch.Generator().manual_seed(0)
    return Batch([torch.randn(count, 1, 8, 8, generator=generator) for _ in range(2)], torch.arange(count))


SMALL = {
    "byol": {"embedding": 6, "hidden": 12},
    "simsiam": {"embedding": 6, "bottleneck": 3},
    "barlow_twins": {"embedding": 6, "hidden": 12},
    "vicreg": {"embedding": 6, "hidden": 12},
    "wmse": {"embedding": 4, "hidden": 12, "slice_size": 8},
    "co2": {"embedding": 6, "queue": 24},
}


@pytest.mark.parametrize("name", SMALL)
def test_trains_and_gives_features(name):
    method = build(name, **SMALL[name])
    method.before_step(Context(0, 2, 64, lambda rows: rows, lambda *path: 0, step=0, steps=8))
    terms = method.losses(batch())
    sum(terms.values()).backward()
    method.after_step()
    assert all(torch.isfinite(p.grad).all() for p in [*method.backbone.parameters(), *method.head.parameters()])
    found = method.eval().features(batch().views[0])
    assert found["h"].shape == (16, 16)
    assert len(found["z"]) == 16


def embeddings(method):
    return [method.head(method.backbone(view)) for view in batch().views]


@pytest.mark.parametrize("off_diagonal", [0.005, 0.2])
def test_barlow_twins_by_loops(off_diagonal):
    small = {**SMALL["barlow_twins"], "off_diagonal": off_diagonal}
    z1, z2 = (z.detach().double() for z in embeddings(build("barlow_twins", **small)))
    z1, z2 = ((z - z.mean(0)) / (z.var(0, correction=0) + 1e-5).sqrt() for z in (z1, z2))
    expected = 0.0
    for i in range(6):
        for j in range(6):
            c = float((z1[:, i] * z2[:, j]).sum()) / 16
            expected += (1 - c) ** 2 if i == j else off_diagonal * c * c
    found = build("barlow_twins", **small).losses(batch())["redundancy"].item()
    assert found == pytest.approx(expected, rel=1e-4)


def test_vicreg_by_loops():
    z1, z2 = (z.detach().double() for z in embeddings(build("vicreg", **SMALL["vicreg"])))
    expected = 25 * float((z1 - z2).square().mean())
    for z in (z1, z2):
        expected += 25 * sum(max(0.0, 1 - math.sqrt(float(z[:, i].var()) + 1e-4)) for i in range(6)) / 6 / 2
        centred = z - z.mean(0)
        covariance = centred.T @ centred / 15
        expected += sum(float(covariance[i, j]) ** 2 for i in range(6) for j in range(6) if i != j) / 6
    found = build("vicreg", **SMALL["vicreg"]).losses(batch())["regularised"].item()
    assert found == pytest.approx(expected, rel=1e-4)


def test_wmse_of_one_slice_by_hand():
    method = build("wmse", **{**SMALL["wmse"], "slice_size": 16})
    white = []
    for z in embeddings(build("wmse", **{**SMALL["wmse"], "slice_size": 16})):
        centred = (z - z.mean(0)).double()
        root = torch.linalg.cholesky(centred.T @ centred / 15)
        white.append(torch.linalg.solve_triangular(root, centred.T, upper=False).T)
    expected = (2 - 2 * F.cosine_similarity(*white, dim=1)).mean()
    assert method.losses(batch())["whitened"].item() == pytest.approx(expected.item(), rel=1e-3)
    with pytest.raises(ValueError, match="slices of 4 cannot whiten 4 dimensions"):
        build("wmse", **{**SMALL["wmse"], "slice_size": 4})


def test_byols_target_takes_no_gradient_and_its_momentum_rises_to_one():
    method = build("byol", **SMALL["byol"])
    for step, expected in ((0, 0.99), (4, 0.995), (8, 1.0)):
        method.before_step(Context(0, 2, 64, lambda rows: rows, lambda *path: 0, step=step, steps=8))
        assert float(method.momentum) == pytest.approx(expected)
    method.losses(batch())["prediction"].backward()
    assert all(p.grad is None for p in method.target.parameters())
    same = build("byol", **SMALL["byol"], symmetric=False)
    p = same.predictor(same.head(same.backbone(batch().views[0])))
    expected = 2 - 2 * F.cosine_similarity(p, same.target(batch().views[1]), dim=1).mean()
    again = build("byol", **SMALL["byol"], symmetric=False)
    assert again.losses(batch())["prediction"].item() == pytest.approx(expected.item(), rel=1e-4)


def test_simsiam_stops_the_gradient_of_the_target():
    def gradient(**more):
        method = build("simsiam", **SMALL["simsiam"], **more)
        method.losses(batch())["prediction"].backward()
        return method.head[0].weight.grad

    assert not torch.allclose(gradient(), gradient(stop_gradient=False))
    equal = build("simsiam", **SMALL["simsiam"], predict=False, stop_gradient=False)
    same = Batch([batch().views[0]] * 2, torch.arange(16))
    assert equal.losses(same)["prediction"].item() == pytest.approx(-1, abs=1e-5)


def test_consistency_by_loops():
    generator = torch.Generator().manual_seed(0)
    q, k, queue = (F.normalize(torch.randn(n, 5, dtype=torch.float64, generator=generator), dim=1) for n in (3, 3, 7))
    total = 0.0
    for i in range(3):
        rows = [[math.exp(float(v @ row) / 0.04) for row in queue] for v in (q[i], k[i])]
        a, b = ([value / sum(row) for value in row] for row in rows)
        total += sum(x * math.log(x / y) + y * math.log(y / x) for x, y in zip(a, b, strict=True)) / 2
    assert consistency(q, k, queue, 0.04).item() == pytest.approx(total / 3)
    leaf = k.clone().requires_grad_()
    other = q.clone().requires_grad_()
    consistency(other, leaf, queue, 0.04).backward()
    assert leaf.grad is None
    assert other.grad.abs().sum() > 0
