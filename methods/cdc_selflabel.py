"""CDC's optional last step as fine-tuning: a trained CDC labels its confident images (sec. 3.6, arXiv 2306.05439).

The paper states no loss, augmentation or optimiser for it: they are those of SCAN's step 3, with z^c / t as logits.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from methods.blocks.heads import mlp
from methods.blocks.key_encoder import KeyEncoder
from methods.blocks.self_label import SelfLabelling
from methods.method import Batch, DataFacts, Method


@dataclass(frozen=True)
class Settings:
    embedding: int  # D, width of z^n, as in the base, whose K is the number of classes
    cluster_temperature: float  # t, as in the base
    threshold: float  # least confidence of a label
    balance: bool  # every class that occurs in a batch weighs the same
    ema: float | None  # momentum of an average of the network, which is used in the end; None: the network itself


class CDCSelfLabel(Method):
    """p = softmax(z^c / t), z^c the first K outputs of the head at unit length; loss in blocks/self_label.py."""

    terms = ("self_label",)
    views = 1
    clean_view = True
    inherits = ("backbone", "head")
    may_be_empty = True

    def __init__(self, backbone: nn.Module, data: DataFacts, settings: Settings):
        super().__init__(backbone, data, settings)
        self.head = mlp(backbone.width, backbone.width, data.classes + settings.embedding)
        self.labelling = SelfLabelling(data.classes, settings.threshold, settings.balance)
        self.average = None
        if settings.ema is not None:
            self.average = KeyEncoder(self.backbone, self.head, settings.ema, copy_buffers=True)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        with torch.no_grad():  # in training mode, as SCAN's released code: the batch's own statistics
            weak = self.logits(self.head(self.backbone(batch.clean)))
        strong = self.logits(self.head(self.backbone(batch.views[0])))
        return {"self_label": self.labelling(weak, strong)}

    def logits(self, a: Tensor) -> Tensor:
        """Outputs of the head a [B, K + D] -> z^c / t [B, K]."""
        return F.normalize(a[:, : self.data.classes].float(), dim=1) / self.settings.cluster_temperature

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
        return {"h": h, "p": self.logits(network.head(h)).softmax(1)}


METHOD = CDCSelfLabel
