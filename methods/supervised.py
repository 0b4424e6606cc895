"""Control: the same network trained with labels, the ceiling of every clustering table."""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from methods.method import Batch, DataFacts, Method


@dataclass(frozen=True)
class Settings:
    label_smoothing: float  # share of the target spread over all classes


class Supervised(Method):
    """Cross-entropy of a linear classifier on h, on one augmented view."""

    terms = ("cross_entropy",)
    views = 1
    uses_labels = True
    drop_last = False

    def __init__(self, backbone: nn.Module, data: DataFacts, settings: Settings):
        super().__init__(backbone, data, settings)
        self.classifier = nn.Linear(backbone.width, data.classes)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        logits = self.classifier(self.backbone(batch.views[0]))
        smoothing = self.settings.label_smoothing
        return {"cross_entropy": F.cross_entropy(logits, batch.labels, label_smoothing=smoothing)}

    def features(self, x: Tensor) -> dict[str, Tensor]:
        h = self.backbone(x)
        return {"h": h, "p": self.classifier(h).softmax(1)}


METHOD = Supervised
