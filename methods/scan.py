"""SCAN: an image and its nearest neighbours in a pretext embedding belong to one cluster.

Van Gansbeke et al., "SCAN: Learning to Classify Images without Labels" (arXiv 2005.12320), step 2. The neighbours are
mined once (training/mine.py); each step every image meets one of them, itself among them, both strongly augmented.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from methods.blocks.distributed import gather, gather_constant
from methods.blocks.precision import full_precision
from methods.method import Batch, Context, DataFacts, Method, Watched


class ClusterHeads(nn.Module):
    """Independent linear classifiers of the backbone features; `best` numbers the one that is used in the end."""

    def __init__(self, heads: int, width: int, classes: int):
        super().__init__()
        self.heads, self.classes = heads, classes
        self.linear = nn.Linear(width, heads * classes)
        self.register_buffer("best", torch.zeros((), dtype=torch.long))

    def forward(self, h: Tensor) -> Tensor:
        """h [B, d] -> logits [heads, B, C]."""
        return self.linear(h).view(len(h), self.heads, self.classes).transpose(0, 1)


class SCAN(Method):
    """Consistency of neighbours - lambda entropy of the mean assignment (eq. 2): the weight of `entropy` is lambda.

    Of several heads, whose losses are summed, the one with the lowest loss over the last epoch of training is kept: no
    test image has a say in it. Where the recipe watches the scored images, as the paper does (`test_unsup`), the epoch
    and the head with the lowest loss on these (entropy weighted 1), without their labels, are kept instead.
    """

    terms = ("consistency", "entropy")
    views = 1
    uses_neighbours = True

    def __init__(self, backbone: nn.Module, data: DataFacts, *, heads: int):
        super().__init__(backbone, data)
        self.head = ClusterHeads(heads, backbone.width, data.classes)
        self.register_buffer("losses_of_heads", torch.zeros(heads, dtype=torch.float64))
        self.register_buffer("counts", torch.zeros(data.classes, dtype=torch.long))  # of the first head, this epoch
        self.register_buffer("watched_loss", torch.tensor(math.inf))  # the lowest so far
        self.register_buffer("kept_epoch", torch.zeros((), dtype=torch.long))
        self.kept: dict[str, dict[str, Tensor]] | None = None  # the weights of that epoch, until training ends

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        # Anchors and neighbours pass the network apart: each has the batch norm of its own, as released.
        anchors, partners = (self.head(self.backbone(x)).float().softmax(2) for x in (batch.views[0], *batch.partners))
        agreed, spread = consistency(anchors, partners), entropy(anchors)
        with torch.no_grad():
            of_all = gather_constant(agreed.unsqueeze(0)).mean(0)
            self.losses_of_heads += of_all - self.weights.get("entropy", 1.0) * spread
            self.counts += torch.bincount(gather_constant(anchors[0].argmax(1)), minlength=len(self.counts))
        return {"consistency": agreed.sum(), "entropy": -spread.sum()}

    @torch.no_grad()
    def after_epoch(self, context: Context) -> None:
        if context.watched is None:
            self.head.best.copy_(self.losses_of_heads.argmin())
            return
        losses = self._loss_on(context.watched)
        if losses.min() < self.watched_loss:
            self.watched_loss.copy_(losses.min())
            self.head.best.copy_(losses.argmin())
            self.kept_epoch.fill_(context.epoch + 1)
            self.kept = {
                part: {name: value.clone() for name, value in getattr(self, part).state_dict().items()}
                for part in ("backbone", "head")
            }
        if context.epoch + 1 == context.epochs and self.kept is not None:
            for part, weights in self.kept.items():
                getattr(self, part).load_state_dict(weights)
            self.kept = None

    def _loss_on(self, watched: Watched) -> Tensor:
        """Consistency of every image with each of its neighbours - entropy, of every head: [H]."""
        mode = self.training
        self.eval()
        p = torch.cat([self.head(self.backbone(x)).float().softmax(2) for x in watched.images()], dim=1)
        self.train(mode)
        agreed = torch.stack([consistency(p, p[:, near]) for near in watched.neighbours.T]).mean(0)
        return agreed - entropy_of_mean(p.mean(1))

    def get_extra_state(self) -> dict[str, Any]:
        return {"kept": self.kept}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self.kept = state["kept"]

    def statistics(self) -> dict[str, float]:
        share = self.counts.max() / self.counts.sum().clamp(min=1)
        told = {"occupied_clusters": float((self.counts > 0).sum()), "largest_share": float(share)}
        self.losses_of_heads.zero_()
        self.counts.zero_()
        if self.kept_epoch:
            told |= {"watched_loss": float(self.watched_loss), "kept_epoch": float(self.kept_epoch)}
        return told | {"best_head": float(self.head.best)}

    def chance(self) -> dict[str, float]:
        return {"consistency": self.head.heads * math.log(self.head.classes)}

    def features(self, x: Tensor) -> dict[str, Tensor]:
        h = self.backbone(x)
        return {"h": h, "p": self.head(h)[self.head.best].softmax(1)}


@full_precision
def consistency(anchors: Tensor, partners: Tensor) -> Tensor:
    """-mean_i log <P_i, P'_i> of probabilities [H, B, C] -> [H]; the logarithm is at least -100 (as in torch's BCE)."""
    return -(anchors * partners).sum(2).log().clamp(min=-100).mean(1)


@full_precision
def entropy(p: Tensor) -> Tensor:
    """Entropy of the mean assignment over all processes' rows, p [H, B, C] -> [H]; probabilities at least 1e-8."""
    return entropy_of_mean(gather(p.transpose(0, 1).contiguous()).mean(0))


def entropy_of_mean(mean: Tensor) -> Tensor:
    """Entropy of distributions [H, C] -> [H]; probabilities at least 1e-8."""
    mean = mean.clamp(min=1e-8)
    return -(mean * mean.log()).sum(1)


METHOD = SCAN
