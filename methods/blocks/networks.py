"""Backbones: normalised images [B, C, H, W] -> features [B, d]; `backbone.width` is d."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn


def backbone(network: Mapping[str, Any], shape: tuple[int, int, int]) -> nn.Module:
    """The backbone that a recipe's `network` names, for images of `shape` (height, width, channels)."""
    settings = {key: value for key, value in network.items() if key != "backbone"}
    return BACKBONES[network["backbone"]](shape, **settings)


class Pixels(nn.Module):
    """No network: the flattened image itself, d = C*H*W."""

    def __init__(self, shape: tuple[int, int, int]):
        super().__init__()
        self.width = shape[0] * shape[1] * shape[2]

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1)


class ConvNet(nn.Module):
    """Small network for 8 to 28 px: 3x3 convolution, batch norm, ReLU per entry of `widths`, then global average.

    `pool_after` numbers the layers (from 0) that are followed by 2x2 max-pooling; d = widths[-1].
    """

    def __init__(self, shape: tuple[int, int, int], widths: Sequence[int], pool_after: Sequence[int]):
        super().__init__()
        layers: list[nn.Module] = []
        channels = shape[2]
        for number, width in enumerate(widths):
            layers += [
                nn.Conv2d(channels, width, 3, padding=1, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(inplace=True),
            ]
            if number in pool_after:
                layers.append(nn.MaxPool2d(2))
            channels = width
        self.layers = nn.Sequential(*layers)
        self.width = channels

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x).mean((2, 3))


BACKBONES = {"none": Pixels, "convnet": ConvNet}
