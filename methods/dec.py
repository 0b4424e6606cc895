"""DEC and IDEC: cluster centres and encoder learn from the sharpened version of their own soft assignment.

Xie et al., "Unsupervised Deep Embedding for Clustering Analysis" (arXiv 1511.06335); Guo et al., "Improved Deep
Embedded Clustering with Local Structure Preservation" (IJCAI 2017). DEC is the clustering term alone, IDEC adds the
reconstruction: the recipe's weights tell them apart.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from methods.blocks.distributed import from_first
from methods.blocks.kmeans import kmeans
from methods.blocks.reconstruction import reconstruction
from methods.blocks.student_t import soft_assignment, target_distribution
from methods.method import Batch, Context, DataFacts, Method


@dataclass(frozen=True)
class Settings:
    interval: int  # steps between two computations of the target from all samples
    tolerance: float  # training ends with the epoch once a smaller share of the labels changed in between
    n_init: int  # restarts of the K-means that places mu


class Dec(Method):
    """z = f(x), q by Student's t around the centres mu (eq. 1), p the target (eq. 3), KL(P || Q) (eq. 2)."""

    terms = ("cluster", "reconstruction")
    views = 0
    drop_last = False
    inherits = ("backbone", "decoder")

    def __init__(self, backbone: nn.Module, data: DataFacts, settings: Settings):
        super().__init__(backbone, data, settings)
        self.decoder = backbone.mirror()
        self.centres = nn.Parameter(torch.zeros(data.classes, backbone.width))
        self.register_buffer("target", torch.zeros(data.rows, data.classes))
        self.register_buffer("labels", torch.full((data.rows,), -1, dtype=torch.long))
        self.register_buffer("changed", torch.ones(()))

    @torch.no_grad()
    def before_epoch(self, context: Context) -> None:
        if context.epoch == 0:
            z = self._latents(context)
            seed = context.seed("centres") % 2**31
            fitted = kmeans(z, len(self.centres), self.settings.n_init, "k-means++", seed=seed)
            self.centres.copy_(fitted.centres)
            from_first(self.centres)

    @torch.no_grad()
    def before_step(self, context: Context) -> None:
        if context.step % self.settings.interval:
            return
        q = soft_assignment(self._latents(context), self.centres)
        self.target.copy_(target_distribution(q))
        labels = q.argmax(1)
        self.changed.copy_((labels != self.labels).float().mean())
        self.labels.copy_(labels)

    @property
    def finished(self) -> bool:
        """Whether the last refresh of the target changed few enough labels."""
        return bool(self.changed < self.settings.tolerance)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        x = batch.views[0].flatten(1)
        z = self.backbone(x)
        terms = {"cluster": divergence(self.target[batch.index], soft_assignment(z, self.centres))}
        if self.active("reconstruction"):
            terms["reconstruction"] = reconstruction(self.decoder(z), x)
        return terms

    def statistics(self) -> dict[str, float]:
        return {"changed": float(self.changed), "occupied": len(self.labels.unique())}

    def features(self, x: Tensor) -> dict[str, Tensor]:
        z = self.backbone(x)
        return {"h": z, "p": soft_assignment(z, self.centres)}

    def _latents(self, context: Context) -> Tensor:
        return torch.cat([self.backbone(x).float() for x in context.chunks(8192)])


def divergence(p: Tensor, q: Tensor) -> Tensor:
    """KL(P || Q) of rows p, q [B, K], summed over clusters, averaged over the batch (DEC eq. 2; "batchmean")."""
    return (torch.xlogy(p, p) - torch.xlogy(p, q)).sum(1).mean()


METHOD = Dec
