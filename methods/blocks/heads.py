"""Projection heads: backbone features [B, d] -> embeddings."""

import math

import torch
from torch import Tensor, nn


def mlp(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    """Linear-ReLU-Linear without batch norm, as in SimCLR, MoCo v2, MIX'EM, CDC. [B, inputs] -> [B, outputs]."""
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(inplace=True), nn.Linear(hidden, outputs))


def projection(inputs: int, widths: list[int], batch_norm: bool, linear_end: bool = False) -> nn.Sequential:
    """Linear layers of `widths` with ReLU, and batch norm where asked, between them. [B, inputs] -> [B, widths[-1]].

    One width is a plain linear map (MoCo v1); SimCLR's CIFAR head has three with batch norm. As in SimCLR, batch norm
    also follows the last layer, there without a bias of the layer before it; with `linear_end` (BYOL, VICReg) the last
    layer stands alone.
    """
    layers: list[nn.Module] = []
    for number, width in enumerate(widths):
        last = number + 1 == len(widths)
        normed = batch_norm and not (last and linear_end)
        layers.append(nn.Linear(inputs, width, bias=not normed))
        if normed:
            layers.append(nn.BatchNorm1d(width))
        if not last:
            layers.append(nn.ReLU(inplace=True))
        inputs = width
    return nn.Sequential(*layers)


class ParallelMLP(nn.Module):
    """`count` independent heads `mlp(inputs, hidden, outputs)` in two matrix products.

    [B, inputs] -> [B, count, outputs]. Each head is initialised as nn.Linear would initialise it alone.
    """

    def __init__(self, count: int, inputs: int, hidden: int, outputs: int):
        super().__init__()
        self.first = nn.Linear(inputs, count * hidden)  # fan-in `inputs`, as each head has by itself
        self.weight = nn.Parameter(torch.empty(count, hidden, outputs))
        self.bias = nn.Parameter(torch.empty(count, 1, outputs))
        self.count = count
        bound = 1 / math.sqrt(hidden)
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, h: Tensor) -> Tensor:
        hidden = self.first(h).relu().unflatten(1, (self.count, -1)).transpose(0, 1)  # [count, B, hidden]
        return torch.baddbmm(self.bias, hidden, self.weight).transpose(0, 1)


class ClusterHeads(nn.Module):
    """Independent linear classifiers of the backbone features (SCAN); `best` numbers the one used in the end."""

    def __init__(self, heads: int, width: int, classes: int):
        super().__init__()
        self.heads, self.classes = heads, classes
        self.linear = nn.Linear(width, heads * classes)
        self.register_buffer("best", torch.zeros((), dtype=torch.long))

    def forward(self, h: Tensor) -> Tensor:
        """h [B, d] -> logits [heads, B, C]."""
        return self.linear(h).view(len(h), self.heads, self.classes).transpose(0, 1)
