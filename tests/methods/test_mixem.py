import math

import pytest
import torch

from methods.method import Batch, DataFacts
from methods.mixem import MixEm, Settings, shaping_terms

P = torch.tensor([[0.7, 0.3], [0.6, 0.4], [0.2, 0.8], [0.9, 0.1]], dtype=torch.float64)
E = torch.tensor([[[1, 0], [0, 1]], [[0.6, 0.8], [0, 1]], [[1, 0], [0.8, 0.6]], [[0, 1], [1, 0]]], dtype=torch.float64)


def mixed(p, e):
    return (p.unsqueeze(2) * e).sum(1)


# The spec's oracle holds 8 digits: its norms carried a small epsilon.
@pytest.mark.parametrize(
    ("follow", "values"),
    [
        ("code", {"comp_ent": -0.6730116670, "inst_ent": 0.25, "push": -0.3087069808, "pull": 0.4734039798}),
        ("paper", {"comp_ent": -0.6730116670, "inst_ent": 1.0, "push": -0.2666666667, "pull": 0.8188010631}),
    ],
)
def test_oracle(follow, values):
    found = shaping_terms(P, E, mixed(P, E), follow)
    assert {name: value.item() for name, value in found.items()} == pytest.approx(values, abs=1e-8)


def by_loops(p, e, follow):
    """Eqs. 4-8, or the released code, as scalar loops over tensors of one number (so that autograd can follow)."""
    n, m = p.shape
    z = [sum(p[i, c] * e[i, c] for c in range(m)) for i in range(n)]
    dominant = [max(range(m), key=lambda c: p[i, c].item()) for i in range(n)]
    mean = [sum(p[i, c] for i in range(n)) / n for c in range(m)]
    comp = sum(value * value.log() for value in mean if value > 0)
    inst = sum(1 - p[i, dominant[i]] for i in range(n))
    mu, pull = [], 0
    for c in range(m):
        vectors = [z[i] if follow == "code" else e[i, c] for i in range(n) if dominant[i] == c]
        if follow == "code":
            vectors.append(torch.zeros_like(z[0]))
        if not vectors:
            mu.append(None)
            continue
        centre = sum(vectors) / len(vectors)
        mu.append(centre)
        spread = sum(norm(v - centre) for v in vectors)
        pull = pull + (spread / len(vectors) if follow == "code" else spread) / m
    pairs = [(a, b) for a in range(m) for b in range(m) if a != b and mu[a] is not None and mu[b] is not None]
    apart = sum((norm(mu[a] - mu[b]) for a, b in pairs), torch.zeros((), dtype=p.dtype))
    push = -apart / (m * (m - 1) if follow == "code" else m)
    return {"comp_ent": comp, "inst_ent": inst / n if follow == "code" else inst, "push": push, "pull": pull}


def norm(v):
    square = (v * v).sum()
    return square.sqrt() if square > 0 else square  # value and gradient 0 at the origin


@pytest.mark.parametrize("follow", ["code", "paper"])
@pytest.mark.parametrize("seed", range(4))
def test_values_and_gradients_equal_loops(follow, seed):
    generator = torch.Generator().manual_seed(seed)
    rows, components = [(6, 3), (5, 5), (1, 4), (8, 2)][seed]  # components without members among them
    logits = torch.randn(rows, components, dtype=torch.float64, generator=generator, requires_grad=True)
    raw = torch.randn(rows, components, 3, dtype=torch.float64, generator=generator, requires_grad=True)

    def forward(terms):
        p, e = logits.softmax(1), torch.nn.functional.normalize(raw, dim=2)
        return terms(p, e)

    ours = forward(lambda p, e: shaping_terms(p, e, mixed(p, e), follow))
    theirs = forward(lambda p, e: by_loops(p, e, follow))
    for name in theirs:
        assert ours[name].item() == pytest.approx(theirs[name].item(), abs=1e-12), name
        for mine, other in zip(gradients(ours[name], logits, raw), gradients(theirs[name], logits, raw), strict=True):
            torch.testing.assert_close(mine, other, atol=1e-10, rtol=1e-8)


def gradients(value, *inputs):
    """Gradients, zero where the value does not depend on an input."""
    found = (
        torch.autograd.grad(value, inputs, retain_graph=True, allow_unused=True) if value.requires_grad else [None] * 2
    )
    return [torch.zeros_like(x) if g is None else g for g, x in zip(found, inputs, strict=True)]


@pytest.mark.parametrize("follow", ["code", "paper"])
def test_order_of_images_and_components_does_not_matter(follow):
    generator = torch.Generator().manual_seed(1)
    p = torch.rand(7, 4, dtype=torch.float64, generator=generator).softmax(1)
    e = torch.nn.functional.normalize(torch.randn(7, 4, 3, dtype=torch.float64, generator=generator), dim=2)
    before = shaping_terms(p, e, mixed(p, e), follow)
    rows, columns = torch.randperm(7, generator=generator), torch.randperm(4, generator=generator)
    p, e = p[rows][:, columns], e[rows][:, columns]
    after = shaping_terms(p, e, mixed(p, e), follow)
    for name in before:
        assert after[name].item() == pytest.approx(before[name].item(), abs=1e-12)


@pytest.mark.parametrize("follow", ["code", "paper"])
def test_everything_in_one_component_stays_finite(follow):
    p = torch.tensor([[1.0, 0.0, 0.0]] * 4, requires_grad=True)
    e = torch.nn.functional.normalize(torch.randn(4, 3, 2), dim=2).requires_grad_()
    terms = shaping_terms(p, e, mixed(p, e), follow)
    assert terms["comp_ent"].item() == pytest.approx(0)
    sum(terms.values()).backward()
    assert torch.isfinite(e.grad).all()


class Flat(torch.nn.Module):
    width = 6

    def forward(self, x):
        return x.flatten(1)


def method(components=4):
    torch.manual_seed(0)
    return MixEm(Flat(), DataFacts(3, (2, 3, 1), 8), Settings(components, embedding=5, temperature=0.5, follow="code"))


def test_mixture_equation_3_against_single_heads():
    model = method()
    h = torch.randn(5, 6)
    p, e, z = model.mixture(h)
    first, weight, bias = model.experts.first, model.experts.weight, model.experts.bias
    for m in range(4):
        hidden = (h @ first.weight[m * 6 : (m + 1) * 6].T + first.bias[m * 6 : (m + 1) * 6]).relu()
        alone = torch.nn.functional.normalize(hidden @ weight[m] + bias[m], dim=1)
        torch.testing.assert_close(e[:, m], alone)
    torch.testing.assert_close(z, (p.unsqueeze(2) * e).sum(1))
    torch.testing.assert_close(p.sum(1), torch.ones(5))


def test_losses_sum_both_views_and_count_components():
    model = method()
    batch = Batch([torch.randn(8, 1, 2, 3), torch.randn(8, 1, 2, 3)], torch.arange(8))
    terms = model.losses(batch)
    assert set(terms) == set(MixEm.terms)
    single = [shaping_terms(*model.mixture(v.flatten(1)), "code")["push"].item() for v in batch.views]
    assert terms["push"].item() == pytest.approx(sum(single), rel=1e-5)
    seen = model.statistics()
    assert 1 <= seen["occupied_components"] <= 4
    assert model.statistics()["largest_share"] == 0  # reset for the next epoch


def test_components_default_to_classes():
    assert method(components=None).components == 3
    assert math.isclose(method().features(torch.randn(2, 1, 2, 3))["p"].sum().item(), 2, rel_tol=1e-5)


@pytest.mark.parametrize("follow", ["code", "paper"])
def test_autocast_around_the_terms_changes_nothing(follow):
    p, e = P.float(), E.float()
    plain = shaping_terms(p, e, mixed(p, e), follow)
    with torch.autocast("cpu", torch.bfloat16):
        inside = shaping_terms(p, e, mixed(p, e), follow)
    for name, value in plain.items():
        torch.testing.assert_close(inside[name], value, atol=0, rtol=0)
