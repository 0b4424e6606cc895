"""BYOL: predict the embedding of the other view by an encoder that follows by momentum; no negatives.

Grill et al., "Bootstrap Your Own Latent" (arXiv 2006.07733).
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from methods.blocks.heads import projection
from methods.blocks.momentum import follow, follower
from methods.method import Batch, Context, DataFacts, Method


class BYOL(Method):
    """2 - 2 cos(predictor(z_online), z_target), both directions (eq. 2); the momentum rises to 1 by half a cosine."""

    terms = ("prediction",)

    def __init__(
        self, backbone: nn.Module, data: DataFacts, *, embedding: int, hidden: int, momentum: float, symmetric: bool
    ):
        super().__init__(backbone, data)
        self.head = projection(backbone.width, [hidden, embedding], batch_norm=True, linear_end=True)
        self.predictor = projection(embedding, [hidden, embedding], batch_norm=True, linear_end=True)
        self.target = follower(nn.Sequential(self.backbone, self.head))
        self.momentum, self.symmetric = momentum, symmetric
        self.register_buffer("present", torch.tensor(momentum, dtype=torch.float64))

    def before_step(self, context: Context) -> None:
        progress = context.step / max(context.steps, 1)
        self.present.fill_(1 - (1 - self.momentum) * (math.cos(math.pi * progress) + 1) / 2)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        first, second = batch.views
        loss = self._of(first, second)
        return {"prediction": (loss + self._of(second, first)) if self.symmetric else loss}

    def _of(self, online: Tensor, target: Tensor) -> Tensor:
        p = self.predictor(self.head(self.backbone(online)))
        with torch.no_grad():
            z = self.target(target)
        return 2 - 2 * F.cosine_similarity(p.float(), z.float(), dim=1).mean()

    def after_step(self) -> None:
        follow(self.target, nn.Sequential(self.backbone, self.head), float(self.present))

    def inherited(self) -> None:
        self.target[0].load_state_dict(self.backbone.state_dict())

    def features(self, x: Tensor) -> dict[str, Tensor]:
        h = self.backbone(x)
        return {"h": h, "z": self.head(h)}


METHOD = BYOL
