import pytest
import torch
import torch.nn.functional as F

from methods.method import Batch, DataFacts, build_method
from methods.uniclr import affinity_of_trace, affinity_of_unit_vectors, affinity_of_whitened, asymmetry
from pipeline.recipes import resolve


def views(rows=24, width=6, seed=0):
    generator = torch.Generator().manual_seed(seed)
    z1 = torch.randn(rows, width, dtype=torch.float64, generator=generator)
    return z1, z1 + 0.3 * torch.randn(rows, width, dtype=torch.float64, generator=generator)


def zca(z1, z2, count):
    joint = torch.cat([z1, z2])
    centred = joint - joint.mean(0)
    values, vectors = torch.linalg.eigh(centred.T @ centred / count)
    white = centred @ vectors @ torch.diag(values**-0.5) @ vectors.T
    return white[: len(z1)], white[len(z1) :]


def test_unit_vectors_by_loops():
    z1, z2 = views()
    a = affinity_of_unit_vectors(z1, z2)
    for i in range(3):
        for j in range(3):
            expected = float(z1[i] @ z2[j]) / float(z1[i].norm() * z2[j].norm())
            assert a[i, j].item() == pytest.approx(expected)


def test_cholesky_and_zca_give_the_same_affinity():
    z1, z2 = views()
    w1, w2 = zca(z1, z2, 48)
    torch.testing.assert_close(
        affinity_of_whitened(z1, z2), F.normalize(w1, dim=1) @ F.normalize(w2, dim=1).T, rtol=0, atol=1e-10
    )
    w1, w2 = zca(z1, z2, 1)
    torch.testing.assert_close(affinity_of_trace(z1, z2), w1 @ w2.T, rtol=0, atol=1e-10)


def test_the_trace_is_at_most_half_the_width_and_reaches_it_for_equal_views():
    z1, z2 = views()
    assert affinity_of_trace(z1, z2).trace() < 3
    assert affinity_of_trace(z1, z1).trace().item() == pytest.approx(3)
    assert affinity_of_trace(7 * z1 + 2, 7 * z2 + 2).trace().item() == pytest.approx(
        affinity_of_trace(z1, z2).trace().item()
    )


def test_the_gradient_passes_the_covariance():
    """Scale changes nothing, so the gradient is orthogonal to the vectors: no blow-up, no collapse by shrinking."""
    z1, z2 = (z.requires_grad_() for z in views())
    affinity_of_trace(z1, z2).trace().backward()
    both, gradient = torch.cat([z1, z2]), torch.cat([z1.grad, z2.grad])
    assert (both * gradient).sum().item() == pytest.approx(0, abs=1e-9)
    y1, y2 = (z.detach().clone().requires_grad_() for z in (z1, z2))
    affinity_of_trace(y1, y2, "code").trace().backward()
    assert torch.isfinite(y1.grad).all()
    small = (z.detach()[:4, :3].clone().requires_grad_() for z in (z1, z2))
    assert torch.autograd.gradcheck(lambda a, b: affinity_of_whitened(a, b), tuple(small))


def test_too_few_vectors_make_the_affinity_constant():
    """2N - 1 <= D: whitening spans everything, A is the centring matrix whatever the images are."""
    for seed in (0, 1):
        z1, z2 = views(rows=4, width=12, seed=seed)
        a = affinity_of_whitened(z1, z2, "paper", 1e-9)
        torch.testing.assert_close(a, torch.full_like(a, -1 / 7), rtol=0, atol=1e-4)


def test_asymmetry_of_a_symmetric_matrix_is_zero_with_a_finite_gradient():
    a = torch.eye(3, dtype=torch.float64).requires_grad_()
    value = asymmetry(a)
    value.backward()
    assert value == 0
    assert torch.isfinite(a.grad).all()
    b = torch.tensor([[0.0, 3.0], [-1.0, 0.0]], dtype=torch.float64)
    assert asymmetry(b).item() == pytest.approx((2 * 16) ** 0.5, rel=1e-6)


def build(name="uniclr", weights=None, **settings):
    recipe = resolve(name, "digits", {"*": {"network": {"widths": [8, 16]}}})
    recipe["settings"] |= {"widths": [16, 16, 6], **settings}
    recipe["weights"] |= weights or {}
    torch.manual_seed(0)
    return build_method(recipe, DataFacts(10, (8, 8, 1), 64)).train()


def batch(count=16):
    generator = torch.Generator().manual_seed(0)
    return Batch([torch.randn(count, 1, 8, 8, generator=generator) for _ in range(2)], torch.arange(count))


@pytest.mark.parametrize("follow", ["paper", "code"])
@pytest.mark.parametrize("affinity", ["affinity", "whitening", "trace"])
@pytest.mark.parametrize("more", [{}, {"ema": 0.9, "predictor": 8}])
def test_every_form_trains(follow, affinity, more):
    method = build(affinity=affinity, follow=follow, ridge=0.01, **more)
    before = [p.clone() for p in method.keys.parameters()] if more else []
    optimiser = torch.optim.SGD([p for p in method.parameters() if p.requires_grad], 0.1)
    terms = method.losses(batch())
    assert set(terms) == ({"fit"} if affinity == "trace" else {"fit", "symmetry"})
    sum(terms.values()).backward()
    assert all(torch.isfinite(p.grad).all() for p in method.backbone.parameters())
    optimiser.step()
    method.after_step()
    if more:
        assert any(not torch.equal(a, b) for a, b in zip(before, method.keys.parameters(), strict=True))


def test_a_batch_too_small_is_refused_or_warned_of():
    with pytest.raises(ValueError, match=r"batch of 3 for 6 dimensions: with 2N - 1 <= D"):
        build(affinity="whitening").losses(batch(3))
    with pytest.warns(UserWarning, match="batch of 3 for 6 dimensions"):
        build(affinity="trace", small_batch="warn", ridge=0.1).losses(batch(3))
    build(affinity="affinity").losses(batch(3))


def test_trace_of_the_affinity_is_that_of_the_whitened_cross_covariance():
    """Sec. 3.2: Trace((Z - mu)^T Sigma^-1 (Z' - mu)) = Trace(Sigma^-1 (Z' - mu) (Z - mu)^T)."""
    z1, z2 = views()
    mean = torch.cat([z1, z2]).mean(0)
    joint = torch.cat([z1, z2]) - mean
    crossed = torch.linalg.inv(joint.T @ joint) @ (z2 - mean).T @ (z1 - mean)
    assert affinity_of_trace(z1, z2).trace().item() == pytest.approx(crossed.trace().item())


def test_the_norm_over_n_is_the_same_for_a_batch_seen_twice():
    method = {name: build(gamma_per_n=name == "each") for name in ("all", "each")}
    z1, z2 = (z.float() for z in views())
    once, twice = (z1, z2), (torch.cat([z1, z1]), torch.cat([z2, z2]))
    norm = {name: [m._losses_of_pair(*z)["symmetry"].item() for z in (once, twice)] for name, m in method.items()}
    assert norm["all"][1] == pytest.approx(2 * norm["all"][0], rel=1e-4)
    assert norm["each"][1] == pytest.approx(norm["each"][0], rel=1e-4)
    assert norm["each"][0] == pytest.approx(norm["all"][0] / 24, rel=1e-4)


def test_trace_keeps_the_rank_that_plain_attraction_loses():
    """Sixty steps of one network on noisy images: neither has negatives, stop-gradient or predictor."""
    from evaluation.similarity import rankme

    generator = torch.Generator().manual_seed(0)
    images = torch.rand(64, 1, 8, 8, generator=generator)
    rank = {}
    for name, settings in (("uniclr-trace", {"widths": [16, 16, 6]}), ("simsiam-attraction", {"embedding": 6})):
        recipe = resolve(name, "digits", {"*": {"network": {"widths": [8, 16]}, "settings": settings}})
        torch.manual_seed(0)
        method = build_method(recipe, DataFacts(10, (8, 8, 1), 64)).train()
        optimiser = torch.optim.Adam(method.parameters(), 1e-2)
        for _ in range(60):
            noisy = [images + 0.1 * torch.randn(images.shape, generator=generator) for _ in range(2)]
            terms = method.losses(Batch(noisy, torch.arange(64)))
            optimiser.zero_grad()
            sum(terms.values()).backward()
            optimiser.step()
        z = method.features(images)["z"].detach()
        rank[name] = rankme((z - z.mean(0)).numpy())
    assert rank["uniclr-trace"] > 2 * rank["simsiam-attraction"], rank
