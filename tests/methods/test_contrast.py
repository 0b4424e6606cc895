import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from methods.blocks.contrast import info_nce, info_nce_in_batch, nt_xent


def by_loops(z1, z2, temperature, anchors):
    """NT-Xent in plain Python floats, straight from MIX'EM eqs. 1-2."""
    z = [[float(v) for v in row] for row in torch.cat([z1, z2])]
    norms = [math.sqrt(sum(v * v for v in row)) for row in z]
    n = len(z1)

    def similarity(i, j):
        return sum(a * b for a, b in zip(z[i], z[j], strict=True)) / norms[i] / norms[j] / temperature

    total, rows = 0.0, range(2 * n if anchors == "both" else n)
    for i in rows:
        denominator = sum(math.exp(similarity(i, j)) for j in range(2 * n) if j != i)
        total += math.log(denominator) - similarity(i, (i + n) % (2 * n))
    return total / len(rows)


@pytest.mark.parametrize(("temperature", "value"), [(0.5, 0.2395447662), (1.0, 0.5514447140)])
def test_oracle_identity(temperature, value):
    eye = torch.eye(2, dtype=torch.float64)
    assert nt_xent(eye, eye, temperature).item() == pytest.approx(value, abs=1e-10)


@pytest.mark.parametrize("temperature", [0.1, 0.5, 3.0])
def test_equal_vectors_give_log_of_candidates(temperature):
    ones = torch.ones(4, 3, dtype=torch.float64)
    assert nt_xent(ones, ones, temperature).item() == pytest.approx(math.log(7), abs=1e-10)


@pytest.mark.parametrize("anchors", ["both", "first"])
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), rows=st.integers(1, 6), temperature=st.sampled_from([0.1, 0.5, 1.0]))
def test_equals_loops_and_ignores_scale_and_order(anchors, seed, rows, temperature):
    generator = torch.Generator().manual_seed(seed)
    z1, z2 = (torch.randn(rows, 5, dtype=torch.float64, generator=generator) for _ in range(2))
    loss = nt_xent(z1, z2, temperature, anchors)
    assert loss.item() == pytest.approx(by_loops(z1, z2, temperature, anchors), rel=1e-9, abs=1e-9)
    scales = torch.rand(rows, 1, dtype=torch.float64, generator=generator) + 0.5
    order = torch.randperm(rows, generator=generator)
    assert nt_xent((z1 * scales)[order], z2[order], temperature, anchors).item() == pytest.approx(loss.item(), abs=1e-9)


def test_gradient():
    generator = torch.Generator().manual_seed(0)
    z = [torch.randn(3, 4, dtype=torch.float64, generator=generator, requires_grad=True) for _ in range(2)]
    assert torch.autograd.gradcheck(lambda a, b: nt_xent(a, b, 0.3), z)


def test_one_image_has_only_its_positive():
    z = torch.randn(1, 4)
    assert nt_xent(z, torch.randn(1, 4), 0.5).item() == pytest.approx(0, abs=1e-6)


def test_computed_in_float32_from_half():
    z = torch.randn(8, 4, generator=torch.Generator().manual_seed(0))
    loss = nt_xent(z.bfloat16(), z.bfloat16(), 0.1)
    assert loss.dtype == torch.float32
    assert torch.isfinite(loss)


def test_autocast_around_it_changes_nothing():
    """Under autocast a matrix product of float32 tensors is computed in bfloat16: not here."""
    z = [torch.randn(32, 16, generator=torch.Generator().manual_seed(i)) for i in range(2)]
    with torch.autocast("cpu", torch.bfloat16):
        inside = nt_xent(*z, 0.1)
    torch.testing.assert_close(inside, nt_xent(*z, 0.1), atol=0, rtol=0)


def by_loops_queue(q, k, queue, t):
    total = 0.0
    for i in range(len(q)):
        dots = [float(q[i] @ k[i])] + [float(q[i] @ row) for row in queue]
        total += -dots[0] / t + math.log(sum(math.exp(d / t) for d in dots))
    return total / len(q)


def test_info_nce_equals_loops_and_keeps_gradients_out_of_keys_and_queue():
    generator = torch.Generator().manual_seed(0)
    q, k, queue = (torch.randn(n, 5, dtype=torch.float64, generator=generator, requires_grad=True) for n in (4, 4, 7))
    loss = info_nce(q, k, queue, 0.7)
    assert loss.item() == pytest.approx(by_loops_queue(q.detach(), k.detach(), queue.detach(), 0.7))
    loss.backward()
    assert q.grad.abs().sum() > 0
    assert k.grad is None
    assert queue.grad is None


def test_info_nce_in_batch_equals_loops():
    generator = torch.Generator().manual_seed(0)
    q, k = (torch.randn(4, 5, dtype=torch.float64, generator=generator) for _ in range(2))
    total = 0.0
    for i in range(4):
        dots = [float(q[i] @ k[j]) / 0.7 for j in range(4)]
        total += -dots[i] + math.log(sum(map(math.exp, dots)))
    assert info_nce_in_batch(q, k, 0.7).item() == pytest.approx(total / 4)
    assert info_nce_in_batch(q[:1], k[:1], 0.7) == 0  # alone there is nothing to tell apart
