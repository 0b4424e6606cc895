"""SimSiam: predict the other view's embedding, whose gradient is stopped; no negatives, no momentum.

Chen and He, "Exploring Simple Siamese Representation Learning" (arXiv 2011.10566).
"""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from methods.blocks.heads import projection
from methods.method import Batch, DataFacts, Method


@dataclass(frozen=True)
class Settings:
    embedding: int  # width of z and of the projector
    bottleneck: int  # hidden width of the predictor
    stop_gradient: bool  # false: the collapse that the paper shows
    predict: bool  # false: the views attract each other directly


class SimSiam(Method):
    """-(cos(p1, stop(z2)) + cos(p2, stop(z1))) / 2 (eq. 2)."""

    terms = ("prediction",)

    def __init__(self, backbone: nn.Module, data: DataFacts, settings: Settings):
        super().__init__(backbone, data, settings)
        embedding = settings.embedding
        self.head = projection(backbone.width, [embedding, embedding], batch_norm=True)
        self.predictor = (
            projection(embedding, [settings.bottleneck, embedding], batch_norm=True, linear_end=True)
            if settings.predict
            else nn.Identity()
        )

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        z1, z2 = (self.head(self.backbone(view)) for view in batch.views)
        p1, p2 = self.predictor(z1), self.predictor(z2)
        if self.settings.stop_gradient:
            z1, z2 = z1.detach(), z2.detach()
        both = [F.cosine_similarity(p.float(), z.float(), dim=1).mean() for p, z in ((p1, z2), (p2, z1))]
        return {"prediction": -sum(both) / 2}

    def features(self, x: Tensor) -> dict[str, Tensor]:
        h = self.backbone(x)
        return {"h": h, "z": self.head(h)}


METHOD = SimSiam
