"""SCAN: an image and its nearest neighbours in a pretext embedding belong to one cluster.

Van Gansbeke et al., "SCAN: Learning to Classify Images without Labels" (arXiv 2005.12320), step 2. The neighbours are
mined once (training/mine.py); each step every image meets one of them, itself among them, both strongly augmented.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from methods.blocks.distributed import gather, gather_constant
from methods.blocks.heads import ClusterHeads
from methods.blocks.occupancy import Occupancy
from methods.blocks.precision import full_precision
from methods.method import Batch, Context, DataFacts, Method, Watched


@dataclass(frozen=True)
class Settings:
    heads: int  # independent classifiers of the features


class SCAN(Method):
    """Consistency of neighbours - lambda entropy of the mean assignment (eq. 2): the weight of `entropy` is lambda.

    Of several heads, whose losses are summed, the one with the lowest loss over the last epoch of training is kept; no
    test image takes part in the choice. Where the recipe watches the scored images, as the paper does (`test_unsup`),
    the epoch and the head with the lowest loss on these (entropy weighted 1), without their labels, are kept instead.
    """

    terms = ("consistency", "entropy")
    views = 1
    uses_neighbours = True

    def __init__(self, backbone: nn.Module, data: DataFacts, settings: Settings):
        super().__init__(backbone, data, settings)
        self.head = ClusterHeads(settings.heads, backbone.width, data.classes)
        self.occupancy = Occupancy(data.classes)  # of the first head
        self.register_buffer("losses_of_heads", torch.zeros(settings.heads, dtype=torch.float64))
        self.register_buffer("watched_loss", torch.tensor(math.inf))  # the lowest so far
        self.register_buffer("kept_epoch", torch.zeros((), dtype=torch.long))
        self.kept: dict[str, dict[str, Tensor]] | None = None  # the weights of that epoch, until training ends

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        # Anchors and neighbours pass the network apart: each is normalised by its own batch statistics, as released.
        anchors, partners = (self.head(self.backbone(x)).float().softmax(2) for x in (batch.views[0], *batch.partners))
        agreed, spread = consistency(anchors, partners), entropy(anchors)  # both [heads]
        with torch.no_grad():
            agreed_of_all = gather_constant(agreed.unsqueeze(0)).mean(0)
            self.losses_of_heads += agreed_of_all - self.weight("entropy") * spread
        self.occupancy.add(anchors[0].argmax(1))
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
        occupied, largest = self.occupancy.take()
        self.losses_of_heads.zero_()
        statistics = {"occupied_clusters": float(occupied), "largest_share": largest}
        if self.kept_epoch:
            statistics |= {"watched_loss": float(self.watched_loss), "kept_epoch": float(self.kept_epoch)}
        return statistics | {"best_head": float(self.head.best)}

    def chance(self, batch_size: int) -> dict[str, float]:
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
