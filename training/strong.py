"""The strong augmentation of SCAN's second and third step: 14 operations, several drawn per image.

Van Gansbeke et al., "SCAN: Learning to Classify Images without Labels" (arXiv 2005.12320), after the RandAugment of
FixMatch. Ranges as in the spec: rotation ±30 degrees, shear and shift ±0.1, factors 0.05..0.95, 4 to 8 bits.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from training import pixels


def apply(x: Tensor, which: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """Apply the operations `which` [B, n] one after the other, with `level` [B, n] in 0..1 and `sign` [B, n] of ±1."""
    for step in range(which.shape[1]):
        for number, operation in enumerate(OPERATIONS.values()):
            index = (which[:, step] == number).nonzero().squeeze(1)
            if operation is not identity and len(index):
                x = x.index_copy(0, index, operation(x[index], level[index, step], sign[index, step]))
    return x


def identity(x: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    return x


def autocontrast(x: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """Stretch each channel to 0..1."""
    low, high = x.amin((2, 3), keepdim=True), x.amax((2, 3), keepdim=True)
    scale = 1 / (high - low)
    flat = ~torch.isfinite(scale)
    return ((x - low.masked_fill(flat, 0)) * scale.masked_fill(flat, 1)).clamp(0, 1)


def equalise(x: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """Equalise the histogram of each channel, on 256 levels."""
    levels = (x * 255.999).floor().long().clamp(0, 255).flatten(2)
    histogram = torch.zeros(*levels.shape[:2], 256, dtype=torch.long, device=x.device)
    histogram.scatter_add_(2, levels, torch.ones_like(levels))
    last = histogram.flip(2).ne(0).to(torch.uint8).argmax(2, keepdim=True)
    step = (histogram.sum(2, keepdim=True) - histogram.gather(2, 255 - last)) // 255
    # The table of level k counts the pixels below k, rounded.
    below = histogram.cumsum(2) - histogram
    table = ((below + step // 2) // step.clamp(min=1)).clamp(0, 255)
    table = torch.where(step == 0, torch.arange(256, device=x.device).expand_as(table), table)
    return (table.gather(2, levels).float() / 255).view_as(x)


def rotate(x: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """±30 degrees."""
    return _affine(x, angle=30 * level * sign)


def solarise(x: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """Threshold anywhere."""
    return pixels.solarise(x, level)


def _factor(level: Tensor) -> Tensor:
    return 0.05 + 0.9 * level


def colour(x: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    return pixels.saturation(x, _factor(level))


def contrast(x: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    return pixels.contrast(x, _factor(level))


def brightness(x: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    return pixels.brightness(x, _factor(level))


def sharpness(x: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """Blend with a smoothed image, whose border stays as it is."""
    kernel = torch.ones(3, 3, device=x.device)
    kernel[1, 1] = 5
    channels = x.shape[1]
    smooth = x.clone()
    if min(x.shape[2:]) > 2:
        smooth[:, :, 1:-1, 1:-1] = F.conv2d(x, (kernel / 13).expand(channels, 1, 3, 3), groups=channels)
    factor = _factor(level).view(-1, 1, 1, 1)
    return (x * factor + smooth * (1 - factor)).clamp(0, 1)


def shear_x(x: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    return _affine(x, shear=torch.rad2deg(torch.atan(0.1 * level * sign)), axis=0)


def shear_y(x: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    return _affine(x, shear=torch.rad2deg(torch.atan(0.1 * level * sign)), axis=1)


def translate_x(x: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    return _affine(x, shift=0.1 * level * sign * x.shape[3], axis=0)


def translate_y(x: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    return _affine(x, shift=0.1 * level * sign * x.shape[2], axis=1)


def posterise(x: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """Keep 4 to 8 bits of each pixel."""
    bits = 4 + (level * 5).floor().clamp(max=4)
    step = (2 ** (8 - bits)).view(-1, 1, 1, 1)
    return (((x * 255).round() / step).floor() * step) / 255


def _affine(
    x: Tensor, angle: Tensor | None = None, shear: Tensor | None = None, shift: Tensor | None = None, axis: int = 0
) -> Tensor:
    zero = x.new_zeros(len(x))
    pair = torch.stack([zero, zero], 1)
    turned, moved = pair.clone(), pair.clone()
    if shear is not None:
        turned[:, axis] = shear
    if shift is not None:
        moved[:, axis] = shift
    return pixels.affine(x, zero if angle is None else angle, moved, zero + 1, turned)


OPERATIONS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "identity": identity,
    "autocontrast": autocontrast,
    "equalise": equalise,
    "rotate": rotate,
    "solarise": solarise,
    "colour": colour,
    "contrast": contrast,
    "brightness": brightness,
    "sharpness": sharpness,
    "shear_x": shear_x,
    "shear_y": shear_y,
    "translate_x": translate_x,
    "translate_y": translate_y,
    "posterise": posterise,
}
