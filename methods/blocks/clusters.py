"""What clusters look like in a space: their means, the near members of each point, the order of their centres."""

import torch
import torch.nn.functional as F
from torch import Tensor

from methods.blocks.student_t import squared_distances

BLOCK = 1 << 24  # distances held at a time, in numbers


def cluster_means(z: Tensor, clusters: Tensor, before: Tensor) -> Tensor:
    """Mean of z [N, m] per cluster [C, m]; an empty one keeps its row of `before`."""
    members = F.one_hot(clusters, len(before)).to(z.dtype)
    counts = members.sum(0).unsqueeze(1)
    return torch.where(counts > 0, members.T @ z / counts.clamp(min=1), before)


def cluster_neighbours(z: Tensor, clusters: Tensor, count: int) -> Tensor:
    """The `count` nearest other members of each point's cluster, z [N, m] -> [N, count].

    Points of clusters with `count` or fewer members have none: -1.
    """
    near = torch.full((len(z), count), -1, dtype=torch.long, device=z.device)
    for cluster in clusters.unique():
        members = (clusters == cluster).nonzero().squeeze(1)
        if len(members) <= count:
            continue
        latents = z[members]
        step = max(1, BLOCK // len(members))
        for start in range(0, len(members), step):
            gaps = torch.cdist(latents[start : start + step], latents)
            place = torch.arange(len(gaps), device=z.device)
            gaps[place, start + place] = torch.inf  # not itself, also where other points equal it
            near[members[start : start + step]] = members[gaps.topk(count, dim=1, largest=False).indices]
    return near


def rank_agreement(first: Tensor, second: Tensor) -> Tensor:
    """Share of pairs of centres with the same distance rank in both spaces: first [C, d], second [C, m] -> scalar.

    DCRL's CRA. Each centre ranks all by distance, itself first; so the diagonal always agrees and chance is 2 / C.
    """
    tables = []
    for centres in (first.double(), second.double()):
        gaps = squared_distances(centres, centres).fill_diagonal_(-1)
        tables.append(gaps.argsort(dim=1, stable=True).argsort(dim=1))
    return (tables[0] == tables[1]).double().mean()
