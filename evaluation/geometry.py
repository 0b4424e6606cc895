"""Geometry: how well an embedding keeps the neighbourhoods, distances and cluster order of its input (DCRL, sec. 4).

X [N, d] is the input, Z [N, m] the embedding, both flattened; distances are Euclidean. No N x N matrix is ever held:
blocks of rows stream by, and the rank of a neighbour is found by counting the points that are closer, not by sorting.

Ranks: r(i, j) is the place of j among all points by distance from i, i itself at 0 whatever its duplicates; points at
the same distance are placed by their number, as a stable sort would.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rules.record import StageError

NEIGHBOURS = (3, 4, 5, 6, 7)  # DCRL's k1 = 3 .. k2 = 7
BLOCK_NUMBERS = 1 << 23  # distances of one kind held at a time


class GeometryError(StageError):
    """Input for which the geometry metrics have no meaning."""


def geometry(x: np.ndarray, z: np.ndarray, neighbours: Sequence[int] = NEIGHBOURS) -> dict[str, Any]:
    """RRE, Trust, Cont, RMSE, LGD of an embedding, each averaged over `neighbours` where it depends on k.

    RRE carries the released code's factor 1/2 (`RRE_text` is without it); LGD divides distances by the square root of
    the dimension, as only the code does (`LGD_text` does not); RMSE compares raw distances. Also `Trust@k`, `Cont@k`.
    """
    x, z = _checked(x, "input"), _checked(z, "embedding")
    count, most = len(x), max(neighbours)
    if len(z) != count:
        raise GeometryError(f"{count} inputs, {len(z)} embeddings")
    if 2 * count - 3 * most - 1 <= 0:
        raise GeometryError(f"N={count} is too small for k={most}: N > {(3 * most + 1) // 2} needed")
    ranks = {"x_of_z": np.empty((count, most)), "z_of_x": np.empty((count, most))}
    squared_gap, local = 0.0, np.empty((count, most, 2))
    step = max(1, BLOCK_NUMBERS // count)
    for start in range(0, count, step):
        rows = torch.arange(start, min(start + step, count))
        dx, dz = _distances(x, rows), _distances(z, rows)
        near_x, near_z = _nearest(dx, rows, most), _nearest(dz, rows, most)
        part = slice(start, start + len(rows))
        ranks["x_of_z"][part] = _ranks(dx, rows, near_z)
        ranks["z_of_x"][part] = _ranks(dz, rows, near_x)
        dx.sqrt_()
        dz.sqrt_()
        local[part, :, 0], local[part, :, 1] = dx.gather(1, near_x), dz.gather(1, near_x)
        squared_gap += float(dx.sub_(dz).square_().sum())
    own = np.arange(1, most + 1)
    result: dict[str, Any] = {"RMSE": float(np.sqrt(squared_gap) / count)}
    per_k: dict[str, list[float]] = {name: [] for name in ("RRE", "Trust", "Cont", "LGD", "LGD_text")}
    for k in neighbours:
        first = own[:k]
        norm = count * (np.abs(count - 2 * first) / first).sum()
        errors = [(np.abs(r[:, :k] - first) / first).sum() / norm for r in ranks.values()]
        per_k["RRE"].append(sum(errors) / 2)
        scale = 2 / (count * k * (2 * count - 3 * k - 1))
        for name, r in (("Trust", ranks["x_of_z"]), ("Cont", ranks["z_of_x"])):
            per_k[name].append(1 - scale * np.maximum(r[:, :k] - k, 0).sum())
        plain = local[:, :k, 0] - local[:, :k, 1]
        scaled = local[:, :k, 0] / np.sqrt(x.shape[1]) - local[:, :k, 1] / np.sqrt(z.shape[1])
        per_k["LGD"].append(np.sqrt((scaled**2).mean()))
        per_k["LGD_text"].append(np.sqrt((plain**2).mean()))
    result |= {name: float(np.mean(values)) for name, values in per_k.items()}
    result["RRE_text"] = 2 * result["RRE"]
    for name in ("Trust", "Cont"):
        result |= {f"{name}@{k}": float(value) for k, value in zip(neighbours, per_k[name], strict=True)}
    return result


def centre_rank_agreement(x: np.ndarray, z: np.ndarray, clusters: np.ndarray, count: int) -> float:
    """CRA: share of pairs of clusters whose centres have the same distance rank in X and in Z; chance is 2/C.

    Centres are means under the predicted `clusters` [N], ids 0..count-1. Raises GeometryError for an empty cluster:
    with undefined centres the two rank tables would agree by accident.
    """
    x, z = _checked(x, "input"), _checked(z, "embedding")
    sizes = np.bincount(clusters, minlength=count)
    if len(sizes) != count or (sizes == 0).any():
        empty = np.flatnonzero(sizes == 0).tolist()
        raise GeometryError(f"CRA needs {count} occupied clusters; empty: {empty or 'ids beyond the count'}")
    tables = []
    for points in (x, z):
        centres = torch.stack([points[torch.from_numpy(clusters == c)].mean(0) for c in range(count)])
        gaps = _distances(centres, torch.arange(count))
        gaps.fill_diagonal_(-1)  # itself first, whatever its twins
        tables.append(gaps.argsort(1, stable=True).argsort(1))
    return float((tables[0] == tables[1]).double().mean())


def _checked(points: np.ndarray, what: str) -> Tensor:
    points = np.asarray(points)
    points = points.reshape(len(points), -1)
    if points.dtype.kind not in "fiu":
        raise GeometryError(f"{what} must be numbers, found {points.dtype}")
    if not np.isfinite(points).all():
        raise GeometryError(f"{what} holds NaN or infinity in {int((~np.isfinite(points)).any(1).sum())} rows")
    points = points.astype(np.float64)
    points -= points.mean(0)  # around the mean the products below lose fewest digits
    return torch.from_numpy(points)


def _distances(points: Tensor, rows: Tensor) -> Tensor:
    """Squared distances [len(rows), N] in float64: the product form loses digits that float32 does not have."""
    own = points[rows]
    squares = points.square().sum(1)
    return torch.addmm(squares, own, points.T, alpha=-2).add_(squares[rows].unsqueeze(1)).clamp_(min=0)


def _nearest(distances: Tensor, rows: Tensor, count: int) -> Tensor:
    """The `count` nearest of each row without itself, ties by number: [len(rows), count]."""
    own = distances.gather(1, rows.unsqueeze(1))
    distances.scatter_(1, rows.unsqueeze(1), torch.inf)
    value, index = distances.topk(count + 1, largest=False, sorted=True)
    # topk does not order ties, and may leave out a lower number at the distance of the last one.
    border = value[:, count - 1 : count]
    tied = (value[:, count:] == border).squeeze(1).nonzero().squeeze(1)
    for row in tied.tolist():
        inside = (distances[row] < border[row]).nonzero().squeeze(1)
        equal = (distances[row] == border[row]).nonzero().squeeze(1)[: count - len(inside)]
        chosen = torch.cat([inside, equal])
        index[row, :count] = chosen
        value[row, :count] = distances[row, chosen]
    index, value = index[:, :count], value[:, :count]
    by_number = index.argsort(1)
    index, value = index.gather(1, by_number), value.gather(1, by_number)
    index = index.gather(1, value.argsort(1, stable=True))
    distances.scatter_(1, rows.unsqueeze(1), own)
    return index


def _ranks(distances: Tensor, rows: Tensor, wanted: Tensor) -> np.ndarray:
    """Ranks of the points `wanted` [n, k] from each row, by counting: closer ones, and equal ones of lower number."""
    found = np.empty(wanted.shape)
    numbers = torch.arange(distances.shape[1])
    at = distances.gather(1, wanted)
    itself = distances.gather(1, rows.unsqueeze(1))
    for place in range(wanted.shape[1]):
        limit, index = at[:, place : place + 1], wanted[:, place : place + 1]
        closer = (distances < limit).sum(1)
        equal = torch.zeros_like(closer)
        tied = ((distances <= limit).sum(1) - closer > 1).nonzero().squeeze(1)  # rare, but then they count by number
        if len(tied):
            equal[tied] = ((distances[tied] == limit[tied]) & (numbers < index[tied])).sum(1)
        # The row itself stands at rank 0 ahead of all: counted once, whether it was closer, equal or beyond.
        counted = (itself < limit) | ((itself == limit) & (rows.unsqueeze(1) < index))
        found[:, place] = (closer + equal + (~counted.squeeze(1)).long()).numpy()
    return found
