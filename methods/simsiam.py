"""SimSiam: predict the other view's embedding, whose gradient is stopped; no negatives, no momentum.

Chen and He, "Exploring Simple Siamese Representation Learning" (arXiv 2011.10566).
"""

import torch.nn.functional as F
from torch import Tensor, nn

from methods.blocks.heads import projection
from methods.method import Batch, DataFacts, Method


class SimSiam(Method):
    """-(cos(p1, stop(z2)) + cos(p2, stop(z1))) / 2 (eq. 2). `stop_gradient: false` is the paper's collapse."""

    terms = ("prediction",)

    def __init__(
        self,
        backbone: nn.Module,
        data: DataFacts,
        *,
        embedding: int,
        bottleneck: int,
        stop_gradient: bool,
        predict: bool,
    ):
        """`bottleneck`: hidden width of the predictor. Without `predict` the views attract each other directly."""
        super().__init__(backbone, data)
        self.head = projection(backbone.width, [embedding, embedding], batch_norm=True)
        self.predictor = (
            projection(embedding, [bottleneck, embedding], batch_norm=True, linear_end=True)
            if predict
            else nn.Identity()
        )
        self.stop_gradient = stop_gradient

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        z1, z2 = (self.head(self.backbone(view)) for view in batch.views)
        p1, p2 = self.predictor(z1), self.predictor(z2)
        if self.stop_gradient:
            z1, z2 = z1.detach(), z2.detach()
        both = [F.cosine_similarity(p.float(), z.float(), dim=1).mean() for p, z in ((p1, z2), (p2, z1))]
        return {"prediction": -sum(both) / 2}

    def features(self, x: Tensor) -> dict[str, Tensor]:
        h = self.backbone(x)
        return {"h": h, "z": self.head(h)}


METHOD = SimSiam
