import numpy as np
import pytest
import torch
import torchvision.transforms.v2.functional as tv
from torchvision.transforms import InterpolationMode

from methods.engine import augment
from methods.engine.augment import Augment

NORMALISATION = {"mean": [0.5], "std": [0.25]}


def images(count=256, channels=1, height=9, width=12, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(count, channels, height, width, generator=generator)


@pytest.mark.parametrize(("channels", "height", "width"), [(1, 8, 8), (3, 9, 12), (1, 15, 7)])
def test_affine_equals_torchvision(channels, height, width):
    x = images(256, channels, height, width)
    settings = {"degrees": 25, "translate": 0.2, "scale": [0.7, 1.3], "shear": 15}
    given = augment.sample_affine(x, settings, torch.Generator().manual_seed(1))
    ours = augment.affine(x, **given)
    for i in range(len(x)):
        theirs = tv.affine(
            x[i],
            angle=given["angle"][i].item(),
            translate=given["translate"][i].tolist(),
            scale=given["scale"][i].item(),
            shear=[given["shear"][i].item(), 0.0],
            interpolation=InterpolationMode.BILINEAR,
        )
        torch.testing.assert_close(ours[i], theirs, atol=2 / 255, rtol=0)


@pytest.mark.parametrize("channels", [1, 3])
def test_jitter_equals_torchvision(channels):
    x = images(64, channels)
    given = augment.sample_jitter(
        x, {"brightness": 0.6, "contrast": 0.6, "probability": 0.7}, torch.Generator().manual_seed(1)
    )
    ours = augment.jitter(x, **given)
    for i in range(len(x)):
        theirs = tv.adjust_contrast(
            tv.adjust_brightness(x[i], given["brightness"][i].item()), given["contrast"][i].item()
        )
        torch.testing.assert_close(ours[i], theirs, atol=1e-4, rtol=0)


def test_views_differ_repeat_and_are_normalised():
    pixels = (images(16) * 255).byte()
    operations = {
        "affine": {"degrees": 10, "translate": 0.1, "scale": [0.9, 1.1], "shear": 0},
        "jitter": {"brightness": 0.4, "contrast": 0.4, "probability": 0.8},
        "noise": {"std": 0.1, "probability": 0.5},
    }
    view = Augment(operations, NORMALISATION)
    generator = torch.Generator().manual_seed(3)
    first, second = view(pixels, generator), view(pixels, generator)
    assert not torch.equal(first, second)
    torch.testing.assert_close(view(pixels, torch.Generator().manual_seed(3)), first, atol=0, rtol=0)
    assert torch.isfinite(first).all()
    # Two equal images get different parameters.
    twins = view(pixels[:1].expand(2, -1, -1, -1), generator)
    assert not torch.equal(twins[0], twins[1])
    # Pixels stay in 0..1 before normalisation.
    assert first.min() >= -2 - 1e-6
    assert first.max() <= 2 + 1e-6


def test_switched_off_operations_leave_the_image():
    pixels = (images(4) * 255).byte()
    plain = Augment({"affine": None}, NORMALISATION)(pixels, torch.Generator())
    torch.testing.assert_close(plain, (pixels / 255 - 0.5) / 0.25)


def test_probability_and_range_of_jitter():
    x = images(2000)
    given = augment.sample_jitter(
        x, {"brightness": 0.4, "contrast": 1.5, "probability": 0.3}, torch.Generator().manual_seed(0)
    )
    changed = given["brightness"] != 1
    assert abs(changed.float().mean().item() - 0.3) < 0.04
    chosen = given["brightness"][changed].numpy()
    assert np.quantile(chosen, [0, 1]) == pytest.approx([0.6, 1.4], abs=0.02)
    assert given["contrast"].min() >= 0  # a factor below zero would invert the image
