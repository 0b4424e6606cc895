"""CDC's optional last step as fine-tuning: a trained CDC labels its confident images (sec. 3.6, arXiv 2306.05439).

Loss, augmentation and optimiser are not given there: they are SCAN's (methods/selflabel.py), with z^c / t as logits.
"""

import torch.nn.functional as F
from torch import Tensor, nn

from methods.blocks.heads import mlp
from methods.method import DataFacts, Method
from methods.selflabel import SelfLabel


class CDCSelfLabel(SelfLabel):
    """p = softmax(z^c / t), z^c the first K outputs of the head at unit length."""

    terms = ("self_label",)

    def __init__(
        self,
        backbone: nn.Module,
        data: DataFacts,
        *,
        embedding: int,
        cluster_temperature: float,
        threshold: float,
        balance: bool,
        ema: float | None,
    ):
        """`embedding`, `cluster_temperature`: as in the base, whose K is the number of classes."""
        Method.__init__(self, backbone, data)
        self.clusters, self.t = data.classes, cluster_temperature
        self.head = mlp(backbone.width, backbone.width, data.classes + embedding)
        self.start(data.classes, threshold, balance, ema)

    def logits(self, h: Tensor, head: nn.Module) -> Tensor:
        return F.normalize(head(h)[:, : self.clusters].float(), dim=1) / self.t


METHOD = CDCSelfLabel
