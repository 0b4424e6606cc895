"""K-means of the whole training set that every process agrees on."""

import torch
from torch import Tensor

from methods.blocks.distributed import from_first, rank
from methods.blocks.kmeans import kmeans


@torch.no_grad()
def shared_kmeans(
    x: Tensor, clusters: int, restarts: int, iterations: int, seed: int, spherical: bool = False
) -> tuple[Tensor, Tensor]:
    """x [N, d], equal in all processes -> (centres [K, d], labels [N]): process 0 clusters, all get its result.

    Were each to cluster for itself, last bits of its products could send it to another clustering than the others.
    """
    centres = x.new_empty(clusters, x.shape[1])
    labels = torch.empty(len(x), dtype=torch.long, device=x.device)
    if rank() == 0:
        fitted = kmeans(x, clusters, restarts, max_iter=iterations, seed=seed % 2**31, spherical=spherical)
        centres.copy_(fitted.centres)
        labels.copy_(fitted.labels)
    return from_first(centres), from_first(labels)
