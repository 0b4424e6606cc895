"""Control: the same network trained with labels, the ceiling of every clustering table."""

import torch.nn.functional as F
from torch import Tensor, nn

from methods.method import Batch, DataFacts, Method


class Supervised(Method):
    """Cross-entropy of a linear classifier on h, on one augmented view."""

    terms = ("cross_entropy",)
    views = 1
    uses_labels = True
    drop_last = False

    def __init__(self, backbone: nn.Module, data: DataFacts, *, label_smoothing: float):
        super().__init__(backbone, data)
        self.classifier = nn.Linear(backbone.width, data.classes)
        self.label_smoothing = label_smoothing

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        logits = self.classifier(self.backbone(batch.views[0]))
        return {"cross_entropy": F.cross_entropy(logits, batch.labels, label_smoothing=self.label_smoothing)}

    def features(self, x: Tensor) -> dict[str, Tensor]:
        h = self.backbone(x)
        return {"h": h, "p": self.classifier(h).softmax(1)}


METHOD = Supervised
