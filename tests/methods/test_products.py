import pytest
import torch

from methods.blocks.products import by_onednn, factor, product

WIDE = torch.backends.cpu.get_cpu_capability() == "AVX512"


@pytest.mark.parametrize(("rows", "width", "others"), [(1, 1, 1), (3, 7, 5), (64, 300, 33), (0, 4, 2)])
def test_products_equal_a_float64_loop(rows, width, others):
    torch.manual_seed(0)
    x, y, bias = torch.randn(rows, width), torch.randn(others, width), torch.randn(rows, 1)
    plain, shifted = product(factor(x), y), product(factor(x, -2), y, bias)
    assert plain.shape == shifted.shape == (rows, others)
    for i in range(rows):
        for j in range(others):
            dot = sum(float(a) * float(b) for a, b in zip(x[i], y[j], strict=True))
            assert float(plain[i, j]) == pytest.approx(dot, abs=1e-4)
            assert float(shifted[i, j]) == pytest.approx(float(bias[i]) - 2 * dot, abs=2e-4)


def test_bias_may_belong_to_columns_and_the_right_side_be_a_view():
    x, y = torch.randn(4, 6), torch.randn(6, 5)
    bias = torch.randn(5)
    torch.testing.assert_close(product(factor(x), y.T, bias), x @ y + bias)


def test_nan_and_infinity_stay():
    x = torch.tensor([[torch.nan, 0.0], [torch.inf, 1.0], [1.0, 2.0]])
    found = product(factor(x), torch.tensor([[1.0, 1.0]])).flatten()
    assert found[0].isnan()
    assert found[1:].tolist() == [torch.inf, 3.0]


def test_only_float32_outside_autocast_goes_to_onednn():
    assert by_onednn(torch.ones(2, 2)) == WIDE
    assert factor(torch.ones(2, 2)).is_mkldnn == WIDE
    assert not by_onednn(torch.ones(2, 2, dtype=torch.float64))
    assert (
        product(factor(torch.ones(2, 2, dtype=torch.float64)), torch.ones(1, 2, dtype=torch.float64)).dtype
        == torch.float64
    )
    with torch.autocast("cpu", torch.bfloat16):
        assert not by_onednn(torch.ones(2, 2))


@pytest.mark.skipif(not WIDE, reason="oneDNN's layout is used with AVX-512 alone")
def test_factors_of_different_precisions_are_named():
    with pytest.raises(ValueError, match=r"float32 on the CPU, and torch\.float64"):
        product(factor(torch.ones(2, 2)), torch.ones(2, 2, dtype=torch.float64))
