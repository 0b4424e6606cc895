"""Self-labelling: images whose clean view is classified with confidence teach their strongly augmented view that label.

Van Gansbeke et al., SCAN (arXiv 2005.12320), step 3. It goes on from a trained SCAN: encoder and the best head.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from methods.blocks.distributed import gather_constant, world
from methods.blocks.momentum import follow, follower
from methods.method import Batch, DataFacts, Method
from methods.scan import ClusterHeads


class SelfLabel(Method):
    """Cross-entropy of strong views with the labels of confident clean views, classes balanced where asked.

    A step without any confident image has the loss 0 and moves no weight by it; such steps are counted.
    """

    terms = ("self_label",)
    views = 1
    clean_view = True
    inherits = ("backbone", "head")

    def __init__(
        self, backbone: nn.Module, data: DataFacts, *, heads: int, threshold: float, balance: bool, ema: float | None
    ):
        """`heads`: as in the base. `threshold`: least confidence of a label. `balance`: every class that occurs counts
        alike. `ema`: momentum of a copy of the network that is used in the end, None: the network itself.
        """
        super().__init__(backbone, data)
        self.head = ClusterHeads(heads, backbone.width, data.classes)
        self.start(data.classes, threshold, balance, ema)

    def start(self, classes: int, threshold: float, balance: bool, ema: float | None) -> None:
        """Everything but the head."""
        self.threshold, self.balance, self.ema = threshold, balance, ema
        self.averaged = follower(nn.ModuleList([self.backbone, self.head])) if ema is not None else None
        self.register_buffer("counts", torch.zeros(classes, dtype=torch.long))  # labels given this epoch
        self.register_buffer("seen", torch.zeros(2, dtype=torch.long))  # images, and steps without a confident one

    def logits(self, h: Tensor, head: nn.Module) -> Tensor:
        """h [B, d] -> [B, C]."""
        return head(h)[head.best]

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        with torch.no_grad():  # in training mode, as released: the batch's own statistics
            p, label = self.logits(self.backbone(batch.clean), self.head).float().softmax(1).max(1)
        strong = self.logits(self.backbone(batch.views[0]), self.head).float()
        loss, labelled = self_label_loss(strong, label, p > self.threshold, self.balance)
        self.counts += labelled
        self.seen += torch.stack([torch.tensor(len(p), device=p.device), (labelled.sum() == 0).long()])
        return {"self_label": loss}

    def after_step(self) -> None:
        if self.averaged is None:
            return
        live = nn.ModuleList([self.backbone, self.head])
        follow(self.averaged, live, self.ema)
        for own, other in zip(self.averaged.buffers(), live.buffers(), strict=True):
            own.copy_(other)  # running statistics belong to the weights of now: averaging would leave them behind

    def inherited(self) -> None:
        if self.averaged is not None:
            self.averaged.load_state_dict(nn.ModuleList([self.backbone, self.head]).state_dict())

    def statistics(self) -> dict[str, float]:
        images, empty = self.seen.tolist()
        told = {
            "confident": float(self.counts.sum()) / max(images * world(), 1),
            "empty_steps": float(empty),
            "missing_classes": float((self.counts == 0).sum()),  # clusters that no image was confident of
        }
        self.counts.zero_()
        self.seen.zero_()
        return told

    def features(self, x: Tensor) -> dict[str, Tensor]:
        backbone, head = (self.backbone, self.head) if self.averaged is None else self.averaged
        h = backbone(x)
        return {"h": h, "p": self.logits(h, head).softmax(1)}


def self_label_loss(logits: Tensor, label: Tensor, sure: Tensor, balance: bool) -> tuple[Tensor, Tensor]:
    """(loss, labels given of each class [C] over all processes) of logits [B, C], labels [B] and mask `sure` [B].

    Cross-entropy over the sure rows; with `balance` weighted by 1 / count of the label and divided by the weights' sum
    (SCAN's released code). 0, with a gradient of 0, where no row is sure.
    """
    given = torch.bincount(gather_constant(label)[gather_constant(sure.long()).bool()], minlength=logits.shape[1])
    weight = sure / given[label].clamp(min=1) if balance else sure.float()
    total = (given > 0).sum() if balance else given.sum()
    each = F.cross_entropy(logits, label, reduction="none")
    # The mean over processes, which DDP takes, times their number is the sum over all of them.
    return world() * (each * weight).sum() / total.clamp(min=1), given


METHOD = SelfLabel
