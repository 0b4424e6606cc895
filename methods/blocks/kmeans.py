"""K-means with all restarts at once: one matrix product per iteration serves every restart.

In large problems the restarts race first: they run on the leading principal directions, where an iteration costs a
fraction, until hardly a row changes its cluster; after 6 and after 12 iterations the half with the higher inertia is
given up. The best few are finished at full width. So the result is a fixed point of Lloyd's algorithm on the data
themselves, started from the centres of the race's winners; its inertia came within 0.02 % of that of finishing every
restart (docs/results.md).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from methods.blocks.products import factor, product
from methods.blocks.row_order import order_of_ties

BLOCK = 1 << 19  # scores computed at a time, in numbers: they stay in the cache, and memory stays bounded
RACE_FROM = 1e9  # products of one iteration of all restarts, N x d x K x R, from which a race pays
DIRECTIONS = 64  # width of the race
SETTLED = 1e-2  # a restart has finished the race once a smaller share of the rows changes cluster
HALVINGS = (6, 12)  # iterations of the race after which the half with the higher inertia is given up


@dataclass
class KMeans:
    """A fitted K-means: centres [K, d], labels [N] of the rows it was fitted on, exact inertia, and what happened."""

    centres: Tensor
    labels: Tensor
    inertia: float  # sum of squared distances, in float64
    iterations: int  # at full width
    restart: int  # number of the restart that won
    inertias: Tensor  # of every restart that was finished, as found during the iterations

    def predict(self, x: Tensor) -> Tensor:
        """Nearest centre of each row of x [n, d] -> [n]."""
        return _assign(x, self.centres.unsqueeze(0).to(x))[0][0]


def kmeans(
    x: Tensor,
    clusters: int,
    n_init: int = 1,
    init: Literal["random", "k-means++"] | Tensor = "random",
    max_iter: int = 300,
    tol: float = 1e-4,
    seed: int = 0,
    spherical: bool = False,
    finalists: int | None = 3,
) -> KMeans:
    """Lloyd's algorithm from `n_init` starts; the lowest inertia wins.

    x [N, d], float32, on any device. `init`: distinct rows at random, k-means++ (greedy, as scikit-learn's), or given
    centres [K, d]. Large problems race (above) and finish `finalists` restarts; None always finishes every restart. A
    restart ends when its labels stay or its centres move less than `tol` times the mean variance, scikit-learn's rule.
    An empty cluster takes the row farthest from its centre, largest distance first, so every centre is used as long as
    there are enough distinct rows. `spherical`: unit rows and unit centres (cosine). The starts depend on the rows'
    content, not on their order: the same rows in another order give the same partition, as far as rounding lets them.
    Raises ValueError for K > N and non-finite rows.
    """
    if clusters > len(x):
        raise ValueError(f"{clusters} clusters asked of {len(x)} rows")
    if not bool(torch.isfinite(x).all()):
        raise ValueError("rows with NaN or infinity cannot be clustered")
    if spherical:
        x = F.normalize(x, dim=1)
    order = None if isinstance(init, Tensor) else order_of_ties(x)
    if order is not None:
        x = x[order]
    # Distances do not depend on the origin, rounding does: float32 is most exact for small numbers, near the mean.
    mean = x.mean(0) if not spherical else torch.zeros_like(x[0])
    x = x - mean
    limit = tol * float(x.var(0, correction=0).mean())
    restarts = torch.arange(1 if isinstance(init, Tensor) else n_init)
    if isinstance(init, Tensor):
        starts = (init.to(x) - mean).unsqueeze(0)
    elif finalists and n_init > finalists and len(x[0]) >= 2 * DIRECTIONS and x.numel() * clusters * n_init > RACE_FROM:
        low = x @ _directions(x, DIRECTIONS)
        run = _lloyd(low, low[_starts(low, clusters, n_init, init, seed)], max_iter, limit, race=finalists)
        restarts = run.inertias.argsort(stable=True)[:finalists].cpu()
        sums, counts = _sums(x, run.labels[restarts.to(x.device)], clusters)
        starts = sums / counts.clamp(min=1).unsqueeze(2)
    else:
        starts = x[_starts(x, clusters, n_init, init, seed)]
    run = _lloyd(x, starts, max_iter, limit, spherical)
    best = int(run.inertias.argmin())
    labels = _assign(x, run.centres[best : best + 1])[0][0]
    inertia = _inertia(x, run.centres[best], labels)
    if order is not None:
        labels = torch.empty_like(labels).index_copy_(0, order, labels)
    return KMeans(
        run.centres[best] + mean, labels, inertia, int(run.iterations[best]), int(restarts[best]), run.inertias
    )


def _directions(x: Tensor, count: int) -> Tensor:
    """About the first `count` principal directions of centred x [N, d] -> orthonormal [d, count].

    Two steps of subspace iteration (Halko et al., arXiv 0909.4061): the race needs the subspace, not the directions.
    """
    directions = torch.randn(x.shape[1], count, generator=Generator().manual_seed(0)).to(x)
    for _ in range(2):
        directions = torch.linalg.qr(x.T @ (x @ directions)).Q
    return directions


@dataclass
class _Run:
    """Where R restarts ended: centres [R, K, d], labels [R, N], inertias [R] in float64, iterations [R]."""

    centres: Tensor
    labels: Tensor
    inertias: Tensor
    iterations: Tensor


def _lloyd(x: Tensor, centres: Tensor, max_iter: int, limit: float, spherical: bool = False, race: int = 0) -> _Run:
    """Iterate centres [R, K, d] until their labels stay or they hardly move; in a `race`, for so many winners, until
    few labels change; those that are given up have infinite inertia."""
    restarts, clusters, _ = centres.shape
    squares = x.square().sum(1)
    total = squares.double().sum()
    centres = centres.clone()
    inertias = torch.full((restarts,), torch.inf, dtype=torch.float64, device=x.device)
    iterations = torch.zeros(restarts, dtype=torch.long)
    labels = torch.full((restarts, len(x)), -1, dtype=torch.long, device=x.device)
    sums = torch.zeros_like(centres)
    counts = torch.zeros(restarts, clusters, device=x.device)
    active = torch.arange(restarts, device=x.device)
    for iteration in range(1, max_iter + 1):
        assigned, nearest = _assign(x, centres[active])
        inertias[active] = total + nearest.double().sum(1)
        changed = assigned != labels[active]
        _move(x, active, labels, assigned, changed, sums, counts)
        iterations[active.cpu()] += 1
        new = sums[active] / counts[active].clamp(min=1).unsqueeze(2)
        empty = (counts[active] == 0).nonzero()
        if len(empty):
            _refill(x, squares, new, empty, nearest, active, labels, sums, counts)
        if spherical:
            new = F.normalize(new, dim=2)
        shift = (new - centres[active]).square().sum((1, 2))
        centres[active] = new
        going = (changed.sum(1) > (SETTLED * len(x) if race else 0)) & (shift > limit)
        if race and iteration in HALVINGS:
            order = inertias[active].argsort(stable=True)[max(len(active) // 2, race) :]
            inertias[active[order]], going[order] = torch.inf, False
        active = _distinct(active[going], inertias, counts)
        if not len(active):
            break
    return _Run(centres, labels, inertias, iterations)


def _distinct(active: Tensor, inertias: Tensor, counts: Tensor) -> Tensor:
    """Restarts that have come to the same partition have the same future: one of each goes on."""
    sizes = counts[active].sort(1).values.tolist()
    values = inertias[active].tolist()
    seen: dict[tuple, int] = {}
    for place, restart in enumerate(active.tolist()):
        seen.setdefault((f"{values[place]:.6e}", *sizes[place]), restart)
    return torch.tensor(list(seen.values()), device=active.device, dtype=torch.long)


def _assign(x: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
    """Nearest centre per restart: labels [R, N] and |c|^2 - 2 x.c of it [R, N] (squared distance less |x|^2)."""
    restarts, clusters, width = centres.shape
    flat = centres.reshape(-1, width)
    left = factor(flat, -2)
    bias = flat.square().sum(1, keepdim=True)
    ids = torch.arange(clusters, device=x.device, dtype=torch.int32).unsqueeze(1)
    rows = max(64, BLOCK // (restarts * clusters))
    labels = torch.empty(restarts, len(x), dtype=torch.long, device=x.device)
    nearest = torch.empty(restarts, len(x), dtype=x.dtype, device=x.device)
    for start in range(0, len(x), rows):
        part = slice(start, start + rows)
        scores = product(left, x[part], bias).view(restarts, clusters, -1)
        # min() with indices runs over single numbers; two reductions without indices are several times faster.
        nearest[:, part] = lowest = scores.amin(1)
        labels[:, part] = torch.where(scores == lowest.unsqueeze(1), ids, clusters).amin(1)
    return labels, nearest


def _move(
    x: Tensor, active: Tensor, labels: Tensor, assigned: Tensor, changed: Tensor, sums: Tensor, counts: Tensor
) -> None:
    """Bring sums and counts up to date: only rows that changed cluster move, and after a few iterations few do."""
    _, clusters, width = sums.shape
    place, rows = changed.nonzero(as_tuple=True)
    restart = active[place]
    before, after = labels[restart, rows], assigned[place, rows]
    known = before >= 0  # not in the first iteration
    # Every row that moved is added to one cluster and taken from another.
    targets = torch.cat([restart * clusters + after, (restart * clusters + before)[known]])
    signs = torch.ones(len(targets), dtype=x.dtype, device=x.device)
    signs[len(rows) :] = -1
    moved, number = _bags(x, torch.cat([rows, rows[known]]), targets, len(sums) * clusters, signs)
    sums += moved.view(-1, clusters, width)
    counts += number.view(-1, clusters)
    labels[active] = assigned


def _sums(x: Tensor, labels: Tensor, clusters: int) -> tuple[Tensor, Tensor]:
    """labels [R, N] of the rows of x [N, d] -> sums [R, K, d] and counts [R, K] of every cluster."""
    offsets = clusters * torch.arange(len(labels), device=x.device).unsqueeze(1)
    rows = torch.arange(len(x), device=x.device).repeat(len(labels))
    ones = torch.ones(len(rows), dtype=x.dtype, device=x.device)
    sums, counts = _bags(x, rows, (labels + offsets).flatten(), len(labels) * clusters, ones)
    return sums.view(len(labels), clusters, -1), counts.view(len(labels), clusters)


def _bags(x: Tensor, rows: Tensor, targets: Tensor, count: int, signs: Tensor) -> tuple[Tensor, Tensor]:
    """Sums [count, d] of x[rows] * signs by `targets`, and sums [count] of the signs."""
    order = targets.argsort(stable=True)
    sizes = torch.bincount(targets, minlength=count)
    sums = F.embedding_bag(rows[order], x, sizes.cumsum(0) - sizes, mode="sum", per_sample_weights=signs[order])
    return sums, torch.bincount(targets, weights=signs, minlength=count).to(x.dtype)


def _refill(
    x: Tensor,
    squares: Tensor,
    new: Tensor,
    empty: Tensor,
    nearest: Tensor,
    active: Tensor,
    labels: Tensor,
    sums: Tensor,
    counts: Tensor,
) -> None:
    """Give each empty cluster the row that is farthest from its own centre, the farthest first."""
    for place in empty[:, 0].unique().tolist():
        restart = int(active[place])
        distance = squares + nearest[place]
        for cluster in empty[empty[:, 0] == place, 1].tolist():
            # A row that is alone in its cluster stays: taking it would only move the hole.
            alone = counts[restart, labels[restart]] <= 1
            row = int(distance.masked_fill(alone, -1).argmax())
            if distance[row] <= 0:
                break  # fewer distinct rows than clusters
            donor = int(labels[restart, row])
            sums[restart, donor] -= x[row]
            counts[restart, donor] -= 1
            sums[restart, cluster], counts[restart, cluster], labels[restart, row] = x[row], 1, cluster
            new[place, donor] = sums[restart, donor] / counts[restart, donor]
            new[place, cluster] = x[row]
            distance[row] = 0


def _starts(x: Tensor, clusters: int, n_init: int, init: str, seed: int) -> Tensor:
    """Rows of x to start from, [R, K]."""
    # Rows in an order of their content: the same data in another order starts from the same centres. Rows that are
    # equal in these columns are in such an order already (`order_of_ties`), which a stable sort keeps.
    order = torch.from_numpy(np.lexsort(x[:, : min(8, x.shape[1])].cpu().numpy().T[::-1])).to(x.device)
    generator = Generator().manual_seed(seed)
    if init == "random":
        picks = torch.stack([torch.randperm(len(x), generator=generator)[:clusters] for _ in range(n_init)])
        return order[picks.to(x.device)]
    if init != "k-means++":
        raise ValueError(f"init {init!r}: 'random', 'k-means++' or centres expected")
    return torch.stack([_plus_plus(x, order, clusters, generator) for _ in range(n_init)])


def _plus_plus(x: Tensor, order: Tensor, clusters: int, generator: Generator) -> Tensor:
    """Greedy k-means++: of 2 + ln K candidates, drawn by squared distance, the one that lowers the total most; [K]."""
    ordered = x[order]
    squares = ordered.square().sum(1)
    tries = 2 + int(np.log(clusters))
    chosen = [int(torch.randint(len(x), (1,), generator=generator))]
    distance = (squares + squares[chosen[0]] - 2 * ordered @ ordered[chosen[0]]).clamp_(min=0)
    for _ in range(1, clusters):
        cumulative = distance.double().cumsum(0)
        draws = torch.rand(tries, generator=generator, dtype=torch.float64).to(x.device) * cumulative[-1]
        candidates = torch.searchsorted(cumulative, draws).clamp_(max=len(x) - 1)
        to_each = (
            squares.unsqueeze(0) + squares[candidates].unsqueeze(1) - 2 * ordered[candidates] @ ordered.T
        ).clamp_(min=0)
        lowered = torch.minimum(to_each, distance)
        best = int(lowered.sum(1).argmin())
        chosen.append(int(candidates[best]))
        distance = lowered[best]
    return order[torch.tensor(chosen, device=x.device)]


def _inertia(x: Tensor, centres: Tensor, labels: Tensor) -> float:
    """Sum of squared distances in float64, from differences."""
    total = 0.0
    for rows, clusters in zip(x.split(4096), labels.split(4096), strict=True):
        total += float((rows.double() - centres[clusters].double()).square().sum())
    return total
