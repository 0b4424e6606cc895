"""BYOL: predict the embedding of the other view by an encoder that follows by momentum; no negatives.

Grill et al., "Bootstrap Your Own Latent" (arXiv 2006.07733).
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from methods.blocks.heads import projection
from methods.blocks.key_encoder import KeyEncoder
from methods.method import Batch, Context, DataFacts, Method


@dataclass(frozen=True)
class Settings:
    embedding: int  # width of z
    hidden: int  # width inside projector and predictor
    momentum: float  # tau_base, the target's momentum at the start
    symmetric: bool  # both views pass the online network


class BYOL(Method):
    """2 - 2 cos(predictor(z_online), z_target), both directions (eq. 2); the momentum rises to 1 by half a cosine."""

    terms = ("prediction",)

    def __init__(self, backbone: nn.Module, data: DataFacts, settings: Settings):
        super().__init__(backbone, data, settings)
        hidden, embedding = settings.hidden, settings.embedding
        self.head = projection(backbone.width, [hidden, embedding], batch_norm=True, linear_end=True)
        self.predictor = projection(embedding, [hidden, embedding], batch_norm=True, linear_end=True)
        self.target = KeyEncoder(self.backbone, self.head, settings.momentum)
        self.register_buffer("momentum", torch.tensor(settings.momentum, dtype=torch.float64))  # of this step

    def before_step(self, context: Context) -> None:
        progress = context.step / max(context.steps, 1)
        self.momentum.fill_(1 - (1 - self.settings.momentum) * (math.cos(math.pi * progress) + 1) / 2)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        first, second = batch.views
        loss = self._loss_of_pair(first, second)
        return {"prediction": (loss + self._loss_of_pair(second, first)) if self.settings.symmetric else loss}

    def _loss_of_pair(self, online: Tensor, target: Tensor) -> Tensor:
        """Eq. 2 for images [B, C, H, W] of the online network and of the target."""
        p = self.predictor(self.head(self.backbone(online)))
        z = self.target(target)
        return 2 - 2 * F.cosine_similarity(p.float(), z.float(), dim=1).mean()

    def after_step(self) -> None:
        self.target.after_step(self.backbone, self.head, float(self.momentum))

    def inherited(self) -> None:
        self.target.start_as(self.backbone, self.head)

    def features(self, x: Tensor) -> dict[str, Tensor]:
        h = self.backbone(x)
        return {"h": h, "z": self.head(h)}


METHOD = BYOL
