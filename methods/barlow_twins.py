"""Barlow Twins: the cross-correlation of two views' embeddings is to be the identity.

Zbontar et al., "Barlow Twins: Self-Supervised Learning via Redundancy Reduction" (arXiv 2103.03230).
The loss is lightly's; a test compares it with the formula.
"""

from dataclasses import dataclass

from torch import Tensor, nn

from methods.blocks.distributed import gather
from methods.blocks.heads import projection
from methods.blocks.precision import full_precision
from methods.method import Batch, DataFacts, Method


@dataclass(frozen=True)
class Settings:
    hidden: int  # width inside the projector
    embedding: int  # D, width of z
    off_diagonal: float  # lambda


class BarlowTwins(Method):
    """sum_i (1 - C_ii)^2 + lambda sum_{i != j} C_ij^2, C of standardised dimensions over the batch (eqs. 1, 2)."""

    terms = ("redundancy",)

    def __init__(self, backbone: nn.Module, data: DataFacts, settings: Settings):
        super().__init__(backbone, data, settings)
        from lightly.loss import BarlowTwinsLoss  # slow to import

        widths = [settings.hidden, settings.hidden, settings.embedding]
        self.head = projection(backbone.width, widths, batch_norm=True, linear_end=True)
        self.loss = BarlowTwinsLoss(settings.off_diagonal)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        z1, z2 = (gather(self.head(self.backbone(view)).float()) for view in batch.views)
        return {"redundancy": full_precision(self.loss)(z1, z2)}

    def features(self, x: Tensor) -> dict[str, Tensor]:
        h = self.backbone(x)
        return {"h": h, "z": self.head(h)}


METHOD = BarlowTwins
