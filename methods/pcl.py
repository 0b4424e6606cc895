"""PCL: MoCo whose embedding is also drawn to prototypes, clusters of the whole training set at several granularities.

Li et al., "Prototypical Contrastive Learning of Unsupervised Representations" (arXiv 2005.04966). Before each epoch the
E-step clusters the key encoder's features; during the epoch the M-step minimises ProtoNCE (eq. 11): InfoNCE, and for
each granularity a cross-entropy of the query with the prototype of its cluster, each prototype with its concentration
phi in place of a temperature.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from methods.blocks.contrast import info_nce
from methods.blocks.distributed import gather_constant, rank, world
from methods.blocks.heads import projection
from methods.blocks.key_encoder import KeyEncoder
from methods.blocks.precision import full_precision
from methods.blocks.shared_kmeans import shared_kmeans
from methods.method import Batch, Context, DataFacts, Method

# The least phi, as a share of the mean. A cluster of duplicates has no spread, and where such clusters are a tenth of
# all even the clipped phi is 0: similarities over it, and then the weights, would not be finite. Ours; among clusters
# that have a spread the percentiles keep phi well above it.
LEAST_PHI = 0.1


@dataclass(frozen=True)
class Settings:
    embedding: int  # D, width of q and k
    layers: int  # of the head: 1 (MoCo v1) or 2 (v2)
    queue: int  # keys kept as negatives
    momentum: float  # m of the key encoder
    temperature: float  # tau, and the mean of phi
    symmetric: bool  # both views serve as queries of the contrast; the queue still gets one batch of keys a step
    shuffle: bool  # keys pass the network in another order, against leaks through batch norm
    clusters: list[float]  # K_m: numbers of prototypes; those below 1 are shares of the training rows
    warmup_epochs: int  # of InfoNCE alone, first
    smoothing: float  # alpha of phi (eq. 12)
    iterations: int  # of the K-means of the E-step
    restarts: int  # of the K-means of the E-step
    form: Literal["full", "sampled"]  # candidates: all prototypes, or the batch's own and `negatives` others
    negatives: int  # r of eq. 11, prototypes drawn as negatives by the sampled form


class PCL(Method):
    """InfoNCE + the mean over granularities of the prototype term (eq. 11); v1 and v2 differ in the recipe."""

    terms = ("contrast", "prototypes")

    def __init__(self, backbone: nn.Module, data: DataFacts, settings: Settings):
        super().__init__(backbone, data, settings)
        widths = [backbone.width] * (settings.layers - 1) + [settings.embedding]
        self.head = projection(backbone.width, widths, batch_norm=False)
        self.keys = KeyEncoder(
            self.backbone,
            self.head,
            settings.momentum,
            shuffle=settings.shuffle,
            queue=settings.queue,
            parts=[settings.embedding],
        )
        self.counts = [count if count >= 1 else max(2, round(count * data.rows)) for count in settings.clusters]
        for number, count in enumerate(self.counts):
            if count > data.rows:
                raise ValueError(f"{count} prototypes asked of {data.rows} training rows")
            self.register_buffer(f"prototypes{number}", torch.zeros(count, settings.embedding))
            self.register_buffer(f"phi{number}", torch.ones(count))
            self.register_buffer(f"assigned{number}", torch.zeros(data.rows, dtype=torch.long))
        self.register_buffer("ready", torch.zeros((), dtype=torch.bool))

    # ---- E-step

    @torch.no_grad()
    def before_epoch(self, context: Context) -> None:
        settings = self.settings
        if context.epoch < settings.warmup_epochs:
            return
        features = self._features_of_all(context)
        for number, count in enumerate(self.counts):
            seed = context.seed("prototypes", number)
            centres, assigned = shared_kmeans(features, count, settings.restarts, settings.iterations, seed)
            distance = (features - centres[assigned]).norm(dim=1)
            phi = concentration(distance, assigned, count, settings.smoothing, settings.temperature)
            self._clustering(number, "assigned").copy_(assigned)
            self._clustering(number, "phi").copy_(phi)
            self._clustering(number, "prototypes").copy_(F.normalize(centres, dim=1))
        self.ready.fill_(True)

    def _features_of_all(self, context: Context) -> Tensor:
        """Unit features of the key encoder in eval mode, [N, D]; each process embeds every R-th row."""
        mode = self.training
        self.eval()
        rows = torch.arange(rank(), context.rows, world(), device=context.device)
        # Every process needs as many rows as the others; the rows added for that are dropped at the end.
        rows = F.pad(rows, (0, -(-context.rows // world()) - len(rows)))
        shares = gather_constant(torch.cat([self.key(context.clean(part)) for part in rows.split(1024)]))
        self.train(mode)
        return shares.view(world(), len(rows), -1).transpose(0, 1).flatten(0, 1)[: context.rows]

    def _clustering(self, number: int, name: str) -> Tensor:
        """The buffer `name` of granularity `number`: prototypes [K, D], phi [K] or assigned [N]."""
        return getattr(self, f"{name}{number}")

    # ---- M-step

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        x_q, x_k = batch.views
        tau, negatives = self.settings.temperature, self.keys.negatives
        q = self.query(x_q)
        k = self.key(x_k)
        contrast = info_nce(q, k, negatives, tau)
        if self.settings.symmetric:
            contrast = (contrast + info_nce(self.query(x_k), self.key(x_q), negatives, tau)) / 2
        self.keys.hold(k)
        if not self.ready:
            return {"contrast": contrast}
        return {"contrast": contrast, "prototypes": self._prototype_term(q, batch.index)}

    def _prototype_term(self, q: Tensor, index: Tensor) -> Tensor:
        """Second term of eq. 11 for q [B, D] of the training rows index [B], mean over granularities."""
        losses = []
        for number, count in enumerate(self.counts):
            target = self._clustering(number, "assigned")[index]
            prototypes, phi = self._clustering(number, "prototypes"), self._clustering(number, "phi")
            if self.settings.form == "sampled":
                candidates, target = self._sample(target, count)
                prototypes, phi = prototypes[candidates], phi[candidates]
            losses.append(prototype_nce(q, prototypes, phi, target))
        return torch.stack(losses).mean()

    def _sample(self, assigned: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Of `count` prototypes those of the batch, assigned [B], each once, and `negatives` others -> (their numbers
        [n], place [B] of each image's prototype among them).
        """
        positive, target = assigned.unique(return_inverse=True)
        others = torch.ones(count, dtype=torch.bool, device=assigned.device)
        others[positive] = False
        others = others.nonzero().squeeze(1)
        drawn = others[torch.randperm(len(others), device=assigned.device)[: self.settings.negatives]]
        return torch.cat([positive, drawn]), target

    # ---- MoCo

    def query(self, x: Tensor) -> Tensor:
        """x [B, C, H, W] -> unit q [B, D]."""
        return F.normalize(self.head(self.backbone(x)).float(), dim=1)

    def key(self, x: Tensor) -> Tensor:
        """x [B, C, H, W] -> unit k [B, D], without gradient."""
        return F.normalize(self.keys(x).float(), dim=1)

    def after_step(self) -> None:
        self.keys.after_step(self.backbone, self.head)

    def inherited(self) -> None:
        self.keys.start_as(self.backbone, self.head)

    def statistics(self) -> dict[str, float]:
        if not self.ready:
            return {"occupied_prototypes": 0.0}
        shares = [
            len(self._clustering(number, "assigned").unique()) / count for number, count in enumerate(self.counts)
        ]
        return {"occupied_prototypes": sum(shares) / len(shares)}

    def chance(self, batch_size: int) -> dict[str, float]:
        return {"contrast": math.log(1 + self.settings.queue)}

    def features(self, x: Tensor) -> dict[str, Tensor]:
        h = self.backbone(x)
        return {"h": h, "z": F.normalize(self.head(h), dim=1)}


@full_precision
def prototype_nce(q: Tensor, prototypes: Tensor, phi: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy of q [B, D] with prototypes [K, D] over phi [K], targets [B]: the second term of eq. 11."""
    return F.cross_entropy(q @ prototypes.T / phi, target)


def concentration(distance: Tensor, assigned: Tensor, count: int, smoothing: float, temperature: float) -> Tensor:
    """phi [K] of clusters (eq. 12): mean distance of the members [N] from their raw centre over log(size + smoothing).

    In the released order: clusters of one member or none get the largest phi, values are clipped to the 10th and 90th
    percentiles, raised to LEAST_PHI of their mean (ours), then scaled so that their mean is the temperature.
    """
    sizes = torch.bincount(assigned, minlength=count)
    summed = torch.zeros(count, device=distance.device).index_add_(0, assigned, distance.float())
    phi = summed / sizes.clamp(min=1) / (sizes + smoothing).log()
    few = sizes <= 1
    if few.all():
        return torch.full_like(phi, temperature)
    phi[few] = phi[~few].max()
    low, high = phi.quantile(torch.tensor([0.1, 0.9], device=phi.device))
    phi = phi.clamp(low, high)
    phi = phi.maximum(LEAST_PHI * phi.mean())
    return temperature * phi / phi.mean().clamp(min=1e-12) if phi.mean() > 0 else torch.full_like(phi, temperature)


METHOD = PCL
