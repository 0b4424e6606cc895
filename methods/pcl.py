"""PCL: MoCo whose embedding is also drawn to prototypes, clusters of the whole training set at several granularities.

Li et al., "Prototypical Contrastive Learning of Unsupervised Representations" (arXiv 2005.04966). Before each epoch the
E-step clusters the key encoder's features; during the epoch the M-step minimises ProtoNCE (eq. 11): InfoNCE, and for
each granularity a cross-entropy of the query with the prototype of its cluster, each prototype with its concentration
phi in place of a temperature.
"""

from typing import Any, Literal

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from methods.blocks.distributed import gather_constant, rank, world
from methods.blocks.kmeans import kmeans
from methods.blocks.precision import full_precision
from methods.method import Batch, Context, DataFacts
from methods.moco import MoCo


class PCL(MoCo):
    """InfoNCE + the mean over granularities of the prototype term (eq. 11); v1 and v2 differ in the recipe."""

    terms = ("contrast", "prototypes")

    def __init__(
        self,
        backbone: nn.Module,
        data: DataFacts,
        *,
        clusters: list,
        warmup_epochs: int,
        smoothing: float,
        iterations: int,
        restarts: int,
        form: Literal["full", "sampled"],
        negatives: int,
        **moco: Any,
    ):
        """`clusters`: numbers of prototypes, those below 1 as shares of the training rows. `warmup_epochs` of InfoNCE
        alone come first. `smoothing` is the alpha of phi. `form`: all prototypes as candidates, or the batch's own and
        `negatives` others.
        """
        super().__init__(backbone, data, **moco)
        self.counts = [count if count >= 1 else max(2, round(count * data.rows)) for count in clusters]
        self.warmup, self.smoothing, self.iterations, self.restarts = warmup_epochs, smoothing, iterations, restarts
        self.form, self.negatives = form, negatives
        for number, count in enumerate(self.counts):
            if count > data.rows:
                raise ValueError(f"{count} prototypes asked of {data.rows} training rows")
            self.register_buffer(f"prototypes{number}", torch.zeros(count, self.queue.keys.shape[1]))
            self.register_buffer(f"phi{number}", torch.ones(count))
            self.register_buffer(f"assigned{number}", torch.zeros(data.rows, dtype=torch.long))
        self.register_buffer("ready", torch.zeros((), dtype=torch.bool))

    # ---- E-step

    @torch.no_grad()
    def before_epoch(self, context: Context) -> None:
        if context.epoch < self.warmup:
            return
        features = self._features_of_all(context)
        for number, count in enumerate(self.counts):
            if rank() == 0:
                seed = context.seed("prototypes", number) % 2**31
                fitted = kmeans(features, count, self.restarts, max_iter=self.iterations, seed=seed)
                distance = (features - fitted.centres[fitted.labels]).norm(dim=1)
                self._of(number, "assigned").copy_(fitted.labels)
                self._of(number, "phi").copy_(
                    concentration(distance, fitted.labels, count, self.smoothing, self.temperature)
                )
                self._of(number, "prototypes").copy_(F.normalize(fitted.centres, dim=1))
            if world() > 1:
                for name in ("assigned", "phi", "prototypes"):
                    dist.broadcast(self._of(number, name), 0)
        self.ready.fill_(True)

    def _features_of_all(self, context: Context) -> Tensor:
        """Unit features of the key encoder in eval mode, [N, D]; each process embeds every R-th row."""
        mode = self.training
        self.eval()
        own = torch.arange(rank(), context.rows, world(), device=context.device)
        own = F.pad(own, (0, -(-context.rows // world()) - len(own)))  # equal shares; what pads is cut off again
        parts = [
            F.normalize(self.key_head(self.key_backbone(context.clean(part))).float(), dim=1)
            for part in own.split(1024)
        ]
        self.train(mode)
        shares = gather_constant(torch.cat(parts)).view(world(), len(own), -1)
        return shares.transpose(0, 1).flatten(0, 1)[: context.rows]

    def _of(self, number: int, name: str) -> Tensor:
        return getattr(self, f"{name}{number}")

    # ---- M-step

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        q = self.query(batch.views[0])
        terms = {"contrast": self.contrast(batch, q)}
        if self.ready:
            each = []
            for number in range(len(self.counts)):
                own = self._of(number, "assigned")[batch.index]
                candidates, target = own.new_tensor(range(self.counts[number])), own
                if self.form == "sampled":
                    candidates, target = self._sample(own, self.counts[number])
                prototypes, phi = self._of(number, "prototypes")[candidates], self._of(number, "phi")[candidates]
                each.append(prototype_nce(q, prototypes, phi, target))
            terms["prototypes"] = torch.stack(each).mean()
        return terms

    def _sample(self, own: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """The batch's own prototypes, each once, and `negatives` of the others; targets by their place in that list."""
        positive, target = own.unique(return_inverse=True)
        others = torch.ones(count, dtype=torch.bool, device=own.device)
        others[positive] = False
        others = others.nonzero().squeeze(1)
        drawn = others[torch.randperm(len(others), device=own.device)[: self.negatives]]
        return torch.cat([positive, drawn]), target

    def statistics(self) -> dict[str, float]:
        if not self.ready:
            return {"occupied_prototypes": 0.0}
        occupied = [len(self._of(number, "assigned").unique()) / count for number, count in enumerate(self.counts)]
        return {"occupied_prototypes": sum(occupied) / len(occupied)}


@full_precision
def prototype_nce(q: Tensor, prototypes: Tensor, phi: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy of q [B, D] with prototypes [K, D] over phi [K], targets [B]: the second term of eq. 11."""
    return F.cross_entropy(q @ prototypes.T / phi, target)


def concentration(distance: Tensor, assigned: Tensor, count: int, smoothing: float, temperature: float) -> Tensor:
    """phi [K] of clusters (eq. 12): mean distance of the members [N] from their raw centre over log(size + smoothing).

    In the released order: clusters of one member or none get the largest phi, values are clipped to the 10th and 90th
    percentiles, then scaled so that their mean is the temperature.
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
    return temperature * phi / phi.mean().clamp(min=1e-12) if phi.mean() > 0 else torch.full_like(phi, temperature)


METHOD = PCL
