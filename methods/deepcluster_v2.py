"""DeepCluster-v2: predict the clusters that spherical K-means found in the embeddings of the epoch before.

Caron et al., "Unsupervised Learning of Visual Features by Contrasting Cluster Assignments" (arXiv 2006.09882);
two views, without multi-crop. Embeddings are kept as training sees them, one view of each image; before each epoch they
are clustered once per head, and the unit centres take the place of that head's weights.
"""

import math

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from methods.blocks.distributed import gather_constant, rank, world
from methods.blocks.heads import projection
from methods.blocks.kmeans import kmeans
from methods.blocks.precision import full_precision
from methods.method import Batch, Context, DataFacts, Method


class DeepClusterV2(Method):
    """z = nrm(g(f(x))); cross-entropy of z C_h^T / tau with the clusters of the bank, mean over heads and views."""

    terms = ("assignment",)

    def __init__(
        self,
        backbone: nn.Module,
        data: DataFacts,
        *,
        embedding: int,
        clusters: int,
        heads: int,
        temperature: float,
        iterations: int,
        restarts: int,
    ):
        """`heads` independent clusterings of `clusters` each. `iterations`, `restarts`: of the K-means."""
        super().__init__(backbone, data)
        if clusters > data.rows:
            raise ValueError(f"{clusters} clusters asked of {data.rows} training rows")
        self.head = projection(backbone.width, [backbone.width, embedding], batch_norm=False)
        self.temperature, self.iterations, self.restarts = temperature, iterations, restarts
        self.register_buffer("centres", torch.zeros(heads, clusters, embedding))
        self.register_buffer("assigned", torch.zeros(heads, data.rows, dtype=torch.long))
        self.register_buffer("bank", torch.zeros(data.rows, embedding))

    @torch.no_grad()
    def before_epoch(self, context: Context) -> None:
        if context.epoch == 0:  # nothing has passed in training yet: clean images stand in
            self.eval()
            self.bank.copy_(torch.cat([self.embed(x) for x in context.chunks(1024)]))
            self.train()
        for number in range(len(self.centres)):
            if rank() == 0:
                seed = context.seed("clusters", number) % 2**31
                count = self.centres.shape[1]
                fitted = kmeans(self.bank, count, self.restarts, max_iter=self.iterations, spherical=True, seed=seed)
                self.centres[number].copy_(fitted.centres)
                self.assigned[number].copy_(fitted.labels)
        if world() > 1:
            for buffer in (self.centres, self.assigned):
                dist.broadcast(buffer, 0)

    def embed(self, x: Tensor) -> Tensor:
        """x [B, C, H, W] -> unit z [B, D]."""
        return F.normalize(self.head(self.backbone(x)).float(), dim=1)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        z = [self.embed(view) for view in batch.views]
        with torch.no_grad():
            self.bank[gather_constant(batch.index)] = gather_constant(z[0].detach())
        each = [
            assignment_loss(view, centres, labels[batch.index], self.temperature)
            for view in z
            for centres, labels in zip(self.centres, self.assigned, strict=True)
        ]
        return {"assignment": torch.stack(each).mean()}

    def statistics(self) -> dict[str, float]:
        return {"occupied_clusters": sum(len(own.unique()) for own in self.assigned) / len(self.assigned)}

    def chance(self) -> dict[str, float]:
        return {"assignment": math.log(self.centres.shape[1])}

    def features(self, x: Tensor) -> dict[str, Tensor]:
        h = self.backbone(x)
        return {"h": h, "z": F.normalize(self.head(h), dim=1)}


@full_precision
def assignment_loss(z: Tensor, centres: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """Cross-entropy of z [B, D] with unit centres [K, D] as classes, over the temperature; labels [B]."""
    return F.cross_entropy(z @ centres.T / temperature, labels)


METHOD = DeepClusterV2
