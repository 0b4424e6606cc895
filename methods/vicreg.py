"""VICReg: two views agree, every dimension keeps its variance, no two dimensions vary together.

Bardes et al., "VICReg: Variance-Invariance-Covariance Regularization" (arXiv 2105.04906).
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
    invariance: float  # lambda
    variance: float  # mu, of the mean over both views, as in the released code; the text's sum is twice as strong
    covariance: float  # nu


class VICReg(Method):
    """lambda mean squared difference + mu hinge on the standard deviations + nu squared covariances (eq. 6)."""

    terms = ("regularised",)

    def __init__(self, backbone: nn.Module, data: DataFacts, settings: Settings):
        super().__init__(backbone, data, settings)
        from lightly.loss import VICRegLoss  # slow to import

        widths = [settings.hidden, settings.hidden, settings.embedding]
        self.head = projection(backbone.width, widths, batch_norm=True, linear_end=True)
        self.loss = VICRegLoss(settings.invariance, settings.variance, settings.covariance)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        z1, z2 = (gather(self.head(self.backbone(view)).float()) for view in batch.views)
        return {"regularised": full_precision(self.loss)(z1, z2)}

    def features(self, x: Tensor) -> dict[str, Tensor]:
        h = self.backbone(x)
        return {"h": h, "z": self.head(h)}


METHOD = VICReg
