"""How many clusters are in use: the statistic that shows a collapse while training goes on."""

import torch
from torch import Tensor, nn

from methods.blocks.distributed import gather_constant


class Occupancy(nn.Module):
    """Counts of images per cluster since the last `take`, over the rows of all processes; a buffer, so runs resume."""

    def __init__(self, clusters: int):
        super().__init__()
        self.register_buffer("counts", torch.zeros(clusters, dtype=torch.long))

    @torch.no_grad()
    def add(self, clusters: Tensor) -> None:
        """Count the clusters [B] of this process's rows, and those of all others. Does not wait for the device."""
        clusters = gather_constant(clusters)
        self.counts.index_add_(0, clusters, torch.ones_like(clusters))

    def take(self) -> tuple[int, float]:
        """(number of clusters with at least one image, share of the largest); counting starts anew."""
        counts = self.counts.tolist()
        self.counts.zero_()
        return sum(count > 0 for count in counts), max(counts) / max(sum(counts), 1)
