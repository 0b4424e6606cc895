"""Geometry: how well an embedding keeps the neighbourhoods, distances and cluster order of its input (DCRL, sec. 4).

X [N, d] is the input, Z [N, m] the embedding, both flattened; distances are Euclidean. No N x N matrix is ever held:
blocks of rows stream by, and the rank of a neighbour is found by counting the points that are closer, not by sorting.

Ranks: r(i, j) is the place of j among all points by distance from i, i itself at 0 whatever its duplicates; points at
the same distance are placed by their number, as a stable sort would. Distances come from matrix products, whose
rounding could break ties: wherever two lie closer than that rounding, both are computed anew from differences.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from evaluation.similarity import centre_ranks
from pipeline.record import StageError

NEIGHBOURS = (3, 4, 5, 6, 7)  # DCRL's k1 = 3 .. k2 = 7
BLOCK_NUMBERS = 1 << 23  # distances of one kind held at a time


class GeometryError(StageError):
    """Input for which the geometry metrics have no meaning."""


def geometry(x: np.ndarray, z: np.ndarray, neighbours: Sequence[int] = NEIGHBOURS) -> dict[str, Any]:
    """RRE, Trust, Cont, RMSE, LGD of an embedding, each averaged over `neighbours` where it depends on k.

    RRE carries the released code's factor 1/2 (`RRE_text` is without it); LGD divides distances by the square root of
    the dimension, as only the code does (`LGD_text` does not); RMSE compares raw distances. Also `Trust@k`, `Cont@k`.
    """
    inputs, embedded = _Space(x, "input"), _Space(z, "embedding")
    count, most = len(inputs.points), max(neighbours)
    if len(embedded.points) != count:
        raise GeometryError(f"{count} inputs, {len(embedded.points)} embeddings")
    if 2 * count - 3 * most - 1 <= 0:
        raise GeometryError(f"N={count} is too small for k={most}: N > {(3 * most + 1) // 2} needed")
    ranks = {"x_of_z": np.empty((count, most)), "z_of_x": np.empty((count, most))}
    squared_gap, local = 0.0, np.empty((count, most, 2))
    step = max(1, BLOCK_NUMBERS // count)
    for start in range(0, count, step):
        rows = torch.arange(start, min(start + step, count))
        dx, dz = inputs.distances(rows), embedded.distances(rows)
        near_x, near_z = inputs.nearest(dx, rows, most), embedded.nearest(dz, rows, most)
        part = slice(start, start + len(rows))
        ranks["x_of_z"][part] = inputs.ranks(dx, rows, near_z)
        ranks["z_of_x"][part] = embedded.ranks(dz, rows, near_x)
        dx.sqrt_()
        dz.sqrt_()
        local[part, :, 0], local[part, :, 1] = inputs.gaps(rows, near_x), embedded.gaps(rows, near_x)
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
        scaled = local[:, :k, 0] / np.sqrt(inputs.width) - local[:, :k, 1] / np.sqrt(embedded.width)
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
    sizes = np.bincount(clusters, minlength=count)
    if len(sizes) != count or (sizes == 0).any():
        empty = np.flatnonzero(sizes == 0).tolist()
        raise GeometryError(f"CRA needs {count} occupied clusters; empty: {empty or 'ids beyond the count'}")
    tables = []
    for points, what in ((x, "input"), (z, "embedding")):
        tables.append(centre_ranks(_Space(points, what).original, clusters))
    return float((tables[0] == tables[1]).mean())


class _Space:
    """One set of points [N, d]: blocks of squared distances, nearest neighbours and ranks, ties exact."""

    def __init__(self, points: np.ndarray, what: str):
        points = np.asarray(points)
        self.original = points = points.reshape(len(points), -1)
        if points.dtype.kind not in "fiu":
            raise GeometryError(f"{what} must be numbers, found {points.dtype}")
        if not np.isfinite(points).all():
            raise GeometryError(f"{what} holds NaN or infinity in {int((~np.isfinite(points)).any(1).sum())} rows")
        centred = points.astype(np.float64)
        centred -= centred.mean(0)  # around the mean the products below lose fewest digits
        self.points = torch.from_numpy(centred)
        self.squares = self.points.square().sum(1)
        self.width = points.shape[1]
        # What rounding can make of a squared distance.
        self.blur = 4 * np.finfo(np.float64).eps * self.width * float(self.squares.max())

    def distances(self, rows: Tensor) -> Tensor:
        """Squared distances [len(rows), N] in float64: the product form loses digits that float32 does not have."""
        found = torch.addmm(self.squares, self.points[rows], self.points.T, alpha=-2)
        return found.add_(self.squares[rows].unsqueeze(1)).clamp_(min=0)

    def exact(self, row: int, others: Tensor) -> np.ndarray:
        """Squared distances of `others` from `row`, from differences of the points as they were given."""
        gap = self.original[others.numpy()].astype(np.float64) - self.original[row].astype(np.float64)
        return (gap * gap).sum(1)

    def gaps(self, rows: Tensor, others: Tensor) -> np.ndarray:
        """Distances [n, k] of each row from its `others` [n, k], from differences."""
        gap = self.points[others] - self.points[rows].unsqueeze(1)
        return gap.square().sum(2).sqrt().numpy()

    def nearest(self, distances: Tensor, rows: Tensor, count: int) -> Tensor:
        """The `count` nearest of each row without itself, ties by number: [len(rows), count]."""
        own = distances.gather(1, rows.unsqueeze(1))
        distances.scatter_(1, rows.unsqueeze(1), torch.inf)
        value, index = distances.topk(count + 1, largest=False, sorted=True)
        close = (value[:, 1:] - value[:, :-1] <= 2 * self.blur).any(1).nonzero().squeeze(1)
        index = index[:, :count].contiguous()
        for place in close.tolist():
            candidates = (distances[place] <= value[place, count - 1] + 2 * self.blur).nonzero().squeeze(1)
            order = self.exact(int(rows[place]), candidates).argsort(kind="stable")  # candidates come by number
            index[place] = candidates[torch.from_numpy(order[:count])]
        distances.scatter_(1, rows.unsqueeze(1), own)
        return index

    def ranks(self, distances: Tensor, rows: Tensor, wanted: Tensor) -> np.ndarray:
        """Ranks of the points `wanted` [n, k] from each row, by counting those that are closer."""
        found = np.empty(wanted.shape)
        distances.scatter_(1, rows.unsqueeze(1), -1)  # itself first
        at = distances.gather(1, wanted)
        for place in range(wanted.shape[1]):
            limit = at[:, place : place + 1]
            closer = (distances < limit - self.blur).sum(1)
            near = (distances <= limit + self.blur).sum(1) - closer  # the point itself, and whatever may be tied
            for row in (near > 1).nonzero().squeeze(1).tolist():
                candidates = ((distances[row] - limit[row]).abs() <= self.blur).nonzero().squeeze(1)
                gaps = self.exact(int(rows[row]), candidates)
                target = int(wanted[row, place])
                own = gaps[int((candidates == target).nonzero())]
                closer[row] += int(((gaps < own) | ((gaps == own) & (candidates.numpy() < target))).sum())
            found[:, place] = closer.numpy()
        distances.scatter_(1, rows.unsqueeze(1), 0)
        return found
