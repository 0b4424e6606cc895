"""Distributions of the drawn parameters against torchvision's own, and the whole of an augmentation."""

import numpy as np
import pytest
import torch
import torchvision.transforms.v2 as v2
from scipy.stats import chisquare, ks_2samp
from torchvision.transforms import RandomResizedCrop

from pipeline import catalogue
from pipeline.record import StageError
from training import augmentation as augment
from training import strong
from training.augmentation import Augment

NORMALISATION = {"mean": [0.5], "std": [0.25]}
DRAWS = 2000
PRESETS = [name for name in catalogue.names("augmentation") if name != "none"]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def images(count=64, channels=3, side=32):
    return torch.randint(0, 256, (count, channels, side, side), generator=generator(), dtype=torch.uint8)


def same_distribution(ours, theirs):
    """Two-sample Kolmogorov-Smirnov; seeds are fixed, so this passes or fails for good."""
    statistic, p = ks_2samp(np.asarray(ours), np.asarray(theirs))
    print(f"KS statistic {statistic:.3f}, p {p:.2f}")  # shown by pytest -rP
    assert p > 0.01, f"KS statistic {statistic:.3f}, p {p:.4f}"


@pytest.mark.parametrize(
    ("shape", "scale"), [((3, 32, 32), (0.08, 1.0)), ((1, 28, 28), (0.2, 1.0)), ((3, 20, 60), (0.5, 1.0))]
)
def test_crop_boxes_are_torchvisions(shape, scale):
    ours = augment.sample_crop(DRAWS, {"scale": scale, "ratio": (3 / 4, 4 / 3)}, shape, generator())
    torch.manual_seed(1)
    blank, aspect = torch.zeros(shape), shape[2] / shape[1]  # ours is the ratio over that of the view
    ratio = [3 / 4 * aspect, 4 / 3 * aspect]
    theirs = np.array([RandomResizedCrop.get_params(blank, list(scale), ratio) for _ in range(DRAWS)])
    for column, name in enumerate(("top", "left", "height", "width")):
        same_distribution(ours[name], theirs[:, column])
    assert (ours["top"] + ours["height"] <= shape[1]).all()
    assert (ours["left"] + ours["width"] <= shape[2]).all()


def test_jitter_is_torchvisions():
    settings = {"brightness": 0.4, "contrast": 1.5, "saturation": 0.2, "hue": 0.1}
    ours = augment.sample_jitter(DRAWS, settings, (3, 32, 32), generator())
    torch.manual_seed(1)
    transform = v2.ColorJitter(**settings)
    theirs = [transform.make_params([torch.zeros(3, 4, 4)]) for _ in range(DRAWS)]
    for name in settings:
        same_distribution(ours[name], [float(draw[f"{name}_factor"]) for draw in theirs])
    assert ours["contrast"].min() >= 0  # a factor below zero would invert the image
    counts = np.unique((ours["order"] * torch.tensor([64, 16, 4, 1])).sum(1), return_counts=True)[1]
    assert len(counts) == 24
    assert chisquare(counts).pvalue > 0.01


def test_blur_sigma_and_kernel():
    ours = augment.sample_blur(DRAWS, {"sigma": (0.1, 2.0), "kernel_share": 0.1}, (3, 96, 96), generator())
    same_distribution(ours["sigma"], np.random.default_rng(0).uniform(0.1, 2.0, DRAWS))
    assert ours["kernel"] == 9
    assert augment.sample_blur(1, {"sigma": (1, 1), "kernel_share": 0.1}, (3, 32, 32), generator())["kernel"] == 3


def test_affine_is_torchvisions():
    settings = {"degrees": 15, "translate": 0.25, "scale": (0.8, 1.2), "shear": 10}
    ours = augment.sample_affine(DRAWS, settings, (3, 400, 400), generator())
    torch.manual_seed(1)
    transform = v2.RandomAffine(degrees=15, translate=(0.25, 0.25), scale=(0.8, 1.2), shear=10)
    image = torch.zeros(3, 400, 400)
    theirs = [transform.make_params([image]) for _ in range(DRAWS)]
    same_distribution(ours["angle"], [draw["angle"] for draw in theirs])
    same_distribution(ours["scale"], [draw["scale"] for draw in theirs])
    same_distribution(ours["shear"][:, 0], [draw["shear"][0] for draw in theirs])
    same_distribution(ours["translate"][:, 1].round(), [draw["translate"][1] for draw in theirs])


def test_strong_draws_uniformly_with_replacement():
    ours = augment.sample_strong(DRAWS, {"operations": 4}, (3, 32, 32), generator())
    counts = np.bincount(ours["which"].flatten(), minlength=14)
    assert len(counts) == len(strong.OPERATIONS) == 14
    assert chisquare(counts).pvalue > 0.01
    assert abs(ours["sign"].mean()) < 0.05


@pytest.mark.parametrize("name", ["flip", "grey", "solarise", "jitter"])
def test_probabilities(name):
    settings = {
        "flip": {"probability": 0.3},
        "grey": {"probability": 0.3},
        "solarise": {"threshold": 0.5, "probability": 0.3},
        "jitter": {"brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1, "probability": 0.3},
    }[name]
    x = images(DRAWS, side=8)
    plain, changed = (
        Augment({}, NORMALISATION)(x, generator()),
        Augment({name: settings}, NORMALISATION)(x, generator()),
    )
    share = (plain != changed).flatten(1).any(1).float().mean().item()
    assert abs(share - 0.3) < 3 * (0.3 * 0.7 / DRAWS) ** 0.5


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize(("channels", "side"), [(1, 8), (1, 28), (3, 32), (3, 96), (3, 224)])
def test_presets_on_every_size(preset, channels, side):
    operations = catalogue.entry("augmentation", preset)
    augmentation = Augment(operations, NORMALISATION)
    rows = 9 if side < 200 else 4
    x = images(rows, channels, side)
    before = x.clone()
    first, second = augmentation(x, generator(1)), augmentation(x, generator(2))
    assert first.shape == (rows, channels, side, side)
    assert first.dtype == torch.float32
    assert torch.isfinite(first).all()
    assert first.min() >= -2 - 1e-4  # pixels stay in 0..1 before normalisation
    assert first.max() <= 2 + 1e-4
    assert not torch.equal(first, second)
    assert torch.equal(augmentation(x, generator(1)), first)
    assert torch.equal(x, before)  # the stored images are never changed
    twins = augmentation(x[:1].expand(rows, -1, -1, -1), generator(3))
    assert len({image.numpy().tobytes() for image in twins}) > 1  # equal images get different parameters


def test_a_batch_of_one_and_no_operations():
    x = images(1)
    plain = Augment({}, NORMALISATION)(x, generator())
    torch.testing.assert_close(plain, (x / 255 - 0.5) / 0.25)
    whole = Augment({"crop": {"scale": [1, 1], "ratio": [1, 1]}}, NORMALISATION)(x, generator())
    torch.testing.assert_close(whole, plain, atol=1e-5, rtol=0)


def test_every_operation_can_be_named_in_a_recipe():
    schema = catalogue.read_yaml(catalogue.CONFIG / "schemas" / "augmentation.yaml")
    assert set(schema["properties"]) == {*augment.OPERATIONS, "views"}
    assert set(schema["$defs"]["operations"]["properties"]) == set(augment.OPERATIONS)


def test_views_of_a_pair_have_their_own_operations():
    """BYOL's second view alone is solarised; what both share is drawn anew for each."""
    pair = {
        "solarise": {"threshold": 0.0, "probability": 0.0},
        "views": [{}, {"solarise": {"threshold": 0.0, "probability": 1.0}}],
    }
    x = images(4)
    plain, inverted = Augment(pair, NORMALISATION).views(x, 2, generator())
    torch.testing.assert_close(plain, (x / 255 - 0.5) / 0.25)
    torch.testing.assert_close(inverted, ((1 - x / 255) - 0.5) / 0.25)
    with pytest.raises(StageError, match="3 views asked of an augmentation that describes 2"):
        Augment(pair, NORMALISATION).views(x, 3, generator())
    crop, rest = Augment({"crop": {"scale": [1, 1], "ratio": [1, 1]}, **pair}, NORMALISATION).without_crop()
    assert crop == {"scale": [1, 1], "ratio": [1, 1]}
    torch.testing.assert_close(rest.views(x, 2, generator())[1], inverted)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("preset", PRESETS)
def test_cpu_and_gpu_agree(preset):
    operations = catalogue.entry("augmentation", preset)
    augmentation, x = Augment(operations, NORMALISATION), images(64)
    here, there = augmentation(x, generator(1)), augmentation(x.cuda(), generator(1)).cpu()
    # Threshold operations (solarise, posterise, equalise) may flip single pixels on the last bit.
    assert ((here - there).abs() > 1e-3).float().mean() < 1e-3
