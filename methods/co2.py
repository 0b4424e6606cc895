"""CO2: MoCo, and query and key shall see the same order among the negatives.

Wei et al., "CO2: Consistent Contrast for Unsupervised Visual Representation Learning" (arXiv 2010.02217).
"""

from typing import Any

from torch import Tensor, nn

from methods.blocks.precision import full_precision
from methods.method import Batch, DataFacts
from methods.moco import MoCo


class CO2(MoCo):
    """InfoNCE + alpha (KL(P || Q) + KL(Q || P)) / 2, P and Q the similarities of key and query with the queue."""

    terms = ("contrast", "consistency")

    def __init__(self, backbone: nn.Module, data: DataFacts, *, consistency_temperature: float, **moco: Any):
        super().__init__(backbone, data, **moco)
        self.consistency_temperature = consistency_temperature

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        q = self.query(batch.views[0])
        contrast = self.contrast(batch, q)
        return {
            "contrast": contrast,
            "consistency": consistency(q, self.fresh, self.queue.keys, self.consistency_temperature),
        }


@full_precision
def consistency(q: Tensor, k: Tensor, queue: Tensor, temperature: float) -> Tensor:
    """Symmetric KL of the distributions over the queue [N, D] that q and k [B, D] give; no gradient to k and queue."""
    log_q = (q @ queue.detach().T / temperature).log_softmax(1)
    log_p = (k.detach() @ queue.detach().T / temperature).log_softmax(1)
    return ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(1).mean() / 2


METHOD = CO2
