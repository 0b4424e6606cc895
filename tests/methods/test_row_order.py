import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from methods.blocks.row_order import content_order, order_of_ties


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 40), st.integers(1, 30), st.integers(1, 3), st.integers(0, 2**31))
def test_rows_come_in_the_order_of_all_their_columns(rows, width, values, seed):
    generator = np.random.default_rng(seed)
    x = generator.integers(0, values, (rows, width)).astype(np.float32)
    order, decided = content_order(torch.from_numpy(x))
    np.testing.assert_array_equal(x[order.numpy()], x[np.lexsort(x.T[::-1])])
    assert sorted(order.tolist()) == list(range(rows))
    assert decided == (len(np.unique(x[:, :8], axis=0)) == rows)
    shuffled = torch.from_numpy(x[generator.permutation(rows)])
    np.testing.assert_array_equal(shuffled[content_order(shuffled)[0]], x[order.numpy()])


@pytest.mark.parametrize("blank", [8, 19, 64])
def test_blank_borders_leave_the_order_to_the_columns_behind_them(blank):
    x = torch.zeros(50, 70)
    x[:, blank:] = torch.randn(50, 70 - blank, generator=torch.Generator().manual_seed(0))
    order, decided = content_order(x)
    assert not decided
    assert torch.equal(order, x[:, blank].argsort())
    assert torch.equal(order_of_ties(x), order)


def test_first_columns_that_tell_rows_apart_leave_them_where_they_are():
    assert order_of_ties(torch.tensor([[3.0, 0.0], [1.0, 0.0], [2.0, 0.0]])) is None
    assert content_order(torch.zeros(1, 3))[0].tolist() == [0]
