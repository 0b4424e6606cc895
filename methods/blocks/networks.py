"""Backbones: normalised images [B, C, H, W] -> features [B, d]; `backbone.width` is d."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from torch import Tensor, nn

from methods.blocks.batch_norm import split_batch_norm
from methods.blocks.products import by_onednn
from methods.blocks.sobel import OnEdges, Sobel


def backbone(network: Mapping[str, Any], shape: tuple[int, int, int]) -> nn.Module:
    """The backbone that a recipe's `network` names, for images of `shape` (height, width, channels)."""
    settings = {key: value for key, value in network.items() if key not in ("backbone", "sobel", *TREATMENTS)}
    name, grey = network["backbone"], network.get("sobel")
    edges = Sobel(shape, grey) if grey else None
    if edges is not None:
        shape = (*shape[:2], 2)
    if name.startswith("resnet"):
        from methods.blocks.resnet import ResNet  # torchvision: a second of imports that small networks need not pay

        built: nn.Module = ResNet(shape, int(name.removeprefix("resnet")), **settings)
    else:
        built = BACKBONES[name](shape, **settings)
    if splits := network.get("split_batch_norm"):
        split_batch_norm(built, splits)
    return built if edges is None else OnEdges(edges, built)


class Pixels(nn.Module):
    """No network: the flattened image itself, d = C*H*W."""

    def __init__(self, shape: tuple[int, int, int]):
        super().__init__()
        self.width = shape[0] * shape[1] * shape[2]

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1)


class ConvNet(nn.Module):
    """Small network for 8 to 28 px: 3x3 convolution, batch norm, ReLU per entry of `widths`, then global average.

    `pool_after` numbers the layers (from 0) that are followed by 2x2 max-pooling; d = widths[-1]. `kernel` is the side
    of the convolutions, `padding` what they add on each side (default: as much as keeps the size). With `flatten` the
    last map is taken whole: d = widths[-1] x its pixels.
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        widths: Sequence[int],
        pool_after: Sequence[int],
        kernel: int = 3,
        padding: int | None = None,
        flatten: bool = False,
    ):
        super().__init__()
        padding = kernel // 2 if padding is None else padding
        sides = list(shape[:2])
        layers: list[nn.Module] = []
        channels = shape[2]
        for number, width in enumerate(widths):
            layers += [
                nn.Conv2d(channels, width, kernel, padding=padding, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(inplace=True),
            ]
            sides = [side + 2 * padding - kernel + 1 for side in sides]
            if number in pool_after:
                layers.append(nn.MaxPool2d(2))
                sides = [side // 2 for side in sides]
            channels = width
        if min(sides) < 1:
            raise ValueError(f"network: {len(widths)} convolutions of {kernel} px leave nothing of a map of {shape}")
        self.layers, self.flatten = nn.Sequential(*layers), flatten
        self.width = channels * sides[0] * sides[1] if flatten else channels

    def forward(self, x: Tensor) -> Tensor:
        maps = self.layers(x)
        return maps.flatten(1) if self.flatten else maps.mean((2, 3))


class MLP(nn.Module):
    """The encoder of the autoencoder family (DEC, IDEC, DCRL): flattened image -> widths, ReLU between, d = widths[-1].

    The papers' networks are d-500-500-2000-m and d-500-500-500-2000-m; the last layer is linear.
    """

    def __init__(self, shape: tuple[int, int, int], widths: Sequence[int]):
        super().__init__()
        self.sizes = [shape[0] * shape[1] * shape[2], *widths]
        self.layers = Dense(self.sizes)
        self.width = widths[-1]

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x.flatten(1))

    def mirror(self) -> nn.Sequential:
        """A fresh decoder with the same widths in reverse order: [B, m] -> [B, d]."""
        return Dense(self.sizes[::-1])


class Dense(nn.Sequential):
    """Linear layers of `sizes` with ReLU between: [B, sizes[0]] -> [B, sizes[-1]].

    In float32 on the CPU the products may be oneDNN's (products.py); then they can be differentiated once, not twice.
    """

    def __init__(self, sizes: Sequence[int]):
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise(sizes):
            layers += [nn.Linear(inputs, outputs), nn.ReLU(inplace=True)]
        super().__init__(*layers[:-1])

    def forward(self, x: Tensor) -> Tensor:
        if not by_onednn(x):
            return super().forward(x)
        for layer in self:
            # Only the products: oneDNN's ReLU turns NaN into 0, and a diverged training would go on unseen.
            x = layer(x.to_mkldnn()).to_dense() if isinstance(layer, nn.Linear) else layer(x)
        return x


BACKBONES = {"none": Pixels, "convnet": ConvNet, "mlp": MLP}
TREATMENTS = ("split_batch_norm", "frozen", "weights")  # keys of `network` that are no part of its architecture
