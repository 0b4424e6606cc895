"""CO2: MoCo, and query and key shall see the same order among the negatives.

Wei et al., "CO2: Consistent Contrast for Unsupervised Visual Representation Learning" (arXiv 2010.02217).
"""

import math
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from methods.blocks.contrast import info_nce
from methods.blocks.heads import projection
from methods.blocks.key_encoder import KeyEncoder
from methods.blocks.precision import full_precision
from methods.method import Batch, DataFacts, Method


@dataclass(frozen=True)
class Settings:
    embedding: int  # D, width of q and k
    layers: int  # of the head: 1 (MoCo v1) or 2 (v2)
    queue: int  # keys kept as negatives
    momentum: float  # m of the key encoder
    temperature: float  # tau of the contrast
    symmetric: bool  # both views serve as queries of the contrast; the queue still gets one batch of keys a step
    shuffle: bool  # keys pass the network in another order, against leaks through batch norm
    consistency_temperature: float  # tau_con, of the distributions P and Q


class CO2(Method):
    """InfoNCE + alpha (KL(P || Q) + KL(Q || P)) / 2, P and Q the similarities of key and query with the queue."""

    terms = ("contrast", "consistency")  # the weight of `consistency` is alpha

    def __init__(self, backbone: nn.Module, data: DataFacts, settings: Settings):
        super().__init__(backbone, data, settings)
        widths = [backbone.width] * (settings.layers - 1) + [settings.embedding]
        self.head = projection(backbone.width, widths, batch_norm=False)
        self.keys = KeyEncoder(
            self.backbone,
            self.head,
            settings.momentum,
            shuffle=settings.shuffle,
            queue=settings.queue,
            parts=[settings.embedding],
        )

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        x_q, x_k = batch.views
        tau, negatives = self.settings.temperature, self.keys.negatives
        q = self.query(x_q)
        k = self.key(x_k)
        contrast = info_nce(q, k, negatives, tau)
        if self.settings.symmetric:
            contrast = (contrast + info_nce(self.query(x_k), self.key(x_q), negatives, tau)) / 2
        self.keys.hold(k)
        return {
            "contrast": contrast,
            "consistency": consistency(q, k, negatives, self.settings.consistency_temperature),
        }

    def query(self, x: Tensor) -> Tensor:
        """x [B, C, H, W] -> unit q [B, D]."""
        return F.normalize(self.head(self.backbone(x)).float(), dim=1)

    def key(self, x: Tensor) -> Tensor:
        """x [B, C, H, W] -> unit k [B, D], without gradient."""
        return F.normalize(self.keys(x).float(), dim=1)

    def after_step(self) -> None:
        self.keys.after_step(self.backbone, self.head)

    def inherited(self) -> None:
        self.keys.start_as(self.backbone, self.head)

    def chance(self, batch_size: int) -> dict[str, float]:
        return {"contrast": math.log(1 + self.settings.queue)}

    def features(self, x: Tensor) -> dict[str, Tensor]:
        h = self.backbone(x)
        return {"h": h, "z": F.normalize(self.head(h), dim=1)}


@full_precision
def consistency(q: Tensor, k: Tensor, queue: Tensor, temperature: float) -> Tensor:
    """Symmetric KL of the distributions over the queue [N, D] that q and k [B, D] give; no gradient to k and queue."""
    log_q = (q @ queue.detach().T / temperature).log_softmax(1)
    log_p = (k.detach() @ queue.detach().T / temperature).log_softmax(1)
    return ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(1).mean() / 2


METHOD = CO2
