"""The encoder that follows another by momentum: MoCo's key encoder (arXiv 1911.05722), BYOL's target network."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from methods.blocks.batch_norm import shuffled
from methods.blocks.momentum import Queue, follow, follower


class KeyEncoder(nn.Module):
    """A copy of the query network, theta_k <- m theta_k + (1 - m) theta_q after each step, with a queue of its outputs.

    The method that holds it keeps this order: in `losses` the keys of the step are computed (`forward`), compared with
    the `negatives` as earlier steps left them, and kept (`hold`); `after_step` moves the weights and only then writes
    the kept keys to the queue. The query network is handed in at each call, so it is registered once, in the method.

    `momentum` m. `shuffle`: in training the batch passes in a random order, so that with split batch norm a key shares
    its statistics with other images than its query does. `queue`: number of negatives kept, 0 for none; `parts`: widths
    of the pieces of a key that have unit length each. `copy_buffers`: batch-norm statistics are the query network's
    own, for an average that is evaluated; otherwise the key encoder has those of its own forward passes.
    """

    def __init__(
        self,
        backbone: nn.Module,
        head: nn.Module,
        momentum: float,
        *,
        shuffle: bool = False,
        queue: int = 0,
        parts: Sequence[int] = (),
        copy_buffers: bool = False,
    ):
        super().__init__()
        self.backbone, self.head = follower(backbone), follower(head)
        self.queue = Queue(queue, list(parts)) if queue else None
        self.momentum, self.shuffle, self.copy_buffers = momentum, shuffle, copy_buffers
        self.frozen = False
        self.held: Tensor | None = None  # keys of this step, [B, D]

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        """x [B, C, H, W] -> outputs of the head [B, D], rows in the order of x, without gradient."""
        # In eval mode nothing leaks through batch norm, and a frozen backbone is in eval mode for good.
        if not self.shuffle or self.frozen or not self.training:
            return self.head(self.backbone(x))
        x, back = shuffled(x)
        return self.head(self.backbone(x))[back]

    @property
    def negatives(self) -> Tensor:
        """The queue, [size, D]."""
        return self.queue.keys

    def hold(self, keys: Tensor) -> None:
        """Keep this step's keys [B, D] for the queue until `after_step`."""
        self.held = keys

    @torch.no_grad()
    def after_step(self, backbone: nn.Module, head: nn.Module, momentum: float | None = None) -> None:
        """Follow the query network (by another `momentum` where given), then write the kept keys to the queue."""
        for copy, query in ((self.backbone, backbone), (self.head, head)):
            if self.frozen and copy is self.backbone:
                continue
            follow(copy, query, self.momentum if momentum is None else momentum)
            if self.copy_buffers:
                for buffer, current in zip(copy.buffers(), query.buffers(), strict=True):
                    buffer.copy_(current)
        if self.queue is not None:
            self.queue.write(self.held)

    def start_as(self, backbone: nn.Module, head: nn.Module) -> None:
        """Become the query network as it is now: what `inherited` asks for after weights were loaded."""
        self.backbone.load_state_dict(backbone.state_dict())
        self.head.load_state_dict(head.state_dict())

    def freeze_backbone(self) -> None:
        """The query's backbone is frozen, so the copy stays equal to it, in eval mode."""
        self.frozen = True
        self.train(self.training)

    def train(self, mode: bool = True) -> "KeyEncoder":
        super().train(mode)
        if self.frozen:
            self.backbone.eval()
        return self
