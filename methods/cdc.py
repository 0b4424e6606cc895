"""CDC: contrastive learning and clustering in one embedding, z = [z^c, z^n].

"Contrastive Representation Disentanglement for Clustering" (arXiv 2306.05439; its first version called the method CLC).
The cluster part z^c has one number per cluster, the instance part z^n is what MoCo's embedding is. One InfoNCE on both
parts, each of unit length, lets similarity of clusters weigh the negatives (eq. 3); balanced assignments of the batch
are the targets of z^c (eqs. 6 and 7). No code was released: this file follows the equations.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from methods.blocks.contrast import info_nce, info_nce_in_batch
from methods.blocks.distributed import gather_constant, rank
from methods.blocks.heads import mlp
from methods.blocks.key_encoder import KeyEncoder
from methods.blocks.occupancy import Occupancy
from methods.blocks.precision import full_precision
from methods.blocks.sinkhorn import sinkhorn
from methods.method import Batch, DataFacts, Method


@dataclass(frozen=True)
class Settings:
    clusters: int | None  # K, width of z^c; None: the number of classes
    embedding: int  # D, width of z^n
    queue: int  # keys kept as negatives; 0: negatives from the batch, one encoder and gradients for both views
    momentum: float  # m of the key encoder; unused with queue 0
    temperature: float  # tau of the contrast
    cluster_temperature: float  # t of p = softmax(z^c / t)
    epsilon: float  # entropic regularisation of the balanced assignment (eq. 6)
    iterations: int  # of Sinkhorn
    sinkhorn_input: Literal["zc", "zc_over_t"]  # scores of the assignment; the text divides by t as well
    stabilise: Literal["global_max", "log", "none"]  # how Sinkhorn keeps its exponentials in range
    target_view: Literal["same", "swap"]  # targets of a view from its own z^c, or from the other view's
    normalise_zc: bool  # z^c at unit length (ablation of Table VI)
    joint_renorm: bool  # z = [z^c, z^n] normalised once more, which halves every similarity
    symmetric: bool  # both views serve as queries
    shuffle: bool  # keys pass the network in another order, against leaks through batch norm
    threshold: float  # confidence above which an image labels itself (sec. 3.6)


class CDC(Method):
    """L = L_NCE + alpha L_CE (eq. 9): the recipe's weights are 1 and alpha; self-labelling is optional (weight 0)."""

    terms = ("contrast", "equipartition", "self_label")

    def __init__(self, backbone: nn.Module, data: DataFacts, settings: Settings):
        super().__init__(backbone, data, settings)
        self.clusters = data.classes if settings.clusters is None else settings.clusters
        self.head = mlp(backbone.width, backbone.width, self.clusters + settings.embedding)
        self.keys = None
        if settings.queue:
            self.keys = KeyEncoder(
                self.backbone,
                self.head,
                settings.momentum,
                shuffle=settings.shuffle,
                queue=settings.queue,
                parts=[self.clusters, settings.embedding],
            )
        self.occupancy = Occupancy(self.clusters)
        self.register_buffer("confident", torch.zeros(2, dtype=torch.long))  # images above the threshold, images seen

    # ---- sec. 3.1: the embedding

    def parts(self, a: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs of the head a [B, K + D] -> z^c [B, K] and z^n [B, D], each of unit length."""
        zc, zn = a[:, : self.clusters].float(), F.normalize(a[:, self.clusters :].float(), dim=1)
        return (F.normalize(zc, dim=1) if self.settings.normalise_zc else zc), zn

    def joined(self, zc: Tensor, zn: Tensor) -> Tensor:
        """z = [z^c, z^n] [B, K + D], of length sqrt(2) unless `joint_renorm`."""
        z = torch.cat([zc, zn], dim=1)
        return F.normalize(z, dim=1) if self.settings.joint_renorm else z

    # ---- the losses

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Terms of each (query view, key view), averaged over the pairs: both orders, or with a queue and without
        `symmetric` the first view as query alone.
        """
        both = self.keys is None or self.settings.symmetric
        pairs = [(0, 1), (1, 0)] if both else [(0, 1)]
        queries = [self.parts(self.head(self.backbone(x))) for x in (batch.views if both else batch.views[:1])]
        if self.keys is None:
            keys = dict(enumerate(queries))
        else:
            keys = {view: self.parts(self.keys(batch.views[view])) for view in ((0, 1) if both else (1,))}
            self.keys.hold(self.joined(*keys[1]))
        losses_of_pairs = [self._losses_of_pair(queries[query], keys[key]) for query, key in pairs]
        return {name: torch.stack([losses[name] for losses in losses_of_pairs]).mean() for name in losses_of_pairs[0]}

    def _losses_of_pair(self, query: tuple[Tensor, Tensor], key: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
        """Terms of one view's (z^c, z^n) as query and the other's as key."""
        z_q, z_k, tau = self.joined(*query), self.joined(*key), self.settings.temperature
        if self.keys is None:
            losses = {"contrast": info_nce_in_batch(z_q, z_k, tau)}
        else:
            losses = {"contrast": info_nce(z_q, z_k, self.keys.negatives, tau)}
        zc = query[0]
        self.occupancy.add(zc.argmax(1))
        if self.active("equipartition"):
            source = zc if self.settings.target_view == "same" else key[0]
            losses["equipartition"] = equipartition(zc, self.targets(source), self.settings.cluster_temperature)
        if self.active("self_label"):
            losses["self_label"] = self._self_label(zc, key[0])
        return losses

    @torch.no_grad()
    def targets(self, zc: Tensor) -> Tensor:
        """Balanced soft assignment of the whole batch (eq. 6), its rows that belong to this process: [B, K]."""
        settings = self.settings
        scores = gather_constant(zc.detach().float())
        if settings.sinkhorn_input == "zc_over_t":
            scores = scores / settings.cluster_temperature
        q = sinkhorn(scores, settings.epsilon, settings.iterations, settings.stabilise)
        return q[rank() * len(zc) : (rank() + 1) * len(zc)]

    def _self_label(self, zc: Tensor, other: Tensor) -> Tensor:
        """Sec. 3.6: images whose other view is confident teach this view that view's label; 0 where none is."""
        t = self.settings.cluster_temperature
        p, label = (other.detach() / t).softmax(1).max(1)
        sure = p > self.settings.threshold
        sure_of_all = gather_constant(sure.long())
        self.confident += torch.stack([sure_of_all.sum(), torch.ones_like(sure_of_all).sum()])
        loss_of_row = F.cross_entropy(zc / t, label, reduction="none")
        return (loss_of_row * sure).sum() / sure.sum().clamp(min=1)

    # ---- after each step, after each epoch

    def after_step(self) -> None:
        if self.keys is not None:
            self.keys.after_step(self.backbone, self.head)

    def inherited(self) -> None:
        if self.keys is not None:
            self.keys.start_as(self.backbone, self.head)

    def statistics(self) -> dict[str, float]:
        occupied, largest = self.occupancy.take()
        statistics = {"occupied_clusters": float(occupied), "largest_share": largest}
        if self.active("self_label"):
            sure, seen = self.confident.tolist()
            statistics["confident"] = sure / max(seen, 1)
        self.confident.zero_()
        return statistics

    def chance(self, batch_size: int) -> dict[str, float]:
        return {"contrast": math.log(batch_size if self.keys is None else 1 + self.settings.queue)}

    def features(self, x: Tensor) -> dict[str, Tensor]:
        h = self.backbone(x)
        zc, zn = self.parts(self.head(h))
        p = (zc / self.settings.cluster_temperature).softmax(1)
        return {"h": h, "z": self.joined(zc, zn), "zc": zc, "zn": zn, "p": p}


@full_precision
def equipartition(zc: Tensor, targets: Tensor, t: float) -> Tensor:
    """Eq. 7: cross-entropy of p = softmax(z^c / t) with the soft targets [B, K], mean over the batch."""
    return -(targets * (zc / t).log_softmax(1)).sum(1).mean()


METHOD = CDC
