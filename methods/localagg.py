"""LocalAgg: an image moves to those near neighbours that clusterings of the memory bank put beside it.

Zhuang, Zhai, Yamins, "Local Aggregation for Unsupervised Learning of Visual Embeddings" (ICCV 2019, arXiv 1903.12355).
The bank is first filled by telling images apart (InstDisc); then it is clustered anew before each epoch.
"""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from methods.blocks.distributed import gather_constant
from methods.blocks.heads import projection
from methods.blocks.memory_bank import Instances, MemoryBank
from methods.blocks.precision import full_precision
from methods.blocks.shared_kmeans import shared_kmeans
from methods.method import Batch, Context, DataFacts, Method

EPSILON = 1e-7  # beside the probability, as released


@dataclass(frozen=True)
class Settings:
    embedding: int  # D, width of z
    temperature: float  # tau
    bank_momentum: float  # m of the bank
    warmup_epochs: int  # of telling images apart alone, first
    form: Literal["softmax", "nce"]  # of the warm-up, as InstDisc
    negatives: int | None  # rows drawn for each image in the warm-up; null: all rows of the bank
    constant: float  # of the normaliser Z of `nce`
    background: float  # k, nearest rows of the bank; below 1 a share of the training rows
    clusters: float  # K of each clustering; below 1 a share of the training rows
    clusterings: int  # H
    iterations: int  # of the K-means


class LocalAgg(Method):
    """z = nrm(g(f(x))); -log P(close and background | z) / P(background | z), with P from the bank (eqs. 1, 3 and 4).

    The background of an image are the rows of the bank nearest to z, its close rows those that share its cluster in one
    clustering or more. A collapse shows as a loss of 0: `close_share` of the history, the share of the background that
    is close, is then 1.
    """

    terms = ("instance", "aggregation")
    views = 1

    def __init__(self, backbone: nn.Module, data: DataFacts, settings: Settings):
        super().__init__(backbone, data, settings)
        self.head = projection(backbone.width, [settings.embedding], batch_norm=False)
        self.bank = MemoryBank(data.rows, settings.embedding, settings.bank_momentum)
        self.instances = Instances(settings.form, settings.temperature, settings.constant)
        self.count = rows_of("clusters", settings.clusters, data.rows)
        self.background = rows_of("background", settings.background, data.rows)
        self.register_buffer("assigned", torch.zeros(settings.clusterings, data.rows, dtype=torch.long))
        self.register_buffer("ready", torch.zeros((), dtype=torch.bool))
        self.register_buffer("close", torch.zeros(2))  # of this epoch's images: close rows of their background, and all

    @torch.no_grad()
    def before_epoch(self, context: Context) -> None:
        if context.epoch < self.settings.warmup_epochs:
            return
        for number, assigned in enumerate(self.assigned):
            seed = context.seed("clusters", number)
            assigned.copy_(shared_kmeans(self.bank.vectors, self.count, 1, self.settings.iterations, seed)[1])
        self.ready.fill_(True)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        z = self.embed(batch.views[0])
        self.bank.hold(batch.index, z)
        if not self.ready:
            others = self.bank.draw(len(z), self.settings.negatives)
            return {"instance": self.instances(z, self.bank.vectors, batch.index, others)}
        similarities, close = neighbours(z, self.bank.vectors, batch.index, self.assigned, self.background)
        share = gather_constant(close.float().mean().unsqueeze(0)).mean()
        self.close += torch.stack([share, torch.ones_like(share)])
        return {"aggregation": aggregation(similarities, close, self.settings.temperature).mean()}

    def embed(self, x: Tensor) -> Tensor:
        """x [B, C, H, W] -> unit z [B, D]."""
        return F.normalize(self.head(self.backbone(x)).float(), dim=1)

    def after_step(self) -> None:
        self.bank.after_step()

    def statistics(self) -> dict[str, float]:
        share, steps = self.close.tolist()
        self.close.zero_()
        if not steps:
            return {}
        occupied = sum(len(labels.unique()) for labels in self.assigned) / len(self.assigned)
        return {"close_share": share / steps, "occupied_clusters": occupied}

    def chance(self, batch_size: int) -> dict[str, float]:
        """Of the warm-up. Aggregation has none: what has collapsed is wholly close, and its loss 0."""
        if self.ready:
            return {}
        value = self.instances.chance(self.data.rows, self.settings.negatives)
        return {} if value is None else {"instance": value}

    def features(self, x: Tensor) -> dict[str, Tensor]:
        h = self.backbone(x)
        return {"h": h, "z": F.normalize(self.head(h), dim=1)}


def rows_of(key: str, asked: float, rows: int) -> int:
    """A number of rows, or a share of them, at least 2. Raises ValueError for more than there are."""
    count = int(asked) if asked >= 1 else max(2, round(asked * rows))
    if count > rows:
        raise ValueError(f"{key}: {count} asked of {rows} training rows")
    return count


@full_precision
def neighbours(z: Tensor, vectors: Tensor, index: Tensor, assigned: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Similarities [B, k] of z [B, D] to its k = `count` nearest rows of the bank [N, D], and which of them are close.

    assigned [H, N]: clusters of the rows; a row is close to row i = index [B] where they share one.
    """
    similarities, rows = (z @ vectors.detach().to(z).T).topk(count, dim=1)
    close = (assigned[:, rows] == assigned[:, index].unsqueeze(2)).any(0)
    return similarities, close


@full_precision
def aggregation(similarities: Tensor, close: Tensor, temperature: float) -> Tensor:
    """-log of the share that close rows have in the sum of exp(s / tau) over the background, both [B, k] -> [B]."""
    largest = similarities.detach().amax(1, keepdim=True)
    weights = ((similarities - largest) / temperature).exp()
    return -((weights * close).sum(1) / weights.sum(1) + EPSILON).log()


METHOD = LocalAgg
