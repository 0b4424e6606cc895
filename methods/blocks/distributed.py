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

    In the backward pass a row receives the sum of the gradients that the R processes have for it. Where every process
    computes the same loss of the whole batch, that is R times its gradient; where each computes the mean loss over its
    own rows as well, since such a mean divides by B instead of R*B. DDP then averages the parameters' gradients over
    processes, which makes both exact.
    """
    return _Gather.apply(x) if world() > 1 else x


def gather_constant(x: Tensor) -> Tensor:
    """As `gather`, without gradient: for labels, indices, keys."""
    if world() == 1:
        return x
    parts = [torch.empty_like(x) for _ in range(world())]
    dist.all_gather(parts, x.contiguous())
    return torch.cat(parts)


def own_share(x: Tensor) -> Tensor:
    """Of rows drawn alike in all processes for the images of all, [R*B, ...], those of this process: [B, ...]."""
    return x.chunk(world())[rank()]


def from_first(x: Tensor) -> Tensor:
    """x as process 0 has it, in place: for random work on the whole set, which must come out alike everywhere."""
    if world() > 1:
        dist.broadcast(x, 0)
    return x


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(context, x: Tensor) -> Tensor:
        return gather_constant(x)

    @staticmethod
    def backward(context, gradient: Tensor) -> Tensor:
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)
        return gradient.chunk(world())[rank()]
