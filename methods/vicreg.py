"""VICReg: two views agree, every dimension keeps its variance, no two dimensions vary together.

Bardes et al., "VICReg: Variance-Invariance-Covariance Regularization" (arXiv 2105.04906).
The loss is lightly's; a test compares it with the formula.
"""

from torch import Tensor, nn

from methods.blocks.distributed import gather
from methods.blocks.heads import projection
from methods.blocks.precision import full_precision
from methods.method import Batch, DataFacts, Method


class VICReg(Method):
    """lambda mean squared difference + mu hinge on the standard deviations + nu squared covariances (eq. 6)."""

    terms = ("regularised",)

    def __init__(
        self,
        backbone: nn.Module,
        data: DataFacts,
        *,
        hidden: int,
        embedding: int,
        invariance: float,
        variance: float,
        covariance: float,
    ):
        """Weights lambda, mu, nu. The variance term is the mean of both views, as in the released code; the text adds
        them, which is twice the weight.
        """
        super().__init__(backbone, data)
        from lightly.loss import VICRegLoss  # slow to import

        self.head = projection(backbone.width, [hidden, hidden, embedding], batch_norm=True, linear_end=True)
        self.loss = VICRegLoss(invariance, variance, covariance)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        z1, z2 = (gather(self.head(self.backbone(view)).float()) for view in batch.views)
        return {"regularised": full_precision(self.loss)(z1, z2)}

    def features(self, x: Tensor) -> dict[str, Tensor]:
        h = self.backbone(x)
        return {"h": h, "z": self.head(h)}


METHOD = VICReg
