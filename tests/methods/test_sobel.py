"""Sobel filters, and networks that are given edges."""

import pytest
import torch

from methods.blocks.networks import backbone
from methods.blocks.sobel import DX, DY, Sobel
from pipeline.recipes import resolve

SHAPE = (5, 7, 3)
GREYS = {"luma": (0.299, 0.587, 0.114), "mean": (1 / 3, 1 / 3, 1 / 3)}


def images(channels=3, dtype=torch.float64):
    return torch.rand(2, channels, *SHAPE[:2], dtype=dtype, generator=torch.Generator().manual_seed(0))


def by_loops(image, filters):
    """image [H, W] -> [H, W]; what lies outside the image is 0."""
    height, width = image.shape
    out = torch.zeros_like(image)
    for y in range(height):
        for x in range(width):
            for i in range(3):
                for j in range(3):
                    if 0 <= y + i - 1 < height and 0 <= x + j - 1 < width:
                        out[y, x] += filters[i][j] * image[y + i - 1, x + j - 1]
    return out


@pytest.mark.parametrize("grey", GREYS)
def test_edges_equal_loops(grey):
    x = images()
    expected = [
        torch.stack([by_loops(sum(w * c for w, c in zip(GREYS[grey], image, strict=True)), f) for f in (DX, DY)])
        for image in x
    ]
    torch.testing.assert_close(Sobel(SHAPE, grey).double()(x), torch.stack(expected), atol=1e-6, rtol=0)


def test_a_rising_image_has_a_constant_slope_inside():
    """x grows by 1 a column: the filters sum (left - right) over 4 weights, two columns apart; none downwards."""
    ramp = torch.arange(7.0).expand(1, 1, 5, 7)
    edges = Sobel((5, 7, 1), "luma")(ramp)[0, :, 1:-1, 1:-1]
    assert torch.equal(edges[0], torch.full((3, 5), -8.0))
    assert torch.equal(edges[1], torch.zeros(3, 5))
    turned = Sobel((7, 5, 1), "luma")(ramp.transpose(2, 3))[0, :, 1:-1, 1:-1]
    assert torch.equal(turned[1], torch.full((5, 3), -8.0))


def test_grey_images_are_taken_as_they_are():
    x = images(channels=1, dtype=torch.float32)
    assert torch.equal(Sobel((5, 7, 1), "luma")(x), Sobel((5, 7, 1), "mean")(x))
    torch.testing.assert_close(Sobel((5, 7, 1), "mean")(x), Sobel(SHAPE, "mean")(x.repeat(1, 3, 1, 1)))
    assert not torch.allclose(Sobel(SHAPE, "luma")(images().float()), Sobel(SHAPE, "mean")(images().float()))


def test_half_precision_does_not_reach_the_edges():
    x = images(dtype=torch.float32)
    sobel = Sobel(SHAPE, "mean")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(sobel(x), sobel(x))
        assert sobel(x).dtype == torch.float32
        inside = sobel(x)
    assert torch.equal(inside, sobel(x))


@pytest.mark.parametrize("name", ["convnet", "resnet18", "none"])
def test_a_network_on_edges(name):
    network = {
        "convnet": {"widths": [4, 6], "pool_after": [0]},
        "resnet18": {"stem": "cifar"},
        "none": {},
    }[name] | {"backbone": name}
    shape = (8, 8, 3)
    torch.manual_seed(0)
    on_edges = backbone(network | {"sobel": "mean"}, shape).eval()
    torch.manual_seed(0)
    plain = backbone(network, (8, 8, 2)).eval()
    x = torch.rand(3, 3, 8, 8)
    assert on_edges.width == plain.width
    torch.testing.assert_close(on_edges(x), plain(Sobel(shape, "mean")(x)))
    assert {f"network.{key}" for key in plain.state_dict()} == set(on_edges.state_dict())  # constants are no weights
    for parameter in on_edges.parameters():
        assert parameter.requires_grad
    luma = backbone(network | {"sobel": "luma"}, shape).eval()
    luma.load_state_dict(on_edges.state_dict())
    assert not torch.allclose(luma(x), on_edges(x))


def test_parts_of_a_batch_are_still_normalised_apart():
    split = backbone(
        {"backbone": "convnet", "widths": [4], "pool_after": [], "sobel": "mean", "split_batch_norm": 2}, (8, 8, 3)
    )
    with pytest.raises(ValueError, match="batch of 3 for 2 splits"):
        split(torch.rand(3, 3, 8, 8))


@pytest.mark.parametrize("shape", [(8, 8, 2), (1, 9, 1), (9, 1, 3)])
def test_what_has_no_edges_is_refused(shape):
    with pytest.raises(ValueError, match=r"network\.sobel: edges of \d x \d px with \d channels"):
        Sobel(shape, "mean")


def test_images_with_other_channels_are_refused():
    with pytest.raises(ValueError, match="images with 1 channels, but the network was built for 3"):
        Sobel(SHAPE, "mean")(images(channels=1))


def test_a_recipe_asks_for_edges():
    assert "sobel" not in resolve("simclr", "cifar10")["network"]
    on_edges = resolve("simclr_base", "cifar10", {"*": {"network": {"sobel": "mean"}}})
    assert on_edges["network"]["sobel"] == "mean"
    assert on_edges["network"]["backbone"] == "resnet18"
