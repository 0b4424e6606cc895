"""SimCLR: contrast of two views of an image with all other images of the batch.

Chen et al., "A Simple Framework for Contrastive Learning of Visual Representations" (arXiv 2002.05709); here with the
head and the details of MIX'EM's base encoder (arXiv 2007.09502, sec. 3.1 and 4).
"""

import math
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from methods.blocks.contrast import nt_xent
from methods.blocks.heads import mlp
from methods.method import Batch, DataFacts, Method


@dataclass(frozen=True)
class Settings:
    embedding: int  # D, width of z
    temperature: float  # tau
    anchors: Literal["both", "first"]  # rows of both views as anchors, or of the first alone (SCAN's form)


class SimCLR(Method):
    """h = f(x), z = g(h), NT-Xent on z (MIX'EM eqs. 1-2)."""

    terms = ("contrast",)

    def __init__(self, backbone: nn.Module, data: DataFacts, settings: Settings):
        super().__init__(backbone, data, settings)
        self.head = mlp(backbone.width, backbone.width, settings.embedding)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        z1, z2 = (self.head(self.backbone(view)) for view in batch.views)
        return {"contrast": nt_xent(z1, z2, self.settings.temperature, self.settings.anchors)}

    def chance(self, batch_size: int) -> dict[str, float]:
        return {"contrast": math.log(2 * batch_size - 1)}  # candidates of an anchor: both views of all, but itself

    def features(self, x: Tensor) -> dict[str, Tensor]:
        h = self.backbone(x)
        return {"h": h, "z": self.head(h)}


METHOD = SimCLR
