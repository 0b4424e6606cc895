"""Pixel functions: float images [B, C, H, W] in 0..1, one parameter per image, no randomness.

Each equals torchvision's functional operation of the same name for the same parameters; colour operations leave
one-channel images as they are where torchvision does. Parameters are tensors [B] unless said otherwise. Functions may
work in place on what they are given.
"""

import itertools

import torch
import torch.nn.functional as F
from torch import Tensor


def resized_crop(x: Tensor, top: Tensor, left: Tensor, height: Tensor, width: Tensor, size: tuple[int, int]) -> Tensor:
    """Cut the box (pixels) out of each image and resize it to `size` (height, width), bilinear with antialiasing.

    x may be uint8. Two batched matrix products with the interpolation weights: rows, then columns.
    """
    scale = 1 / 255 if x.dtype == torch.uint8 else 1.0
    rows = _resize_weights(top, height, x.shape[2], size[0]) * scale  # [B, size[0], H]
    columns = _resize_weights(left, width, x.shape[3], size[1])  # [B, size[1], W]
    images, channels = x.shape[:2]
    # [B, size[0], H] @ [B, H, C*W]: one product for all channels, then the same for the columns.
    x = rows @ x.permute(0, 2, 1, 3).reshape(images, x.shape[2], -1).float()
    x = x.view(images, size[0] * channels, -1) @ columns.transpose(1, 2)
    return x.view(images, size[0], channels, size[1]).transpose(1, 2).contiguous()


def _resize_weights(start: Tensor, length: Tensor, source: int, size: int) -> Tensor:
    """Weights [B, size, source] of torch's antialiased bilinear resize of source[start : start + length] to `size`."""
    scale = (length / size).view(-1, 1, 1)
    support = scale.clamp(min=1)
    centre = (torch.arange(size, device=start.device) + 0.5).view(1, -1, 1) * scale
    inside = torch.arange(source, device=start.device).view(1, 1, -1) - start.view(-1, 1, 1)  # position in the box
    weights = (1 - (inside + 0.5 - centre).abs_() / support).clamp_(min=0)
    weights *= (inside >= 0) & (inside < length.view(-1, 1, 1))
    return weights / weights.sum(2, keepdim=True)


def flip(x: Tensor) -> Tensor:
    """Mirror left and right."""
    return x.flip(3)


def affine(x: Tensor, angle: Tensor, translate: Tensor, scale: Tensor, shear: Tensor) -> Tensor:
    """Rotate (degrees, clockwise), shear ([B, 2], degrees), scale, shift ([B, 2], pixels); bilinear, zero fill."""
    height, width = x.shape[-2:]
    rotation, (sx, sy) = torch.deg2rad(angle), torch.deg2rad(shear).unbind(1)
    # The inverse map, output pixel -> input pixel, of torchvision's matrix RSS(rotation, scale, shear).
    a = (rotation - sy).cos() / sy.cos()
    b = -(rotation - sy).cos() * sx.tan() / sy.cos() - rotation.sin()
    c = (rotation - sy).sin() / sy.cos()
    d = -(rotation - sy).sin() * sx.tan() / sy.cos() + rotation.cos()
    inverse = torch.stack([torch.stack([d, -b], 1), torch.stack([-c, a], 1)], 1) / scale.view(-1, 1, 1)
    offset = -(inverse @ translate.unsqueeze(2))
    half = torch.tensor(
        [width / 2, height / 2], device=x.device
    )  # affine_grid's coordinates: -1 and 1 are the image's borders
    theta = torch.cat([inverse * half.view(1, 1, 2) / half.view(1, 2, 1), offset / half.view(1, 2, 1)], 2)
    grid = F.affine_grid(theta, list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def luma(x: Tensor) -> Tensor:
    """Grey values [B, 1, H, W] (ITU-R 601, as torchvision)."""
    if x.shape[1] == 1:
        return x
    grey = x[:, 0:1] * 0.2989
    return grey.add_(x[:, 1:2], alpha=0.587).add_(x[:, 2:3], alpha=0.114)


def greyscale(x: Tensor) -> Tensor:
    """Every channel becomes the grey value."""
    return luma(x).repeat(1, 3, 1, 1) if x.shape[1] == 3 else x


def brightness(x: Tensor, factor: Tensor) -> Tensor:
    """Scale towards black (0) or beyond (> 1)."""
    return x.mul_(_column(factor)).clamp_(0, 1)


def contrast(x: Tensor, factor: Tensor) -> Tensor:
    """Blend with the image's mean grey value."""
    factor = _column(factor)
    mean = luma(x).mean((1, 2, 3), keepdim=True)
    return x.sub_(mean).mul_(factor).add_(mean).clamp_(0, 1)


def saturation(x: Tensor, factor: Tensor) -> Tensor:
    """Blend with the grey image."""
    if x.shape[1] == 1:
        return x
    grey = luma(x)
    return x.sub_(grey).mul_(_column(factor)).add_(grey).clamp_(0, 1)


def hue(x: Tensor, shift: Tensor) -> Tensor:
    """Turn the hue by `shift` (in turns, -0.5..0.5) in HSV space.

    Closed form of torchvision's way through HSV: with value v, chroma c = max - min and hue h in sixths of a turn,
    channel n of the result is v - c * clamp(min(k, 4 - k), 0, 1), k = (n + h) mod 6 for n = 5, 3, 1 (red, green, blue),
    written here as (v - 2c) + c * clamp(|k - 2|, 1, 2).
    """
    if x.shape[1] == 1:
        return x
    red, green, blue = x.unbind(1)
    value = torch.maximum(torch.maximum(red, green), blue)
    chroma = value - torch.minimum(torch.minimum(red, green), blue)
    inverse = chroma.clamp(min=1e-12).reciprocal_()
    # In sixths: (g - b)/c where red is largest, 2 + (b - r)/c where green is, 4 + (r - g)/c where blue is.
    sixths = (red - green).mul_(inverse).add_(4)
    sixths = torch.where(value == green, (blue - red).mul_(inverse).add_(2), sixths)
    sixths = torch.where(value == red, (green - blue).mul_(inverse), sixths)
    sixths.add_((shift * 6).view(-1, 1, 1))
    base = torch.sub(value, chroma, alpha=2)
    for channel, n in enumerate((5, 3, 1)):
        k = sixths + n
        k.sub_((k * (1 / 6)).floor_(), alpha=6).sub_(2).abs_().clamp_(1, 2)  # a remainder, but much faster
        torch.addcmul(base, chroma, k, out=x[:, channel])
    return x


# Every order of the four operations; an order read as a number of four base-4 digits -> its place in ORDERS.
ORDERS = torch.tensor(list(itertools.permutations(range(4))))
_DIGITS = torch.tensor([64, 16, 4, 1])
_PLACES = torch.zeros(256, dtype=torch.long)
_PLACES[ORDERS @ _DIGITS] = torch.arange(len(ORDERS))


def jitter(x: Tensor, brightness: Tensor, contrast: Tensor, saturation: Tensor, hue: Tensor, order: Tensor) -> Tensor:
    """Brightness, contrast, saturation and hue in each image's own order: `order` [B, 4] lists them as 0, 1, 2, 3.

    Images of one order are worked on together, so that each operation touches each image once; images that come
    sorted by order need not be moved for that.
    """
    functions = list(zip(_JITTER, (brightness, contrast, saturation, hue), strict=True))
    if x.shape[1] == 1:  # saturation and hue change nothing: two orders are left
        place = (order == 0).long().argmax(1) > (order == 1).long().argmax(1)
        orders: list = [(0, 1), (1, 0)]
    else:
        place = _PLACES.to(order.device)[(order * _DIGITS.to(order.device)).sum(1)]
        orders = ORDERS.tolist()
    place, index = place.long().sort(stable=True)
    moved = bool((index[1:] < index[:-1]).any())
    if moved:
        x, functions = x[index], [(function, values[index]) for function, values in functions]
    bounds = torch.searchsorted(place, torch.arange(len(orders) + 1, device=place.device)).tolist()
    for steps, first, last in zip(orders, bounds, bounds[1:], strict=False):
        if first < last:
            part = x[first:last]
            for step in steps:
                function, values = functions[step]
                function(part, values[first:last])
    return torch.empty_like(x).index_copy_(0, index, x) if moved else x


_JITTER = (brightness, contrast, saturation, hue)


def gaussian_blur(x: Tensor, sigma: Tensor, kernel: int) -> Tensor:
    """Gaussian blur of width `kernel` (odd), reflecting at the border; rows and columns as two matrix products."""
    images, channels, height, width = x.shape
    rows, columns = (_blur_matrix(sigma, kernel, side) for side in (height, width))
    x = x.reshape(images, channels * height, width) @ columns.transpose(1, 2)
    x = x.view(images, channels, height, width)
    return rows.unsqueeze(1) @ x


def _blur_matrix(sigma: Tensor, kernel: int, side: int) -> Tensor:
    """[B, side, side]: row i holds the kernel around i, taps beyond the border folded back."""
    half = (kernel - 1) // 2
    taps = torch.arange(-half, half + 1, device=sigma.device)
    weights = torch.exp(-0.5 * (taps / sigma.view(-1, 1)) ** 2)
    weights /= weights.sum(1, keepdim=True)
    source = torch.arange(side, device=sigma.device).view(-1, 1) + taps  # [side, kernel]
    source = (side - 1) - ((side - 1) - source.abs()).abs()  # reflection
    matrix = torch.zeros(len(sigma), side, side, device=sigma.device)
    return matrix.scatter_add_(2, source.expand(len(sigma), -1, -1), weights.unsqueeze(1).expand(-1, side, -1))


def solarise(x: Tensor, threshold: Tensor) -> Tensor:
    """Invert pixels at or above the threshold."""
    return torch.where(x >= _column(threshold), 1 - x, x)


def add_noise(x: Tensor, noise: Tensor) -> Tensor:
    """Add noise [B, C, H, W] and keep pixels in 0..1."""
    return (x + noise).clamp_(0, 1)


def cutout(x: Tensor, side: Tensor, centre: Tensor) -> Tensor:
    """Fill a square hole of `side` pixels around `centre` ([B, 2]: row, column) with 0, cut off at the border."""
    hole = None
    for axis in (0, 1):
        first = (centre[:, axis] - side // 2).view(-1, 1)
        position = torch.arange(x.shape[2 + axis], device=x.device)
        inside = (position >= first) & (position < first + side.view(-1, 1))
        hole = inside if hole is None else hole[:, :, None] & inside[:, None, :]
    return x.masked_fill(hole.unsqueeze(1), 0)


def _column(values: Tensor) -> Tensor:
    return values.view(-1, 1, 1, 1)
