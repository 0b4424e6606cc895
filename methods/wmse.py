"""W-MSE: two views agree after whitening.

Ermolov et al., "Whitening for Self-Supervised Representation Learning" (arXiv 2007.06346).
The loss is lightly's; a test compares it with the formula.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from methods.blocks.distributed import gather
from methods.blocks.heads import projection
from methods.blocks.precision import full_precision
from methods.method import Batch, DataFacts, Method


@dataclass(frozen=True)
class Settings:
    hidden: int  # width inside the projector
    embedding: int  # D, width of z
    slice_size: int  # images whitened together; more than `embedding`, and a divisor of the batch


class WMSE(Method):
    """Each view is whitened in random slices of the batch; 2 - 2 cos of the whitened views (eq. 5)."""

    terms = ("whitened",)

    def __init__(self, backbone: nn.Module, data: DataFacts, settings: Settings):
        super().__init__(backbone, data, settings)
        rows, embedding = settings.slice_size, settings.embedding
        if rows <= embedding:
            raise ValueError(f"slices of {rows} cannot whiten {embedding} dimensions: take larger slices")
        from lightly.loss import WMSELoss  # slow to import

        widths = [settings.hidden, settings.hidden, embedding]
        self.head = projection(backbone.width, widths, batch_norm=True, linear_end=True)
        self.loss = WMSELoss(embedding_dim=embedding, w_size=rows, track_running_stats=False)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        z1, z2 = (gather(self.head(self.backbone(view)).float()) for view in batch.views)
        return {"whitened": full_precision(self.loss)(torch.cat([z1, z2]))}

    def features(self, x: Tensor) -> dict[str, Tensor]:
        h = self.backbone(x)
        return {"h": h, "z": self.head(h)}


METHOD = WMSE
