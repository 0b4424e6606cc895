"""SwAV: each view predicts the balanced assignment of the other to prototypes.

Caron et al., "Unsupervised Learning of Visual Features by Contrasting Cluster Assignments" (arXiv 2006.09882), two
views, without multi-crop.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from methods.blocks.distributed import gather_constant, rank
from methods.blocks.heads import projection
from methods.blocks.sinkhorn import sinkhorn
from methods.method import Batch, Context, DataFacts, Method


class SwAV(Method):
    """z = nrm(g(f(x))), scores z C^T with unit prototypes C; swapped prediction of Sinkhorn's codes (eqs. 1 to 4)."""

    terms = ("swap",)

    def __init__(
        self,
        backbone: nn.Module,
        data: DataFacts,
        *,
        embedding: int,
        prototypes: int,
        temperature: float,
        epsilon: float,
        iterations: int,
        queue: int,
        queue_epoch: int,
        frozen_epochs: int,
    ):
        """`queue`: earlier embeddings of each view that also take part in the assignment, from epoch `queue_epoch` on
        (0: none). Prototypes do not learn in the first `frozen_epochs`.
        """
        super().__init__(backbone, data)
        self.head = projection(backbone.width, [backbone.width, embedding], batch_norm=False)
        self.prototypes = nn.Linear(embedding, prototypes, bias=False)
        self.temperature, self.epsilon, self.iterations = temperature, epsilon, iterations
        self.queue_epoch, self.frozen_epochs = queue_epoch, frozen_epochs
        self.register_buffer("queue", torch.zeros(2, queue, embedding))
        self.register_buffer("filled", torch.zeros((), dtype=torch.long))
        self.register_buffer("epoch", torch.zeros((), dtype=torch.long))
        self.register_buffer("dominant_counts", torch.zeros(prototypes, dtype=torch.long))
        self.fresh: Tensor | None = None

    def before_epoch(self, context: Context) -> None:
        self.epoch.fill_(context.epoch)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        z = [F.normalize(self.head(self.backbone(view)).float(), dim=1) for view in batch.views]
        c = F.normalize(self.prototypes.weight.float(), dim=1)
        if self.epoch < self.frozen_epochs:
            c = c.detach()
        scores = [part @ c.T for part in z]
        self.fresh = torch.stack([part.detach() for part in z])
        codes = [self.codes(view, scores[view].detach(), c.detach()) for view in (0, 1)]
        with torch.no_grad():
            self.dominant_counts += torch.bincount(codes[0].argmax(1), minlength=len(c))
        swapped = [-(codes[a] * (scores[1 - a] / self.temperature).log_softmax(1)).sum(1).mean() for a in (0, 1)]
        return {"swap": torch.stack(swapped).mean()}

    @torch.no_grad()
    def codes(self, view: int, scores: Tensor, prototypes: Tensor) -> Tensor:
        """Balanced assignment of this process's rows [B, K], with the queue of that view where it is in use."""
        every = gather_constant(scores)
        if self.filled and self.epoch >= self.queue_epoch:
            every = torch.cat([self.queue[view, : int(self.filled)] @ prototypes.T, every])
        own = len(every) - len(gather_constant(scores)) + rank() * len(scores)
        q = sinkhorn(every, self.epsilon, self.iterations, "log")
        return q[own : own + len(scores)]

    @torch.no_grad()
    def after_step(self) -> None:
        size = self.queue.shape[1]
        if not size:
            return
        fresh = torch.stack([gather_constant(part) for part in self.fresh])[:, -size:]
        self.queue.copy_(torch.cat([fresh, self.queue], dim=1)[:, :size])
        self.filled.copy_((self.filled + fresh.shape[1]).clamp(max=size))

    def statistics(self) -> dict[str, float]:
        occupied = float((self.dominant_counts > 0).sum())
        self.dominant_counts.zero_()
        return {"occupied_prototypes": occupied}

    def chance(self) -> dict[str, float]:
        return {"swap": math.log(len(self.dominant_counts))}

    def features(self, x: Tensor) -> dict[str, Tensor]:
        h = self.backbone(x)
        z = F.normalize(self.head(h), dim=1)
        p = (z @ F.normalize(self.prototypes.weight, dim=1).T / self.temperature).softmax(1)
        return {"h": h, "z": z, "p": p}


METHOD = SwAV
