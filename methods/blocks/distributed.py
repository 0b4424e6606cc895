"""Gathers over processes. With one process every function here is the identity.

A loss over a whole batch sees the rows of all processes, so that R processes with B/R images each compute the loss, and
after averaging the gradients the update, of one process with B images.
"""

import torch
import torch.distributed as dist
from torch import Tensor


def world() -> int:
    """Number of processes."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Number of this process."""
    return dist.get_rank() if world() > 1 else 0


def gather(x: Tensor) -> Tensor:
    """Rows of all processes in rank order, [B, ...] -> [R*B, ...], equal B everywhere. Gradients flow to every rank.

    Backward sums what all processes ask of a row. Where every process computes the same whole loss that sum is R times
    the gradient, where each computes the share of its own rows it is the gradient times R as well (their losses are R
    times as large as shares): averaging parameter gradients over processes, as DDP does, makes both right.
    """
    return _Gather.apply(x) if world() > 1 else x


def gather_constant(x: Tensor) -> Tensor:
    """As `gather`, without gradient: for labels, indices, keys."""
    if world() == 1:
        return x
    parts = [torch.empty_like(x) for _ in range(world())]
    dist.all_gather(parts, x.contiguous())
    return torch.cat(parts)


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(context, x: Tensor) -> Tensor:
        return gather_constant(x)

    @staticmethod
    def backward(context, gradient: Tensor) -> Tensor:
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)
        return gradient.chunk(world())[rank()]
