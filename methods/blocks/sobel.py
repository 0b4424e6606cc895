"""Sobel filters in front of a network: it sees edges in place of colours (DeepCluster, IIC, PICA)."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from methods.blocks.precision import full_precision

Grey = Literal["luma", "mean"]
DX = [[1.0, 0.0, -1.0], [2.0, 0.0, -2.0], [1.0, 0.0, -1.0]]
DY = [[1.0, 2.0, 1.0], [0.0, 0.0, 0.0], [-1.0, -2.0, -1.0]]
WEIGHTS = {"luma": (0.299, 0.587, 0.114), "mean": (1 / 3, 1 / 3, 1 / 3)}


class Sobel(nn.Module):
    """x [B, 1 or 3, H, W] -> horizontal and vertical differences [B, 2, H, W], float32 or better, nothing learnt.

    Colours become grey first: `luma` weighs them as eyes do (IIC, on images in 0..1, so with `normalise: false`),
    `mean` alike (PICA, DeepCluster, on normalised images). The border sees zeros.
    """

    def __init__(self, shape: tuple[int, int, int], grey: Grey):
        super().__init__()
        height, width, channels = shape
        if channels not in (1, 3) or min(height, width) < 2:
            raise ValueError(
                f"network.sobel: edges of {height} x {width} px with {channels} channels; images of at least 2 x 2 px "
                "with 1 or 3 channels have some"
            )
        self.channels = channels
        weights = WEIGHTS[grey] if channels == 3 else (1.0,)
        filters = torch.tensor([DX, DY]).unsqueeze(1) * torch.tensor(weights).view(1, -1, 1, 1)
        # Constants: no part of the state, so that a network has the same keys with every way to make grey.
        self.register_buffer("filters", filters, persistent=False)  # [2, C, 3, 3]

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] != self.channels:
            raise ValueError(f"images with {x.shape[1]} channels, but the network was built for {self.channels}")
        return _filtered(x, self.filters)


class OnEdges(nn.Module):
    """A backbone that is given the edges of an image: x [B, C, H, W] -> features [B, width]."""

    def __init__(self, edges: Sobel, network: nn.Module):
        super().__init__()
        self.edges, self.network, self.width = edges, network, network.width

    def forward(self, x: Tensor) -> Tensor:
        return self.network(self.edges(x))


@full_precision
def _filtered(x: Tensor, filters: Tensor) -> Tensor:
    return F.conv2d(x, filters.to(x.dtype), padding=1)
