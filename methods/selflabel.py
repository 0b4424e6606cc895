"""Self-labelling: images whose clean view is classified with confidence teach their strongly augmented view that label.

Van Gansbeke et al., SCAN (arXiv 2005.12320), step 3. It goes on from a trained SCAN: encoder and the best head.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from methods.blocks.heads import ClusterHeads
from methods.blocks.key_encoder import KeyEncoder
from methods.blocks.self_label import SelfLabelling
from methods.method import Batch, DataFacts, Method


@dataclass(frozen=True)
class Settings:
    heads: int  # as in the base; the best of them learns on
    threshold: float  # least confidence of a label
    balance: bool  # every class that occurs in a batch weighs the same
    ema: float | None  # momentum of an average of the network, which is used in the end; None: the network itself


class SelfLabel(Method):
    """Cross-entropy of strong views with the labels of confident clean views (blocks/self_label.py)."""

    terms = ("self_label",)
    views = 1
    clean_view = True
    inherits = ("backbone", "head")
    may_be_empty = True

    def __init__(self, backbone: nn.Module, data: DataFacts, settings: Settings):
        super().__init__(backbone, data, settings)
        self.head = ClusterHeads(settings.heads, backbone.width, data.classes)
        self.labelling = SelfLabelling(data.classes, settings.threshold, settings.balance)
        self.average = None
        if settings.ema is not None:
            self.average = KeyEncoder(self.backbone, self.head, settings.ema, copy_buffers=True)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        with torch.no_grad():  # in training mode, as released: the batch's own statistics
            weak = self.logits(self.backbone(batch.clean))
        strong = self.logits(self.backbone(batch.views[0]))
        return {"self_label": self.labelling(weak, strong)}

    def logits(self, h: Tensor) -> Tensor:
        """h [B, d] -> [B, C] of the best head."""
        return self.head(h)[self.head.best]

    def empty(self) -> bool:
        return bool(self.labelling.empty)

    def after_step(self) -> None:
        if self.average is not None:
            self.average.after_step(self.backbone, self.head)

    def inherited(self) -> None:
        if self.average is not None:
            self.average.start_as(self.backbone, self.head)

    def statistics(self) -> dict[str, float]:
        return self.labelling.statistics()

    def features(self, x: Tensor) -> dict[str, Tensor]:
        network = self if self.average is None else self.average
        h = network.backbone(x)
        return {"h": h, "p": network.head(h)[network.head.best].softmax(1)}


METHOD = SelfLabel
