"""Augmentation of whole batches on the images' own device, each image with its own random parameters.

An operation is a pair: a sampler that draws parameters for B images (on the CPU, so that every device sees the same
draws), and a pixel function in training/pixels.py that applies given parameters. Which operations, and their
settings, is the recipe's `augmentation`; the papers' lists are presets in config/augmentations.
"""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from pipeline.record import StageError
from training import pixels, strong

Settings = Mapping[str, Any]
Parameters = dict[str, Tensor]


class Augment:
    """Random views of uint8 images (or floats in 0..1), normalised: a recipe's `augmentation`, in OPERATIONS' order.

    An augmentation with `views` (BYOL's pair) has one Augment for each view; without, all views are drawn alike.
    """

    def __init__(self, operations: Mapping[str, Any], normalisation: Mapping[str, list[float]]):
        wanted = {name: settings for name, settings in operations.items() if name != "views"}
        self.each = [Augment({**wanted, **changes}, normalisation) for changes in operations.get("views", ())]
        self.before = [(OPERATIONS[name], wanted[name]) for name in OPERATIONS if name in wanted and name != "cutout"]
        self.after = [(OPERATIONS["cutout"], wanted["cutout"])] if "cutout" in wanted else []
        self.normalise = Normalise(normalisation)

    def views(self, images: Tensor, count: int, generator: Generator) -> list[Tensor]:
        """`count` independent views of images [B, C, H, W], one after the other from the same generator."""
        return self.views_of([images] * count, generator)

    def views_of(self, images: Sequence[Tensor], generator: Generator) -> list[Tensor]:
        """A view of each of `images`, each [B, C, H, W]: the views of one batch where a decoder has already cropped."""
        if self.each and len(images) > len(self.each):
            raise StageError(f"{len(images)} views asked of an augmentation that describes {len(self.each)}")
        return [(self.each[number] if self.each else self)(view, generator) for number, view in enumerate(images)]

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        """images uint8 [B, C, H, W] -> one view, float [B, C, H, W], normalised. `generator`: on the CPU."""
        if images.dtype != torch.uint8:
            x = images.clone()  # operations may write in place, and the next view starts from the same images
        else:
            x = images if self.before and self.before[0][0].takes_bytes else images.float().mul_(1 / 255)
        for operation, settings in self.before:
            x = _run(operation, settings, x, generator)
        x = self.normalise(x)
        for operation, settings in self.after:
            x = _run(operation, settings, x, generator)
        return x

    def without_crop(self) -> tuple[Settings | None, "Augment"]:
        """(settings of the crop, the augmentation without it): for feeds that crop while they decode."""
        crop = next((settings for operation, settings in self.before if operation is OPERATIONS["crop"]), None)
        rest = copy.copy(self)
        rest.before = [pair for pair in self.before if pair[0] is not OPERATIONS["crop"]]
        rest.each = [each.without_crop()[1] for each in self.each]
        return crop, rest


def normalisation(recipe: Settings, card: Settings) -> dict[str, list[float]]:
    """Mean and std per channel that a recipe uses: the data set's, or none where it says `normalise: false`."""
    if recipe.get("normalise", True):
        return card["normalisation"]
    return {"mean": [0.0] * card["shape"][2], "std": [1.0] * card["shape"][2]}


class Normalise:
    """(x - mean) / std per channel; also turns uint8 images into floats."""

    def __init__(self, normalisation: Mapping[str, list[float]]):
        self.mean = torch.tensor(normalisation["mean"]).view(-1, 1, 1)
        self.std = torch.tensor(normalisation["std"]).view(-1, 1, 1)

    def __call__(self, images: Tensor) -> Tensor:
        x = images.float().mul_(1 / 255) if images.dtype == torch.uint8 else images
        mean, std = self.mean.to(x.device), self.std.to(x.device)
        return torch.addcmul(-mean / std, x, 1 / std)


@dataclass(frozen=True)
class Operation:
    """`sample(count, settings, shape, generator)` draws parameters for `count` images of `shape` (C, H, W);
    `apply(x, **parameters)` changes float images [B, C, H, W] in 0..1. With `probability` in its settings an operation
    reaches only so many images; `takes_bytes` says that it also accepts uint8 images and returns floats.
    """

    sample: Callable[..., Parameters]
    apply: Callable[..., Tensor]
    takes_bytes: bool = False


def _run(operation: Operation, settings: Settings, x: Tensor, generator: Generator) -> Tensor:
    """Draw parameters and apply them: to all images, or to those that `probability` chooses, in a random order."""
    count, index = len(x), None
    if settings.get("probability", 1) < 1:
        chosen = (torch.rand(count, generator=generator) < settings["probability"]).nonzero().squeeze(1)
        count = len(chosen)
        index = chosen[torch.randperm(count, generator=generator)].to(x.device, non_blocking=True)
        if not count:
            return x
    drawn = operation.sample(count, settings, x.shape[1:], generator)
    drawn = {k: v.to(x.device, non_blocking=True) if isinstance(v, Tensor) else v for k, v in drawn.items()}
    if index is None:
        return operation.apply(x, **drawn)
    return x.index_copy_(0, index, operation.apply(x[index], **drawn))


def _uniform(count: int, low: float, high: float, generator: Generator, *more: int) -> Tensor:
    return torch.rand(count, *more, generator=generator) * (high - low) + low


# ---- samplers


def sample_crop(count: int, settings: Settings, shape: tuple, generator: Generator) -> Parameters:
    """torchvision's RandomResizedCrop: area share and log aspect ratio uniform, ten tries, else a centre crop.

    The view has the size of the image, or `size`: a side, or (height, width). `ratio` is that of the box over the
    view's, so that a view of an oblong image is stretched no more than one of a square.
    """
    _, height, width = shape
    size = settings.get("size") or (height, width)
    size = (size, size) if isinstance(size, int) else size
    least, most = (value * (size[1] / size[0]) for value in settings["ratio"])
    tries = 10
    area = height * width * _uniform(count, *settings["scale"], generator, tries)
    low, high = math.log(least), math.log(most)
    ratio = _uniform(count, low, high, generator, tries).exp()
    w, h = (area * ratio).sqrt().round(), (area / ratio).sqrt().round()
    fits = (w > 0) & (w <= width) & (h > 0) & (h <= height)
    first = fits.to(torch.uint8).argmax(1, keepdim=True)
    w, h = w.gather(1, first).squeeze(1), h.gather(1, first).squeeze(1)
    none = ~fits.any(1)
    if none.any():
        whole = width / height
        bounded = min(max(whole, least), most)
        w[none] = width if whole <= bounded else max(1, round(height * bounded))
        h[none] = height if whole >= bounded else max(1, round(width / bounded))
    where = torch.rand(count, 2, generator=generator)
    top = (where[:, 0] * (height - h + 1)).floor()
    left = (where[:, 1] * (width - w + 1)).floor()
    centre = none.nonzero().squeeze(1)
    top[centre], left[centre] = ((height - h[centre]) / 2).floor(), ((width - w[centre]) / 2).floor()
    return {"top": top, "left": left, "height": h, "width": w, "size": size}


def sample_nothing(count: int, settings: Settings, shape: tuple, generator: Generator) -> Parameters:
    """Operations that need no parameters: flip, greyscale."""
    return {}


def sample_affine(count: int, settings: Settings, shape: tuple, generator: Generator) -> Parameters:
    """Angle, shift, scale, shear as torchvision's RandomAffine draws them; its shifts are whole pixels, ours not."""
    share = settings["translate"]
    shift = _uniform(count, -share, share, generator, 2)
    return {
        "angle": _uniform(count, -settings["degrees"], settings["degrees"], generator),
        "translate": shift * torch.tensor([shape[2], shape[1]]),
        "scale": _uniform(count, *settings["scale"], generator),
        "shear": _uniform(count, -settings["shear"], settings["shear"], generator, 2) * torch.tensor([1.0, 0.0]),
    }


def sample_jitter(count: int, settings: Settings, shape: tuple, generator: Generator) -> Parameters:
    """torchvision's ColorJitter: factors uniform in [max(0, 1 - s), 1 + s], hue in [-s, s], in a random order."""
    factors = {
        name: _uniform(count, max(0.0, 1 - settings[name]), 1 + settings[name], generator)
        for name in ("brightness", "contrast", "saturation")
    }
    hue = _uniform(count, -settings["hue"], settings["hue"], generator)
    # Images of one order side by side, for the pixel function; which image gets which is random all the same.
    order = pixels.ORDERS[torch.randint(len(pixels.ORDERS), (count,), generator=generator).sort().values]
    return {**factors, "hue": hue, "order": order}


def sample_blur(count: int, settings: Settings, shape: tuple, generator: Generator) -> Parameters:
    """Sigma uniform; the kernel's width is fixed: `kernel`, or odd(`kernel_share` x side) as in SimCLR and MIX'EM."""
    kernel = settings.get("kernel") or max(3, int(settings["kernel_share"] * shape[1]) // 2 * 2 + 1)
    return {"sigma": _uniform(count, *settings["sigma"], generator), "kernel": kernel}


def sample_solarise(count: int, settings: Settings, shape: tuple, generator: Generator) -> Parameters:
    return {"threshold": torch.full((count,), float(settings["threshold"]))}


def sample_noise(count: int, settings: Settings, shape: tuple, generator: Generator) -> Parameters:
    return {"noise": torch.randn(count, *shape, generator=generator) * settings["std"]}


def sample_strong(count: int, settings: Settings, shape: tuple, generator: Generator) -> Parameters:
    """`operations` draws with replacement from the 14 of SCAN, each with a level uniform in 0..1 and a sign."""
    more = settings["operations"]
    return {
        "which": torch.randint(len(strong.OPERATIONS), (count, more), generator=generator),
        "level": torch.rand(count, more, generator=generator),
        "sign": torch.randint(0, 2, (count, more), generator=generator) * 2.0 - 1,
    }


def sample_cutout(count: int, settings: Settings, shape: tuple, generator: Generator) -> Parameters:
    """One square hole, side uniform in 1..`side`, centre anywhere (SCAN's Cutout)."""
    return {
        "side": torch.randint(1, settings["side"] + 1, (count,), generator=generator),
        "centre": (torch.rand(count, 2, generator=generator) * torch.tensor(shape[1:])).long(),
    }


# In the order of application; a recipe names the ones it wants. Cutout comes after normalisation.
OPERATIONS: dict[str, Operation] = {
    "crop": Operation(sample_crop, pixels.resized_crop, takes_bytes=True),
    "affine": Operation(sample_affine, pixels.affine),
    "flip": Operation(sample_nothing, pixels.flip),
    "jitter": Operation(sample_jitter, pixels.jitter),
    "grey": Operation(sample_nothing, pixels.greyscale),
    "blur": Operation(sample_blur, pixels.gaussian_blur),
    "solarise": Operation(sample_solarise, pixels.solarise),
    "strong": Operation(sample_strong, strong.apply),
    "noise": Operation(sample_noise, pixels.add_noise),
    "cutout": Operation(sample_cutout, pixels.cutout),
}
