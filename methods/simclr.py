"""SimCLR: contrast of two views of an image with all other images of the batch.

Chen et al., "A Simple Framework for Contrastive Learning of Visual Representations" (arXiv 2002.05709); here with the
head and the details of MIX'EM's base encoder (arXiv 2007.09502, sec. 3.1 and 4).
"""

from typing import Literal

from torch import Tensor, nn

from methods.blocks.contrast import nt_xent
from methods.blocks.heads import mlp
from methods.method import Batch, DataFacts, Method


class SimCLR(Method):
    """h = f(x), z = g(h), NT-Xent on z (MIX'EM eqs. 1-2)."""

    terms = ("contrast",)

    def __init__(
        self,
        backbone: nn.Module,
        data: DataFacts,
        *,
        embedding: int,
        temperature: float,
        anchors: Literal["both", "first"],
    ):
        super().__init__(backbone, data)
        self.head = mlp(backbone.width, backbone.width, embedding)
        self.temperature, self.anchors = temperature, anchors

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        z1, z2 = (self.head(self.backbone(view)) for view in batch.views)
        return {"contrast": nt_xent(z1, z2, self.temperature, self.anchors)}

    def features(self, x: Tensor) -> dict[str, Tensor]:
        h = self.backbone(x)
        return {"h": h, "z": self.head(h)}


METHOD = SimCLR
