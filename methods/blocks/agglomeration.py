"""Agglomerative clusters of a whole set: affinities of a nearest-neighbour graph, merged from many clusters to few.

Graph degree linkage (Zhang et al., "Graph Degree Linkage", ECCV 2012) as JULE uses it (Yang, Parikh, Batra, CVPR 2016,
sec. 3.2 and 3.4). Everything is in float64 on the CPU and depends on the rows alone: no random number is drawn.

**Memory.** With N rows and n initial clusters (n <= N / 2): two n x n matrices and one more while they are made, so
at most 24 (N / 2)^2 bytes, 0.6 GB for 10,000 rows; distances come in blocks of rows.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from methods.blocks.distributed import from_first, rank

BLOCK = 1 << 24  # distances computed at a time, in numbers
FLOOR = 1e-12  # of the mean squared distance: rows that are all equal are as near as can be, not NaN


@dataclass(frozen=True)
class Linkage:
    """How clusters are merged."""

    neighbours: int  # K_s, nearest other rows that each row has an affinity to
    partners: int  # K_c, best partners of a cluster that the criterion compares
    plain_below: int  # with at most so many clusters the largest affinity alone decides
    update: Literal["fast", "exact"]  # affinities of a merged cluster: added, or computed from its rows
    absorbed_above: int  # with more than so many clusters those without affinity join the nearest first
    alone: Literal["either", "both"]  # what is without affinity: in one of the two directions, or in both


def nearest(x: Tensor, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Squared distances [N, k] and rows [N, k] of the k nearest others of each row of x [N, d], nearest first.

    k is `count`, or N - 1 where there are no more.
    """
    x = x.detach().double().cpu()
    x = x - x.mean(0)  # distances stay, rounding shrinks
    squares, count = x.square().sum(1), min(count, len(x) - 1)
    distances, rows = [], []
    for part in torch.arange(len(x)).split(max(1, BLOCK // len(x))):
        d = (squares[part].unsqueeze(1) + squares - 2 * x[part] @ x.T).clamp(min=0)
        d[torch.arange(len(part)), part] = torch.inf
        found = d.topk(count, largest=False)
        distances.append(found.values)
        rows.append(found.indices)
    return torch.cat(distances).numpy(), torch.cat(rows).numpy()


def chains(x: Tensor) -> np.ndarray:
    """Initial clusters [N] of x [N, d], numbered from 0: rows that nearest neighbours lead to belong together."""
    if len(x) < 2:
        return np.zeros(len(x), dtype=np.int64)
    next_row = nearest(x, 1)[1][:, 0]
    graph = csr_array((np.ones(len(x)), (np.arange(len(x)), next_row)), shape=(len(x), len(x)))
    return connected_components(graph, directed=False)[1].astype(np.int64)


def affinity(x: Tensor, neighbours: int) -> csr_array:
    """W [N, N], directed: exp(-d_ij / sigma^2) for the K_s nearest others j of i, else 0.

    d is the squared distance, sigma^2 the mean of those N K_s distances.
    """
    distances, rows = nearest(x, neighbours)
    values = np.exp(-distances / max(float(distances.mean()), FLOOR))
    starts = np.repeat(np.arange(len(x)), rows.shape[1])
    return csr_array((values.ravel(), (starts, rows.ravel())), shape=(len(x), len(x)))


def directed(w: csr_array, labels: np.ndarray) -> np.ndarray:
    """A(i -> j) = sum over rows m of i of (sum_{n in j} W_nm) (sum_{n in j} W_mn): [n, n] for labels [N] < n."""
    count = int(labels.max()) + 1
    members = csr_array((np.ones(len(labels)), (np.arange(len(labels)), labels)), shape=(len(labels), count))
    return (members.T @ ((w.T @ members) * (w @ members))).toarray()


def absorb(x: Tensor, w: csr_array, labels: np.ndarray, clusters: int, how: Linkage) -> np.ndarray:
    """Clusters without affinity to any other join the one with the nearest mean; labels [N] of rows x [N, d] -> [N].

    Merging by affinity would never reach such a cluster: a pair of outliers would stay one to the end. That holds for
    `either` direction, since the other alone is divided by the square of the partner's size and falls to nothing while
    that grows. Left as they are where fewer than `clusters` would remain.
    """
    affinities = directed(w, labels)
    np.fill_diagonal(affinities, 0)
    into, out = affinities.sum(0) == 0, affinities.sum(1) == 0
    alone = np.flatnonzero(into | out if how.alone == "either" else into & out)
    members = torch.from_numpy(labels).to(x.device)
    means = x.new_zeros(len(affinities), x.shape[1]).index_add_(0, members, x)
    means /= torch.from_numpy(np.bincount(labels)).to(x).unsqueeze(1)
    partner = np.arange(len(affinities))
    partner[alone] = nearest(means, 1)[1][alone, 0]
    graph = csr_array((np.ones(len(partner)), (np.arange(len(partner)), partner)), shape=affinities.shape)
    count, joined = connected_components(graph, directed=False)
    return joined[labels].astype(np.int64) if count >= clusters else labels


def agglomerate(w: csr_array, labels: np.ndarray, clusters: int, how: Linkage) -> np.ndarray:
    """Merge the clusters `labels` [N] until `clusters` are left; new labels [N], numbered from 0 without gaps."""
    merging = _Merging(w, np.unique(labels, return_inverse=True)[1], how)
    while merging.left > clusters:
        merging.merge(*merging.best_pair())
    return np.unique(merging.labels, return_inverse=True)[1]


class _Merging:
    """Clusters on their way down. A cluster that went into another keeps its row, at -inf."""

    def __init__(self, w: csr_array, labels: np.ndarray, how: Linkage):
        self.out, self.into, self.labels, self.how = w, w.tocsc(), labels.copy(), how
        self.members = [np.flatnonzero(labels == cluster) for cluster in range(int(labels.max()) + 1)]
        self.left = len(self.members)
        self.sizes = np.array([len(rows) for rows in self.members], dtype=np.float64)
        self.directed = directed(w, labels)
        self.symmetric = self.directed / self.sizes**2  # A(i -> j) / |j|^2 + A(j -> i) / |i|^2
        self.symmetric += self.symmetric.T.copy()
        np.fill_diagonal(self.symmetric, -np.inf)
        self.scores, self.best = np.empty(self.left), np.empty(self.left, dtype=np.int64)
        self.plain = self.left <= how.plain_below
        self._score(np.arange(self.left))

    def best_pair(self) -> tuple[int, int]:
        """The cluster with the highest score and its best partner, the one with the lower number first."""
        if not self.plain and self.left <= self.how.plain_below:
            self.plain = True
            self._score(np.flatnonzero(self.sizes))
        cluster = int(self.scores.argmax())
        one, other = sorted((cluster, int(self.best[cluster])))
        return one, other

    def merge(self, one: int, other: int) -> None:
        """`other` goes into `one`."""
        near = (self.symmetric[:, one] > 0) | (self.symmetric[:, other] > 0)
        self.members[one] = np.concatenate([self.members[one], self.members[other]])
        self.labels[self.members[other]] = one
        self.sizes[one] += self.sizes[other]
        self.sizes[other] = 0
        self.directed[one] += self.directed[other]  # exact: a sum over the rows of `one`
        if self.how.update == "fast":
            self.directed[:, one] += self.directed[:, other]
        else:
            self.directed[:, one] = self._towards(one)
        self.left -= 1
        alive = self.sizes > 0
        values = self.directed[one, alive] / self.sizes[alive] ** 2 + self.directed[alive, one] / self.sizes[one] ** 2
        self.symmetric[one, alive] = self.symmetric[alive, one] = values
        self.symmetric[other] = self.symmetric[:, other] = self.symmetric[one, one] = -np.inf
        self.scores[other] = -np.inf
        near[one] = True
        # Partners of affinity 0 count too: where both had none, `other` may still have stood for one.
        near |= (self.symmetric[one] > 0) | (self.best == other) | (self.best == one)
        near |= self.left <= self.how.partners  # fewer partners than the criterion compares: each lost one
        self._score(np.flatnonzero(near & alive))

    def _towards(self, cluster: int) -> np.ndarray:
        """A(i -> cluster) for all i, from the rows."""
        rows = self.members[cluster]
        product = np.asarray(self.out[rows].sum(0)).ravel() * np.asarray(self.into[:, rows].sum(1)).ravel()
        return np.bincount(self.labels, weights=product, minlength=len(self.sizes))

    def _score(self, clusters: np.ndarray) -> None:
        """The criterion of `clusters`: A_i(1) + sum_{k = 2..K_c} (A_i(1) - A_i(k)) / (K_c - 1), or A_i(1)."""
        rows = self.symmetric[clusters]
        self.best[clusters] = rows.argmax(1)
        top = rows.max(1)
        count = min(self.how.partners, self.left - 1)
        if self.plain or count < 2:
            self.scores[clusters] = top
            return
        others = np.partition(rows, rows.shape[1] - count, axis=1)[:, rows.shape[1] - count :]
        self.scores[clusters] = top + (count * top - others.sum(1)) / (count - 1)


def shared_agglomeration(x: Tensor, labels: Tensor | None, clusters: int, how: Linkage | None) -> Tensor:
    """Clusters [N] of x [N, d], equal in all processes: process 0 computes, all get its result.

    `labels`: what to merge from, or None for the chains of x. Without `how` nothing is merged.
    """
    found = torch.empty(len(x), dtype=torch.long)
    if rank() == 0:
        start = chains(x) if labels is None else labels.cpu().numpy()
        if how is not None:
            w = affinity(x, how.neighbours)
            if int(start.max()) + 1 > max(how.absorbed_above, 1):
                start = absorb(x, w, start, clusters, how)
            start = agglomerate(w, start, clusters, how)
        found.copy_(torch.from_numpy(start))
    return from_first(found.to(x.device))
