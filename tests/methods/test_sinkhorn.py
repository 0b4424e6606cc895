import numpy as np
import pytest
import torch

from methods.blocks.sinkhorn import sinkhorn

S = torch.tensor([[0.8, 0.6], [0.6, 0.8], [1.0, 0.0], [0.8, 0.6]], dtype=torch.float64)


@pytest.mark.parametrize("stabilise", ["global_max", "log", "none"])
@pytest.mark.parametrize(
    ("epsilon", "rows"),
    [
        (0.5, [(0.458879, 0.541121), (0.275907, 0.724093), (0.807701, 0.192299), (0.458879, 0.541121)]),
        (0.05, [(0.499854, 0.500146), (0.000335, 0.999665), (1, 0), (0.499854, 0.500146)]),
    ],
)
def test_oracle(epsilon, rows, stabilise):
    q = sinkhorn(S, epsilon, 3, stabilise)
    np.testing.assert_allclose(q, rows, atol=1e-6)
    np.testing.assert_allclose(q.sum(1), 1, atol=1e-12)


def by_loops(scores, epsilon, iterations):
    q = np.exp(np.asarray(scores) / epsilon)
    rows, columns = q.shape
    for _ in range(iterations):
        for k in range(columns):
            q[:, k] /= q[:, k].sum()
        for b in range(rows):
            q[b] /= q[b].sum()
    return q


@pytest.mark.parametrize("shape", [(6, 3), (3, 7), (1, 4), (5, 1)])
def test_equals_loops_for_every_shape(shape):
    scores = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for stabilise in ("global_max", "log", "none"):
        np.testing.assert_allclose(sinkhorn(scores, 0.3, 4, stabilise), by_loops(scores, 0.3, 4), atol=1e-12)


def test_a_constant_and_the_order_of_rows_do_not_matter():
    torch.testing.assert_close(sinkhorn(S + 7, 0.05, 3), sinkhorn(S, 0.05, 3))
    order = torch.tensor([2, 0, 3, 1])
    torch.testing.assert_close(sinkhorn(S[order], 0.05, 3), sinkhorn(S, 0.05, 3)[order])


def test_many_iterations_balance_the_columns():
    scores = torch.randn(60, 6, generator=torch.Generator().manual_seed(1))
    np.testing.assert_allclose(sinkhorn(scores, 0.5, 500).sum(0), 10, atol=1e-2)


def test_large_scores_overflow_only_the_plain_form():
    scores = torch.randn(8, 4, generator=torch.Generator().manual_seed(2)) * 100
    assert not torch.isfinite(sinkhorn(scores, 0.05, 3, "none")).all()
    assert torch.isfinite(sinkhorn(scores, 0.05, 3, "log")).all()
    small = sinkhorn(scores / 100, 0.05, 3)
    assert torch.isfinite(small).all()


def test_no_gradient_and_float32_under_autocast():
    scores = torch.randn(4, 3, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        q = sinkhorn(scores.bfloat16(), 0.05, 3)
    assert q.dtype == torch.float32
    assert not q.requires_grad
    with pytest.raises(ValueError, match="must be"):
        sinkhorn(torch.zeros(3), 0.05, 3)
