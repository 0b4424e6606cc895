"""Augmentation of whole batches, each image with its own random parameters.

An operation is a pair: a sampler that draws parameters for B images, and a pixel function that applies given
parameters. Pixel functions equal torchvision's functional operation of the same name for the same parameters.
Images are float [B, C, H, W] in 0..1.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

Settings = Mapping[str, Any]
Parameters = dict[str, Tensor]


class Augment:
    """Random views of uint8 images, normalised: a recipe's `augmentation`, in the order of OPERATIONS."""

    def __init__(self, operations: Mapping[str, Settings | None], normalisation: Mapping[str, list[float]]):
        self.operations = [
            (*OPERATIONS[name], operations[name]) for name in OPERATIONS if operations.get(name) is not None
        ]
        self.normalise = Normalise(normalisation)

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        """images uint8 [B, C, H, W] -> one view, float [B, C, H, W], normalised."""
        x = images.float().div_(255)
        for sample, apply, settings in self.operations:
            x = apply(x, **sample(x, settings, generator))
        return self.normalise(x)


class Normalise:
    """(x - mean) / std per channel; also turns uint8 images into floats."""

    def __init__(self, normalisation: Mapping[str, list[float]]):
        self.mean = torch.tensor(normalisation["mean"]).view(-1, 1, 1)
        self.std = torch.tensor(normalisation["std"]).view(-1, 1, 1)

    def __call__(self, images: Tensor) -> Tensor:
        x = images.float().div_(255) if images.dtype == torch.uint8 else images
        return (x - self.mean.to(x.device)) / self.std.to(x.device)


def _uniform(x: Tensor, low: float, high: float, generator: Generator, *more: int) -> Tensor:
    return torch.rand(len(x), *more, generator=generator, device=x.device) * (high - low) + low


def _chosen(x: Tensor, probability: float, generator: Generator) -> Tensor:
    return torch.rand(len(x), generator=generator, device=x.device) < probability


def sample_affine(x: Tensor, settings: Settings, generator: Generator) -> Parameters:
    """Angle, shift, scale, shear as torchvision's RandomAffine draws them; its shifts are whole pixels, ours not."""
    height, width = x.shape[-2:]
    share = settings["translate"]
    shift = _uniform(x, -share, share, generator, 2)
    return {
        "angle": _uniform(x, -settings["degrees"], settings["degrees"], generator),
        "translate": shift * torch.tensor([width, height], device=x.device),
        "scale": _uniform(x, *settings["scale"], generator),
        "shear": _uniform(x, -settings["shear"], settings["shear"], generator),
    }


def affine(x: Tensor, angle: Tensor, translate: Tensor, scale: Tensor, shear: Tensor) -> Tensor:
    """Rotate (degrees, clockwise), shear along x (degrees), scale, shift ([B, 2], pixels); bilinear, zero fill."""
    height, width = x.shape[-2:]
    rotation, skew = torch.deg2rad(angle), torch.deg2rad(shear)
    # The inverse map, output pixel -> input pixel, of torchvision's RSS(rotation, scale, shear) matrix.
    cos, sin, tan = rotation.cos(), rotation.sin(), skew.tan()
    a, b = cos, -(cos * tan + sin)
    c, d = sin, -(sin * tan) + cos
    inverse = torch.stack([torch.stack([d, -b], 1), torch.stack([-c, a], 1)], 1) / scale.view(-1, 1, 1)
    offset = -(inverse @ translate.unsqueeze(2))
    # affine_grid speaks in half image sides.
    half = torch.tensor([width / 2, height / 2], device=x.device)
    theta = torch.cat([inverse * half.view(1, 1, 2) / half.view(1, 2, 1), offset / half.view(1, 2, 1)], 2)
    grid = F.affine_grid(theta, list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def sample_jitter(x: Tensor, settings: Settings, generator: Generator) -> Parameters:
    """Factors uniform in [max(0, 1 - s), 1 + s]; 1 (no change) for images not chosen."""
    chosen = _chosen(x, settings["probability"], generator)
    factors = {
        name: _uniform(x, max(0.0, 1 - settings[name]), 1 + settings[name], generator)
        for name in ("brightness", "contrast")
    }
    return {name: torch.where(chosen, factor, 1.0) for name, factor in factors.items()}


def jitter(x: Tensor, brightness: Tensor, contrast: Tensor) -> Tensor:
    """Scale by `brightness`, then blend with the mean grey value by `contrast`; both [B]."""
    x = (x * brightness.view(-1, 1, 1, 1)).clamp_(0, 1)
    mean = _grey(x).mean((1, 2, 3), keepdim=True)
    factor = contrast.view(-1, 1, 1, 1)
    return (x * factor + mean * (1 - factor)).clamp_(0, 1)


def _grey(x: Tensor) -> Tensor:
    if x.shape[1] == 1:
        return x
    weights = torch.tensor([0.2989, 0.587, 0.114], device=x.device).view(1, 3, 1, 1)  # ITU-R 601, as torchvision
    return (x * weights).sum(1, keepdim=True)


def sample_noise(x: Tensor, settings: Settings, generator: Generator) -> Parameters:
    chosen = _chosen(x, settings["probability"], generator).view(-1, 1, 1, 1)
    noise = torch.randn(x.shape, generator=generator, device=x.device)
    return {"noise": noise * settings["std"] * chosen}


def add_noise(x: Tensor, noise: Tensor) -> Tensor:
    """Add noise [B, C, H, W] and keep pixels in 0..1."""
    return (x + noise).clamp_(0, 1)


# In the order of application; a recipe names the ones it wants.
OPERATIONS: dict[str, tuple[Callable[..., Parameters], Callable[..., Tensor]]] = {
    "affine": (sample_affine, affine),
    "jitter": (sample_jitter, jitter),
    "noise": (sample_noise, add_noise),
}
