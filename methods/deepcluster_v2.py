"""DeepCluster-v2: predict the clusters that spherical K-means found in the embeddings of the epoch before.

Caron et al., "Unsupervised Learning of Visual Features by Contrasting Cluster Assignments" (arXiv 2006.09882);
two views, without multi-crop. Embeddings are kept as training sees them, one view of each image; before each epoch they
are clustered once per head, and the unit centres take the place of that head's weights.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from methods.blocks.distributed import gather_constant
from methods.blocks.heads import projection
from methods.blocks.precision import full_precision
from methods.blocks.shared_kmeans import shared_kmeans
from methods.method import Batch, Context, DataFacts, Method


@dataclass(frozen=True)
class Settings:
    embedding: int  # D, width of z
    clusters: int  # K of each clustering
    heads: int  # independent clusterings
    temperature: float  # tau
    iterations: int  # of the K-means
    restarts: int  # of the K-means


class DeepClusterV2(Method):
    """z = nrm(g(f(x))); cross-entropy of z C_h^T / tau with the clusters of the bank, mean over heads and views."""

    terms = ("assignment",)

    def __init__(self, backbone: nn.Module, data: DataFacts, settings: Settings):
        super().__init__(backbone, data, settings)
        heads, clusters, embedding = settings.heads, settings.clusters, settings.embedding
        if clusters > data.rows:
            raise ValueError(f"{clusters} clusters asked of {data.rows} training rows")
        self.head = projection(backbone.width, [backbone.width, embedding], batch_norm=False)
        self.register_buffer("centres", torch.zeros(heads, clusters, embedding))
        self.register_buffer("assigned", torch.zeros(heads, data.rows, dtype=torch.long))
        self.register_buffer("bank", torch.zeros(data.rows, embedding))

    @torch.no_grad()
    def before_epoch(self, context: Context) -> None:
        if context.epoch == 0:  # nothing has passed in training yet: clean images stand in
            self.eval()
            self.bank.copy_(torch.cat([self.embed(x) for x in context.chunks(1024)]))
            self.train()
        settings = self.settings
        for number in range(settings.heads):
            seed = context.seed("clusters", number)
            centres, assigned = shared_kmeans(
                self.bank, settings.clusters, settings.restarts, settings.iterations, seed, spherical=True
            )
            self.centres[number].copy_(centres)
            self.assigned[number].copy_(assigned)

    def embed(self, x: Tensor) -> Tensor:
        """x [B, C, H, W] -> unit z [B, D]."""
        return F.normalize(self.head(self.backbone(x)).float(), dim=1)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        z = [self.embed(view) for view in batch.views]
        with torch.no_grad():
            self.bank[gather_constant(batch.index)] = gather_constant(z[0].detach())
        losses = [
            assignment_loss(view, centres, labels[batch.index], self.settings.temperature)
            for view in z
            for centres, labels in zip(self.centres, self.assigned, strict=True)
        ]
        return {"assignment": torch.stack(losses).mean()}

    def statistics(self) -> dict[str, float]:
        return {"occupied_clusters": sum(len(labels.unique()) for labels in self.assigned) / len(self.assigned)}

    def chance(self, batch_size: int) -> dict[str, float]:
        return {"assignment": math.log(self.settings.clusters)}

    def features(self, x: Tensor) -> dict[str, Tensor]:
        h = self.backbone(x)
        return {"h": h, "z": F.normalize(self.head(h), dim=1)}


@full_precision
def assignment_loss(z: Tensor, centres: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """Cross-entropy of z [B, D] with unit centres [K, D] as classes, over the temperature; labels [B]."""
    return F.cross_entropy(z @ centres.T / temperature, labels)


METHOD = DeepClusterV2
