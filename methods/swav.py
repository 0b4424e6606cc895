"""SwAV: each view predicts the balanced assignment of the other to prototypes.

Caron et al., "Unsupervised Learning of Visual Features by Contrasting Cluster Assignments" (arXiv 2006.09882), two
views, without multi-crop.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from methods.blocks.distributed import gather_constant, rank
from methods.blocks.heads import projection
from methods.blocks.occupancy import Occupancy
from methods.blocks.precision import full_precision
from methods.blocks.sinkhorn import sinkhorn
from methods.method import Batch, Context, DataFacts, Method


@dataclass(frozen=True)
class Settings:
    embedding: int  # D, width of z
    prototypes: int  # K
    temperature: float  # tau of the prediction
    epsilon: float  # entropic regularisation of the codes (eq. 3)
    iterations: int  # of Sinkhorn
    queue: int  # earlier embeddings of each view that also take part in the assignment; 0: none
    queue_epoch: int  # first epoch that uses them, from 0
    frozen_epochs: int  # epochs at the start in which prototypes do not learn


class SwAV(Method):
    """z = nrm(g(f(x))), scores z C^T with unit prototypes C; swapped prediction of Sinkhorn's codes (eqs. 1 to 4)."""

    terms = ("swap",)

    def __init__(self, backbone: nn.Module, data: DataFacts, settings: Settings):
        super().__init__(backbone, data, settings)
        embedding = settings.embedding
        self.head = projection(backbone.width, [backbone.width, embedding], batch_norm=False)
        self.prototypes = nn.Linear(embedding, settings.prototypes, bias=False)
        self.register_buffer("queue", torch.zeros(2, settings.queue, embedding))
        self.register_buffer("filled", torch.zeros((), dtype=torch.long))
        self.register_buffer("epoch", torch.zeros((), dtype=torch.long))
        self.occupancy = Occupancy(settings.prototypes)
        self.held: Tensor | None = None  # embeddings of this step [2, B, D], until they enter the queue

    def before_epoch(self, context: Context) -> None:
        self.epoch.fill_(context.epoch)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        z = [F.normalize(self.head(self.backbone(view)).float(), dim=1) for view in batch.views]
        c = F.normalize(self.prototypes.weight.float(), dim=1)
        if self.epoch < self.settings.frozen_epochs:
            c = c.detach()
        scores = [similarities(part, c) for part in z]
        self.held = torch.stack([part.detach() for part in z])
        codes = [self.codes(view, scores[view].detach(), c.detach()) for view in (0, 1)]
        self.occupancy.add(codes[0].argmax(1))
        tau = self.settings.temperature
        swapped = [swapped_prediction(codes[a], scores[1 - a], tau) for a in (0, 1)]
        return {"swap": torch.stack(swapped).mean()}

    @torch.no_grad()
    def codes(self, view: int, scores: Tensor, prototypes: Tensor) -> Tensor:
        """Balanced assignment of this process's rows [B, K], with the queue of that view where it is in use."""
        assigned = gather_constant(scores)
        first = rank() * len(scores)  # of this process's rows among those assigned
        if self.filled and self.epoch >= self.settings.queue_epoch:
            queued = similarities(self.queue[view, : int(self.filled)], prototypes)
            assigned, first = torch.cat([queued, assigned]), first + len(queued)
        q = sinkhorn(assigned, self.settings.epsilon, self.settings.iterations, "log")
        return q[first : first + len(scores)]

    @torch.no_grad()
    def after_step(self) -> None:
        size = self.queue.shape[1]
        if not size:
            return
        new = torch.stack([gather_constant(z) for z in self.held])[:, -size:]
        self.queue.copy_(torch.cat([new, self.queue], dim=1)[:, :size])
        self.filled.copy_((self.filled + new.shape[1]).clamp(max=size))

    def statistics(self) -> dict[str, float]:
        return {"occupied_prototypes": float(self.occupancy.take()[0])}

    def chance(self, batch_size: int) -> dict[str, float]:
        return {"swap": math.log(self.settings.prototypes)}

    def features(self, x: Tensor) -> dict[str, Tensor]:
        h = self.backbone(x)
        z = F.normalize(self.head(h), dim=1)
        p = (z @ F.normalize(self.prototypes.weight, dim=1).T / self.settings.temperature).softmax(1)
        return {"h": h, "z": z, "p": p}


@full_precision
def similarities(z: Tensor, prototypes: Tensor) -> Tensor:
    """z [B, D], prototypes [K, D], both of unit length -> cosines [B, K]."""
    return z @ prototypes.T


@full_precision
def swapped_prediction(codes: Tensor, scores: Tensor, temperature: float) -> Tensor:
    """Cross-entropy of softmax(scores / tau) of one view with the other view's codes, both [B, K] (eq. 2)."""
    return -(codes * (scores / temperature).log_softmax(1)).sum(1).mean()


METHOD = SwAV
