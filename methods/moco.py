"""MoCo: contrast of a query with its key and a queue of keys from an encoder that follows by momentum.

He et al., "Momentum Contrast for Unsupervised Visual Representation Learning" (arXiv 1911.05722), and v2, Chen et al.
(arXiv 2003.04297). v1 and v2 differ in head, augmentation and temperature, all of them in the recipe.
"""

import math
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from methods.blocks.contrast import info_nce
from methods.blocks.heads import projection
from methods.blocks.key_encoder import KeyEncoder
from methods.method import Batch, DataFacts, Method


@dataclass(frozen=True)
class Settings:
    embedding: int  # D, width of q and k
    layers: int  # of the head: 1 (v1) or 2 (v2)
    queue: int  # keys kept as negatives
    momentum: float  # m of the key encoder
    temperature: float  # tau
    symmetric: bool  # both views serve as queries; the queue still gets one batch of keys a step
    shuffle: bool  # keys pass the network in another order, against leaks through batch norm


class MoCo(Method):
    """q = g(f(x_q)), k = g'(f'(x_k)) of unit length; InfoNCE of q with k and the queue (eq. 1)."""

    terms = ("contrast",)

    def __init__(self, backbone: nn.Module, data: DataFacts, settings: Settings):
        super().__init__(backbone, data, settings)
        widths = [backbone.width] * (settings.layers - 1) + [settings.embedding]
        self.head = projection(backbone.width, widths, batch_norm=False)
        self.keys = KeyEncoder(
            self.backbone,
            self.head,
            settings.momentum,
            shuffle=settings.shuffle,
            queue=settings.queue,
            parts=[settings.embedding],
        )

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        x_q, x_k = batch.views
        tau, negatives = self.settings.temperature, self.keys.negatives
        q = self.query(x_q)
        k = self.key(x_k)
        loss = info_nce(q, k, negatives, tau)
        if self.settings.symmetric:
            loss = (loss + info_nce(self.query(x_k), self.key(x_q), negatives, tau)) / 2
        self.keys.hold(k)
        return {"contrast": loss}

    def query(self, x: Tensor) -> Tensor:
        """x [B, C, H, W] -> unit q [B, D]."""
        return F.normalize(self.head(self.backbone(x)).float(), dim=1)

    def key(self, x: Tensor) -> Tensor:
        """x [B, C, H, W] -> unit k [B, D], without gradient."""
        return F.normalize(self.keys(x).float(), dim=1)

    def after_step(self) -> None:
        self.keys.after_step(self.backbone, self.head)

    def inherited(self) -> None:
        self.keys.start_as(self.backbone, self.head)

    def chance(self, batch_size: int) -> dict[str, float]:
        return {"contrast": math.log(1 + self.settings.queue)}

    def features(self, x: Tensor) -> dict[str, Tensor]:
        h = self.backbone(x)
        return {"h": h, "z": F.normalize(self.head(h), dim=1)}


METHOD = MoCo
