"""Batches from memory: all images stay uint8 on the device, a batch is an index-select."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from methods.engine.seeds import derive
from rules.record import StageError


class Images:
    """The training images uint8 [N, C, H, W] on a device, and labels [N] only where a method asks for them."""

    def __init__(self, images: np.ndarray, labels: np.ndarray | None, device: torch.device):
        """`images` uint8 [N, H, W, C], may be memory-mapped; it is copied once, in slices, into its final layout."""
        count, height, width, channels = images.shape
        pixels = torch.empty(count, channels, height, width, dtype=torch.uint8, device=device)
        for start in range(0, count, 4096):
            part = torch.from_numpy(images[start : start + 4096].copy())
            pixels[start : start + 4096] = part.permute(0, 3, 1, 2).to(device)
        self.pixels = pixels
        self.labels = None if labels is None else torch.from_numpy(labels).to(device)

    def __len__(self) -> int:
        return len(self.pixels)


class Order:
    """The order of samples: a permutation of `rows` per epoch that depends on (seed, epoch) alone.

    With several processes each takes its share of every batch; a last partial batch is cut to a multiple of them.
    """

    def __init__(self, rows: int, batch_size: int, drop_last: bool, seed: int, rank: int = 0, world: int = 1):
        if batch_size % world:
            raise StageError(f"batch {batch_size} on {world} processes: the batch must be a multiple of the processes")
        if drop_last and rows < batch_size:
            raise StageError(
                f"N={rows} < batch {batch_size}: not one full batch; lower batch_size in the recipe or use more data"
            )
        self.rows, self.batch_size, self.seed, self.rank, self.world = rows, batch_size, seed, rank, world
        used = rows if not drop_last else rows - rows % batch_size
        self.used = used - used % world
        self.steps = -(-self.used // batch_size)

    def epoch(self, epoch: int, first_step: int = 0) -> Iterator[tuple[int, Tensor]]:
        """(step, this process's index [B / world]) from `first_step` on; indices are on the CPU."""
        generator = torch.Generator().manual_seed(derive(self.seed, "order", epoch))
        order = torch.randperm(self.rows, generator=generator)[: self.used]
        for step in range(first_step, self.steps):
            batch = order[step * self.batch_size : (step + 1) * self.batch_size]
            yield step, batch.chunk(self.world)[self.rank]
