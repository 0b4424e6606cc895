"""Self-labelling (SCAN, arXiv 2005.12320, step 3): confident predictions become labels of harder views."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from methods.blocks.distributed import gather_constant, world


class SelfLabelling(nn.Module):
    """The loss, and counters of what was labelled in this epoch over all processes.

    `threshold`: least probability from which a prediction is a label. `balance`: all classes that occur in a batch
    weigh the same. A batch without any confident image has the loss 0 and is `empty`; such steps are counted.
    """

    def __init__(self, classes: int, threshold: float, balance: bool):
        super().__init__()
        self.threshold, self.balance = threshold, balance
        self.register_buffer("labelled", torch.zeros(classes, dtype=torch.long))  # labels per class
        self.register_buffer("images", torch.zeros((), dtype=torch.long))
        self.register_buffer("empty_steps", torch.zeros((), dtype=torch.long))
        self.empty = torch.zeros((), dtype=torch.bool)  # of the last batch

    def forward(self, weak: Tensor, strong: Tensor) -> Tensor:
        """Logits of clean images, weak [B, C], and of their augmented versions, strong [B, C] -> scalar loss."""
        confidence, label = weak.detach().float().softmax(1).max(1)
        loss, labelled = self_label_loss(strong.float(), label, confidence > self.threshold, self.balance)
        self.labelled += labelled
        self.images += len(weak) * world()
        self.empty = labelled.sum() == 0
        self.empty_steps += self.empty
        return loss

    def statistics(self) -> dict[str, float]:
        """Share of confident images, steps without one, and classes that no image was confident of; counts anew."""
        numbers = {
            "confident": float(self.labelled.sum()) / max(int(self.images), 1),
            "empty_steps": float(self.empty_steps),
            "missing_classes": float((self.labelled == 0).sum()),
        }
        for counter in (self.labelled, self.images, self.empty_steps):
            counter.zero_()
        return numbers


def self_label_loss(logits: Tensor, label: Tensor, sure: Tensor, balance: bool) -> tuple[Tensor, Tensor]:
    """(loss, labels of each class [C] over all processes) of logits [B, C], labels [B] and the mask `sure` [B].

    Cross-entropy over the sure rows; with `balance` weighted by 1 / count of the label and divided by the weights' sum
    (SCAN's released code). 0, with a gradient of 0, where no row is sure.
    """
    labelled = torch.zeros(logits.shape[1], dtype=torch.long, device=logits.device)
    labelled.index_add_(0, gather_constant(label), gather_constant(sure.long()))
    weight = sure / labelled[label].clamp(min=1) if balance else sure.float()
    total = (labelled > 0).sum() if balance else labelled.sum()
    loss_of_row = F.cross_entropy(logits, label, reduction="none")
    # The mean over processes, which DDP takes, times their number is the sum over all of them.
    return world() * (loss_of_row * weight).sum() / total.clamp(min=1), labelled
