"""JULE: clusters merge step by step, and between two stages of merging the network learns to tell them apart.

Yang, Parikh, Batra, "Joint Unsupervised Learning of Deep Representations and Image Clusters" (CVPR 2016, arXiv
1604.03628). The clusters start from the pixels' nearest neighbours; every `period` epochs a share of them is merged by
the affinities of the newest embedding; in the end the labels are thrown away and the embedding is clustered once.
"""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from methods.blocks.agglomeration import Linkage, shared_agglomeration
from methods.blocks.distributed import from_first, gather, gather_constant
from methods.blocks.heads import projection
from methods.blocks.precision import full_precision
from methods.method import Batch, Context, DataFacts, Method


@dataclass(frozen=True)
class Settings:
    embedding: int  # D, width of z
    period: int  # epochs of training between two stages of merging
    merged: float  # eta, share of the clusters that a stage merges away
    neighbours: int  # K_s, nearest other rows that each row has an affinity to
    partners: int  # K_c, best partners of a cluster that the merging criterion compares
    plain_below: int  # with at most so many clusters the largest affinity alone decides
    update: Literal["fast", "exact"]  # affinities of a merged cluster: added up, or computed from its rows
    absorbed_above: int  # clusters per class; with more of them, those without affinity first join the nearest
    alone: Literal["either", "both"]  # what is without affinity: in one of the two directions, or in both
    negatives: int  # of each pair, at most
    attraction: float  # gamma, weight of the positive's distance
    margin: float  # by which a negative must be farther than the positive
    released_gradient: bool  # only the anchor moves, which is what the released program's gradient comes to


class JULE(Method):
    """z = nrm(g(f(x))); triplets of a batch: max(0, gamma |a - p|^2 - |a - n|^2 + margin).

    A row's cluster, p, is that of the nearest training row in z: for a training row its own. Where nearest neighbours
    leave fewer clusters than classes there is nothing to merge: `clusters` and `occupied_clusters` of the history say
    so, and with a single cluster no batch has a triplet, which ends the training as untaught.
    """

    terms = ("triplet",)
    views = 0
    drop_last = False
    may_be_empty = True  # no two rows of one cluster in the batch, or all of one
    max_rows = 10_000  # matrices of all pairs of initial clusters: 0.6 GB (methods/blocks/agglomeration.py)

    def __init__(self, backbone: nn.Module, data: DataFacts, settings: Settings):
        super().__init__(backbone, data, settings)
        self.head = projection(backbone.width, [settings.embedding], batch_norm=False)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d | nn.Linear):  # released: N(0, 0.01)
                nn.init.normal_(layer.weight, std=0.01)
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)
        self.register_buffer("clusters", torch.zeros(data.rows, dtype=torch.long))  # that the network is taught
        self.register_buffer("bank", torch.zeros(data.rows, settings.embedding))
        self.register_buffer("found", torch.zeros(data.rows, dtype=torch.long))  # clusters of the bank, in the end
        self.register_buffer("ended", torch.zeros((), dtype=torch.bool))
        self.register_buffer("steps", torch.zeros(2, dtype=torch.long))  # of this epoch: all, and those with triplets
        self.register_buffer("taught", torch.ones(()))  # share of the second in the last epoch
        self.triplets = 0  # of the last batch

    @property
    def linkage(self) -> Linkage:
        settings = self.settings
        limit = settings.absorbed_above * self.data.classes
        return Linkage(
            settings.neighbours, settings.partners, settings.plain_below, settings.update, limit, settings.alone
        )

    @torch.no_grad()
    def before_epoch(self, context: Context) -> None:
        if context.epoch == 0:
            pixels = torch.cat([F.normalize(x.flatten(1).float(), dim=1) for x in context.chunks(1024)])
            self.clusters.copy_(shared_agglomeration(pixels, None, 0, None))

    def count(self) -> int:
        """How many clusters the network is taught."""
        return int(self.clusters.max()) + 1

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        z = gather(self.embed(batch.views[0]))
        labels = self.clusters[gather_constant(batch.index)]
        anchors, positives, negatives = draw_triplets(labels, self.settings.negatives)
        self.triplets = negatives.numel()
        self.steps += torch.tensor([1, self.triplets > 0], device=self.steps.device)
        if not self.triplets:
            return {"triplet": z.sum() * 0}
        others = z.detach() if self.settings.released_gradient else z
        gamma, margin = self.settings.attraction, self.settings.margin
        return {"triplet": triplet_loss(z, others, anchors, positives, negatives, gamma, margin)}

    def empty(self) -> bool:
        return not self.triplets

    @torch.no_grad()
    def after_epoch(self, context: Context) -> None:
        """Merge at the end of a period. Once the classes are left, or no epoch is: the last clustering."""
        last = context.epoch + 1 == context.epochs
        if (context.epoch + 1) % self.settings.period and not last:
            return
        z = self._embedded(context)
        kept = max(self.data.classes, int(self.count() * (1 - self.settings.merged) + 1e-9))
        self.clusters.copy_(shared_agglomeration(z, self.clusters, kept, self.linkage))
        if last or self.count() <= self.data.classes:
            self.bank.copy_(from_first(z))
            self.found.copy_(shared_agglomeration(z, None, self.data.classes, self.linkage))
            self.ended.fill_(True)

    @property
    def finished(self) -> bool:
        """Whether as many clusters are left as there are classes."""
        return bool(self.ended)

    def statistics(self) -> dict[str, float]:
        steps, taught = self.steps.tolist()
        self.steps.zero_()
        self.taught.fill_(taught / max(steps, 1))
        numbers = {"clusters": float(self.count()), "empty_steps": float(steps - taught)}
        return numbers | ({"occupied_clusters": float(len(self.found.unique()))} if self.ended else {})

    def chance(self, batch_size: int) -> dict[str, float]:
        """Equal embeddings lose the margin in each step that has triplets. Untaught epochs have no chance."""
        return {"triplet": self.settings.margin * float(self.taught)} if self.taught and self.settings.margin else {}

    def embed(self, x: Tensor) -> Tensor:
        """x [B, C, H, W] -> unit z [B, D]."""
        return F.normalize(self.head(self.backbone(x)).float(), dim=1)

    def features(self, x: Tensor) -> dict[str, Tensor]:
        h = self.backbone(x)
        z = F.normalize(self.head(h).float(), dim=1)
        nearest = (z @ self.bank.to(z).T).argmax(1)
        return {"h": h, "z": z, "p": F.one_hot(self.found[nearest], self.data.classes).to(z)}

    def _embedded(self, context: Context) -> Tensor:
        """z [N, D] of all training rows as evaluation sees them."""
        mode = self.training
        self.eval()
        z = torch.cat([self.embed(x) for x in context.chunks(1024)])
        self.train(mode)
        return z


def draw_triplets(labels: Tensor, negatives: int) -> tuple[Tensor, Tensor, Tensor]:
    """Anchors [T] and positives [T], all pairs of one label, the anchor first, and distinct random negatives [T, R].

    R is `negatives`, or the number of other labels in the batch where that is less. labels [B].
    """
    same = labels.unsqueeze(1) == labels
    anchors, positives = torch.triu(same, diagonal=1).nonzero(as_tuple=True)
    count = min(negatives, len(labels.unique()) - 1)
    drawn = torch.rand(len(anchors), len(labels)).to(labels.device)
    drawn = drawn.masked_fill(same[anchors], 2.0)
    return anchors, positives, drawn.topk(count, dim=1, largest=False).indices


@full_precision
def triplet_loss(
    z: Tensor, others: Tensor, anchors: Tensor, positives: Tensor, negatives: Tensor, gamma: float, margin: float
) -> Tensor:
    """Mean over triplets of max(0, gamma |a - p|^2 - |a - n|^2 + margin); a of z [B, D], p and n of others [B, D]."""
    squared = (z.square().sum(1, keepdim=True) + others.square().sum(1) - 2 * z @ others.T).clamp(min=0)
    near = squared[anchors, positives].unsqueeze(1)
    return (gamma * near - squared[anchors.unsqueeze(1), negatives] + margin).relu().mean()


METHOD = JULE
