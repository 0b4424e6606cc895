"""What key encoders are made of: momentum updates, and the queue of keys (MoCo, arXiv 1911.05722)."""

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from methods.blocks.distributed import gather_constant


def follower(module: nn.Module) -> nn.Module:
    """A copy of `module` that takes no gradient: the key encoder at the start."""
    copied = copy.deepcopy(module)
    return copied.requires_grad_(False)


@torch.no_grad()
def follow(key: nn.Module, query: nn.Module, momentum: float) -> None:
    """theta_k <- m theta_k + (1 - m) theta_q for all parameters; buffers (batch-norm statistics) stay the key's own."""
    for theta_k, theta_q in zip(key.parameters(), query.parameters(), strict=True):
        theta_k.lerp_(theta_q, 1 - momentum)


class Queue(nn.Module):
    """The last `size` keys [size, D], oldest overwritten first. `parts`: widths of the pieces of a key, each of unit
    length, as it is at the start when the queue is full of random keys.
    """

    def __init__(self, size: int, parts: list[int]):
        super().__init__()
        pieces = [F.normalize(torch.randn(size, width), dim=1) for width in parts]
        self.register_buffer("keys", torch.cat(pieces, dim=1))
        self.register_buffer("place", torch.zeros((), dtype=torch.long))

    @torch.no_grad()
    def write(self, keys: Tensor) -> None:
        """Enqueue keys [B, D] of this process, and those of all others."""
        keys = gather_constant(keys.to(self.keys.dtype))[-len(self.keys) :]
        index = (self.place + torch.arange(len(keys), device=keys.device)) % len(self.keys)
        self.keys[index] = keys
        self.place.copy_((self.place + len(keys)) % len(self.keys))
