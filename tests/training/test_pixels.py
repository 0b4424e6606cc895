"""Every pixel function against torchvision's functional operation, same parameters: 256 images, grey and colour."""

import pytest
import torch
import torchvision.transforms.v2.functional as tv
from torchvision.transforms import InterpolationMode

from training import augmentation as augment
from training import pixels, strong

SHAPES = [(3, 32, 32), (1, 28, 28), (3, 9, 12), (1, 15, 7), (3, 33, 31)]
EXACT, INTERPOLATED = 1e-4, 2 / 255
COUNT = 256


def images(shape, count=COUNT, seed=0):
    return torch.rand(count, *shape, generator=torch.Generator().manual_seed(seed))


def generator(seed=1):
    return torch.Generator().manual_seed(seed)


def compare(ours, theirs, tolerance):
    assert torch.isfinite(ours).all()
    worst = max((a - b).abs().max().item() for a, b in zip(ours, theirs, strict=True))
    print(f"largest difference {worst:.1e}")  # shown by pytest -rP
    assert worst <= tolerance, f"largest difference {worst:.2e}"


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("size", [None, 8, 40])
def test_resized_crop(shape, size):
    x = images(shape)
    settings = {"scale": [0.08, 1.0], "ratio": [3 / 4, 4 / 3], **({"size": size} if size else {})}
    given = augment.sample_crop(len(x), settings, shape, generator())
    box = [[int(given[name][i]) for name in ("top", "left", "height", "width")] for i in range(len(x))]
    assert given["size"] == ((size, size) if size else shape[1:])
    theirs = [tv.resized_crop(x[i], *box[i], list(given["size"]), antialias=True) for i in range(len(x))]
    compare(pixels.resized_crop(x, **given), theirs, INTERPOLATED)
    compare(pixels.resized_crop(x, **given), theirs, 1e-4)  # the weights are torch's own
    as_bytes = (x * 255).byte()
    compare(pixels.resized_crop(as_bytes, **given), pixels.resized_crop(as_bytes / 255, **given), 1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_affine(shape):
    x = images(shape)
    settings = {"degrees": 25, "translate": 0.2, "scale": [0.7, 1.3], "shear": 15}
    given = augment.sample_affine(len(x), settings, shape, generator())
    given["shear"][:, 1] = torch.linspace(-10, 10, len(x))
    theirs = [
        tv.affine(
            x[i],
            angle=given["angle"][i].item(),
            translate=given["translate"][i].tolist(),
            scale=given["scale"][i].item(),
            shear=given["shear"][i].tolist(),
            interpolation=InterpolationMode.BILINEAR,
        )
        for i in range(len(x))
    ]
    compare(pixels.affine(x, **given), theirs, INTERPOLATED)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("ours", "theirs", "low", "high"),
    [
        (pixels.brightness, tv.adjust_brightness, 0.0, 2.5),
        (pixels.contrast, tv.adjust_contrast, 0.0, 2.5),
        (pixels.saturation, tv.adjust_saturation, 0.0, 2.5),
        (pixels.hue, tv.adjust_hue, -0.5, 0.5),
        (pixels.solarise, tv.solarize, 0.0, 1.0),
    ],
    ids=["brightness", "contrast", "saturation", "hue", "solarise"],
)
def test_colour(shape, ours, theirs, low, high):
    x = images(shape)
    x[0] = 0.5  # grey pixels have no hue
    x[1, :, :2] = 0
    x[2] = 1
    factor = torch.rand(len(x), generator=generator()) * (high - low) + low
    compare(ours(x.clone(), factor), [theirs(x[i], factor[i].item()) for i in range(len(x))], EXACT)


@pytest.mark.parametrize("shape", SHAPES)
def test_jitter_in_each_images_own_order(shape):
    x = images(shape)
    settings = {"brightness": 0.8, "contrast": 0.8, "saturation": 0.8, "hue": 0.2}
    given = augment.sample_jitter(len(x), settings, shape, generator())
    functions = [tv.adjust_brightness, tv.adjust_contrast, tv.adjust_saturation, tv.adjust_hue]
    names = ["brightness", "contrast", "saturation", "hue"]

    def one(i, order):
        image = x[i]
        for step in order:
            image = functions[step](image, given[names[step]][i].item())
        return image

    theirs = [one(i, given["order"][i].tolist()) for i in range(len(x))]
    compare(pixels.jitter(x.clone(), **given), theirs, EXACT)
    shuffled = torch.randperm(len(x), generator=generator(5))  # orders that do not come sorted
    moved = {name: values[shuffled] for name, values in given.items()}
    compare(pixels.jitter(x[shuffled], **moved), [theirs[i] for i in shuffled], EXACT)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kernel", [3, 5])
def test_blur(shape, kernel):
    x = images(shape)
    sigma = torch.rand(len(x), generator=generator()) * 1.9 + 0.1
    theirs = [tv.gaussian_blur(x[i], [kernel, kernel], [sigma[i].item()] * 2) for i in range(len(x))]
    compare(pixels.gaussian_blur(x.clone(), sigma, kernel), theirs, EXACT)


@pytest.mark.parametrize("shape", SHAPES)
def test_grey_and_flip(shape):
    x = images(shape)
    theirs = [tv.rgb_to_grayscale(image, num_output_channels=shape[0]) for image in x]
    compare(pixels.greyscale(x), theirs, EXACT)
    compare(pixels.flip(x), [tv.horizontal_flip(image) for image in x], 0)


STRONG = {
    "autocontrast": lambda x, level, sign: tv.autocontrast(x),
    "solarise": lambda x, level, sign: tv.solarize(x, level),
    "colour": lambda x, level, sign: tv.adjust_saturation(x, 0.05 + 0.9 * level),
    "contrast": lambda x, level, sign: tv.adjust_contrast(x, 0.05 + 0.9 * level),
    "brightness": lambda x, level, sign: tv.adjust_brightness(x, 0.05 + 0.9 * level),
    "sharpness": lambda x, level, sign: tv.adjust_sharpness(x, 0.05 + 0.9 * level),
    "identity": lambda x, level, sign: x,
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", list(STRONG))
def test_strong_colour_operations(shape, name):
    x = images(shape)
    x[0] = 0.25  # constant: nothing to stretch
    level, sign = torch.rand(len(x), generator=generator()), torch.ones(len(x))
    theirs = [STRONG[name](x[i], level[i].item(), 1) for i in range(len(x))]
    compare(strong.OPERATIONS[name](x.clone(), level, sign), theirs, EXACT)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["rotate", "shear_x", "shear_y", "translate_x", "translate_y"])
def test_strong_geometry(shape, name):
    x = images(shape)
    level = torch.rand(len(x), generator=generator())
    sign = torch.randint(0, 2, (len(x),), generator=generator(2)) * 2.0 - 1

    def theirs(i):
        v = (level[i] * sign[i]).item()
        given = {"angle": 0.0, "translate": [0, 0], "scale": 1.0, "shear": [0.0, 0.0]}
        degrees = torch.rad2deg(torch.atan(torch.tensor(0.1 * v))).item()
        given |= {
            "rotate": {"angle": 30 * v},
            "shear_x": {"shear": [degrees, 0.0]},
            "shear_y": {"shear": [0.0, degrees]},
            "translate_x": {"translate": [0.1 * v * shape[2], 0]},
            "translate_y": {"translate": [0, 0.1 * v * shape[1]]},
        }[name]
        return tv.affine(x[i], interpolation=InterpolationMode.BILINEAR, **given)

    compare(strong.OPERATIONS[name](x.clone(), level, sign), [theirs(i) for i in range(len(x))], INTERPOLATED)


@pytest.mark.parametrize("shape", SHAPES)
def test_equalise_and_posterise_on_bytes(shape):
    x = (images(shape) ** 2 * 255).byte()
    x[0] = 7  # one level only
    x[1] = (x[1] // 128) * 128
    level, sign = torch.rand(len(x), generator=generator()), torch.ones(len(x))
    floats = x.float() / 255
    compare(strong.equalise(floats.clone(), level, sign), [tv.equalize(image).float() / 255 for image in x], EXACT)
    bits = (4 + (level * 5).floor().clamp(max=4)).long()
    theirs = [tv.posterize(x[i], int(bits[i])).float() / 255 for i in range(len(x))]
    compare(strong.posterise(floats.clone(), level, sign), theirs, EXACT)


def test_cutout_is_scans_hole():
    x = torch.ones(COUNT, 3, 32, 32)
    given = augment.sample_cutout(COUNT, {"side": 16}, (3, 32, 32), generator())
    out = pixels.cutout(x, **given)
    for i in range(COUNT):
        side, (row, column) = int(given["side"][i]), given["centre"][i].tolist()
        expected = torch.ones(32, 32)
        top, left = row - side // 2, column - side // 2
        expected[max(top, 0) : max(top + side, 0), max(left, 0) : max(left + side, 0)] = 0
        assert torch.equal(out[i], expected.expand(3, -1, -1))
    assert set(given["side"].tolist()) == set(range(1, 17))
