"""K-means with all restarts at once: one matrix product per iteration serves every restart."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Generator, Tensor

BLOCK = 1 << 21  # scores computed at a time, in numbers: they stay in the cache, and memory stays bounded


@dataclass
class KMeans:
    """A fitted K-means: centres [K, d], labels [N] of the rows it was fitted on, exact inertia, and what happened."""

    centres: Tensor
    labels: Tensor
    inertia: float  # sum of squared distances, in float64
    iterations: int
    restart: int  # number of the restart that won
    inertias: Tensor  # of every restart, as found during the iterations

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
) -> KMeans:
    """Lloyd's algorithm from `n_init` starts; the lowest inertia wins.

    x [N, d], float32, on any device. `init`: distinct rows at random, k-means++ (greedy, as scikit-learn's), or given
    centres [K, d]. A restart ends when its labels stay or its centres move less than `tol` times the mean variance,
    scikit-learn's rule. An empty cluster takes the row farthest from its centre, largest distance first, so every
    centre is used as long as there are enough distinct rows. `spherical`: unit rows and unit centres (cosine). The
    starts depend on the rows' content, not on their order. Raises ValueError for K > N and non-finite rows.
    """
    if clusters > len(x):
        raise ValueError(f"{clusters} clusters asked of {len(x)} rows")
    if not bool(torch.isfinite(x).all()):
        raise ValueError("rows with NaN or infinity cannot be clustered")
    if spherical:
        x = F.normalize(x, dim=1)
    # Distances do not depend on the origin, digits do: near the mean float32 loses fewest.
    mean = x.mean(0) if not spherical else torch.zeros_like(x[0])
    x = x - mean
    limit = tol * float(x.var(0, correction=0).mean())
    if isinstance(init, Tensor):  # noqa: SIM108
        starts = (init.to(x) - mean).unsqueeze(0)
    else:
        starts = _starts(x, clusters, n_init, init, seed)
    centres, inertias, iterations = _lloyd(x, starts, max_iter, limit, spherical)
    best = int(inertias.argmin())
    labels = _assign(x, centres[best : best + 1])[0][0]
    inertia = _inertia(x, centres[best], labels)
    return KMeans(centres[best] + mean, labels, inertia, int(iterations[best]), best, inertias)


def _lloyd(x: Tensor, centres: Tensor, max_iter: int, limit: float, spherical: bool) -> tuple[Tensor, Tensor, Tensor]:
    """centres [R, K, d] -> final centres, inertias [R] (float64), iterations [R]."""
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
    coarse = _has_fast_products(x)
    for _ in range(max_iter):
        with _products("bf16" if coarse else "ieee"):
            found, nearest = _assign(x, centres[active])
        inertias[active] = total + nearest.double().sum(1)
        changed = found != labels[active]
        _move(x, active, labels, found, changed, sums, counts)
        iterations[active.cpu()] += 1
        new = sums[active] / counts[active].clamp(min=1).unsqueeze(2)
        empty = (counts[active] == 0).nonzero()
        if len(empty):
            _refill(x, squares, new, empty, nearest, active, labels, sums, counts)
        if spherical:
            new = F.normalize(new, dim=2)
        shift = (new - centres[active]).square().sum((1, 2))
        centres[active] = new
        going = changed.any(1) & (shift > limit)
        if coarse:
            # Low precision brings the centres near; full precision finishes, for every restart.
            coarse = bool((changed.float().mean(1) > 0.01).any())
            continue
        active = _distinct(active[going], inertias, counts)
        if not len(active):
            break
    return centres, inertias, iterations


def _distinct(active: Tensor, inertias: Tensor, counts: Tensor) -> Tensor:
    """Restarts that have come to the same partition have the same future: one of each goes on."""
    sizes = counts[active].sort(1).values.cpu()
    seen: dict[tuple, int] = {}
    for place, restart in enumerate(active.tolist()):
        seen.setdefault((f"{float(inertias[restart]):.6e}", *sizes[place].tolist()), restart)
    return torch.tensor(list(seen.values()), device=active.device, dtype=torch.long)


def _has_fast_products(x: Tensor) -> bool:
    """Whether this CPU multiplies in bfloat16 and torch lets us ask for it (inputs and results stay float32)."""
    asked = getattr(torch.cpu, "_is_avx512_bf16_supported", bool)() and hasattr(torch.backends.mkldnn, "matmul")
    return x.device.type == "cpu" and x.dtype == torch.float32 and bool(asked)


@contextlib.contextmanager
def _products(precision: str) -> Iterator[None]:
    """Precision of float32 matrix products on the CPU within the block."""
    matmul = getattr(torch.backends.mkldnn, "matmul", None)
    if precision == "ieee" or matmul is None:
        yield
        return
    before = matmul.fp32_precision
    matmul.fp32_precision = precision
    try:
        yield
    finally:
        matmul.fp32_precision = before


def _assign(x: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
    """Nearest centre per restart: labels [R, N] and |c|^2 - 2 x.c of it [R, N] (squared distance less |x|^2)."""
    restarts, clusters, width = centres.shape
    flat = centres.reshape(-1, width)
    bias = flat.square().sum(1, keepdim=True)
    rows = max(64, BLOCK // (restarts * clusters))
    labels = torch.empty(restarts, len(x), dtype=torch.long, device=x.device)
    nearest = torch.empty(restarts, len(x), dtype=x.dtype, device=x.device)
    for start in range(0, len(x), rows):
        part = slice(start, start + rows)
        scores = torch.addmm(bias, flat, x[part].T, alpha=-2).view(restarts, clusters, -1)
        nearest[:, part], labels[:, part] = scores.min(1)
    return labels, nearest


def _move(
    x: Tensor, active: Tensor, labels: Tensor, found: Tensor, changed: Tensor, sums: Tensor, counts: Tensor
) -> None:
    """Bring sums and counts up to date: only rows that changed cluster move, and after a few iterations few do."""
    clusters = sums.shape[1]
    for place, restart in enumerate(active.tolist()):
        rows = changed[place].nonzero().squeeze(1)
        if not len(rows):
            continue
        before, after = labels[restart, rows], found[place, rows]
        if 2 * len(rows) > len(x):  # most rows moved: counting anew is cheaper, and sheds rounding errors
            sums[restart], counts[restart] = _sums(x, found[place], clusters)
        else:
            # Every row that moved is added to one cluster and taken from another.
            signs = torch.ones(2 * len(rows), dtype=x.dtype, device=x.device)
            signs[len(rows) :] = -1
            moved, number = _sums(x, torch.cat([after, before]), clusters, rows.repeat(2), signs)
            sums[restart] += moved
            counts[restart] += number
        labels[restart] = found[place]


def _sums(
    x: Tensor, labels: Tensor, clusters: int, rows: Tensor | None = None, signs: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """(sums [K, d], counts [K]) of `rows` of x (default: all), by their `labels`, each times its sign."""
    order = labels.argsort(stable=True)
    sizes = torch.bincount(labels, minlength=clusters)
    index = order if rows is None else rows[order]
    weights = None if signs is None else signs[order]
    sums = F.embedding_bag(index, x, sizes.cumsum(0) - sizes, mode="sum", per_sample_weights=weights)
    counts = sizes if signs is None else torch.bincount(labels, weights=signs, minlength=clusters)
    return sums, counts.to(x.dtype)


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
    """Starting centres [R, K, d]."""
    # Rows in an order of their content: the same data in another order starts from the same centres.
    order = torch.from_numpy(np.lexsort(x[:, : min(8, x.shape[1])].cpu().numpy().T[::-1])).to(x.device)
    generator = Generator().manual_seed(seed)
    if init == "random":
        picks = torch.stack([torch.randperm(len(x), generator=generator)[:clusters] for _ in range(n_init)])
        return x[order[picks.to(x.device)]]
    if init != "k-means++":
        raise ValueError(f"init {init!r}: 'random', 'k-means++' or centres expected")
    return torch.stack([_plus_plus(x, order, clusters, generator) for _ in range(n_init)])


def _plus_plus(x: Tensor, order: Tensor, clusters: int, generator: Generator) -> Tensor:
    """Greedy k-means++: of 2 + ln K candidates, drawn by squared distance, the one that lowers the total most."""
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
    return ordered[torch.tensor(chosen, device=x.device)]


def _inertia(x: Tensor, centres: Tensor, labels: Tensor) -> float:
    """Sum of squared distances in float64, from differences."""
    total = 0.0
    for rows, own in zip(x.split(4096), labels.split(4096), strict=True):
        total += float((rows.double() - centres[own].double()).square().sum())
    return total
