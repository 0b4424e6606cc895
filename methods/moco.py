"""MoCo: contrast of a query with its key and a queue of keys from an encoder that follows by momentum.

He et al., "Momentum Contrast for Unsupervised Visual Representation Learning" (arXiv 1911.05722), and v2, Chen et al.
(arXiv 2003.04297). v1 and v2 differ in head, augmentation and temperature: the recipe's matter.
"""

import math

import torch.nn.functional as F
from torch import Tensor, nn, no_grad

from methods.blocks.batch_norm import shuffled
from methods.blocks.contrast import info_nce
from methods.blocks.heads import projection
from methods.blocks.momentum import Queue, follow, follower
from methods.method import Batch, DataFacts, Method


class MoCo(Method):
    """q = g(f(x_q)), k = g'(f'(x_k)) of unit length; InfoNCE of q with k and the queue (eq. 1)."""

    terms = ("contrast",)

    def __init__(
        self,
        backbone: nn.Module,
        data: DataFacts,
        *,
        embedding: int,
        layers: int,
        queue: int,
        momentum: float,
        temperature: float,
        symmetric: bool,
        shuffle: bool,
    ):
        """`layers` of the head: 1 (v1) or 2 (v2). `symmetric`: both views serve as queries, and the queue still gets
        one batch of keys a step. `shuffle`: keys pass the network in another order, against leaks through batch norm.
        """
        super().__init__(backbone, data)
        self.head = projection(backbone.width, [backbone.width] * (layers - 1) + [embedding], batch_norm=False)
        self.temperature, self.symmetric = temperature, symmetric
        self.start_keys(queue, [embedding], momentum, shuffle)

    def start_keys(self, queue: int, parts: list[int], momentum: float, shuffle: bool) -> None:
        """Key encoder and queue; `parts`: widths of the pieces of a key that have unit length each."""
        self.key_backbone, self.key_head = follower(self.backbone), follower(self.head)
        self.queue = Queue(queue, parts)
        self.momentum, self.shuffle = momentum, shuffle
        self.fresh: Tensor | None = None  # keys of this step; they enter the queue after it has been read

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        return {"contrast": self.contrast(batch, self.query(batch.views[0]))}

    def contrast(self, batch: Batch, q: Tensor) -> Tensor:
        """InfoNCE of q [B, D], the first view's queries, with the second view's keys; symmetric: and the other way."""
        x_q, x_k = batch.views
        k = self.key(x_k)
        loss = info_nce(q, k, self.queue.keys, self.temperature)
        if self.symmetric:
            loss = (loss + info_nce(self.query(x_k), self.key(x_q), self.queue.keys, self.temperature)) / 2
        self.fresh = k
        return loss

    def query(self, x: Tensor) -> Tensor:
        """x [B, C, H, W] -> unit q [B, D]."""
        return F.normalize(self.head(self.backbone(x)).float(), dim=1)

    @no_grad()
    def key(self, x: Tensor) -> Tensor:
        """x [B, C, H, W] -> unit k [B, D], without gradient."""
        return F.normalize(self.key_outputs(x).float(), dim=1)

    @no_grad()
    def key_outputs(self, x: Tensor) -> Tensor:
        """Outputs of the key head, the batch shuffled on the way where asked."""
        if self.frozen:  # one backbone for both; in eval mode nothing leaks through it
            return self.key_head(self.backbone(x))
        if not self.shuffle:
            return self.key_head(self.key_backbone(x))
        x, back = shuffled(x)
        return self.key_head(self.key_backbone(x))[back]

    def after_step(self) -> None:
        """Key encoder and queue move on: the momentum update before the next key is the one after this step."""
        if not self.frozen:
            follow(self.key_backbone, self.backbone, self.momentum)
        follow(self.key_head, self.head, self.momentum)
        self.queue.write(self.fresh)

    def inherited(self) -> None:
        """The key encoder starts as the query encoder, whatever that was loaded with."""
        self.key_backbone.load_state_dict(self.backbone.state_dict())

    def chance(self) -> dict[str, float]:
        return {"contrast": math.log(1 + len(self.queue.keys))}

    def features(self, x: Tensor) -> dict[str, Tensor]:
        h = self.backbone(x)
        return {"h": h, "z": F.normalize(self.head(h), dim=1)}


METHOD = MoCo
