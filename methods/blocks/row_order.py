"""An order of rows that depends on their content alone: what draws rows by number then draws the same ones."""

import numpy as np
import torch
from torch import Tensor

KEYS = 8  # columns compared at a time


def content_order(x: Tensor) -> tuple[Tensor, bool]:
    """(numbers of the rows of x [N, d] in the order of their content [N], whether the first columns decided it).

    Rows are compared by their first 8 columns; those that are equal there by the columns that follow, 8 at a time,
    until no two rows are equal or no column is left. Exact duplicates stay as they are: one stands for the other.
    """
    order = np.lexsort(_keys(x[:, :KEYS]))
    tied = _runs(x[torch.from_numpy(order).to(x.device), :KEYS].cpu().numpy())
    decided = not len(tied[0])
    for start in range(KEYS, x.shape[1], KEYS):
        places, run = tied
        if not len(places):
            break
        block = x[torch.from_numpy(order[places]).to(x.device), start : start + KEYS].cpu().numpy()
        block = block[:, (block != block[0]).any(0)]  # borders of images are blank: nothing to compare there
        if not block.shape[1]:
            continue
        inner = np.lexsort((*block.T[::-1], run))
        order[places] = order[places[inner]]  # each run is sorted within its own places
        still, finer = _runs(np.column_stack([run, block[inner].astype(np.float64)]))
        tied = places[still], finer
    return torch.from_numpy(order).to(x.device), decided


def order_of_ties(x: Tensor) -> Tensor | None:
    """Numbers [N] of the rows of x [N, d] in the order of their content, if some are equal in the first 8 columns.

    Such rows are of few values, as pixels are: distances are equal too, and the rounding of sums, which follows the
    order of rows, would decide them. Whoever puts the rows in this order first is free of both. None where the first
    columns tell all rows apart.
    """
    order, decided = content_order(x)
    return None if decided else order


def _keys(block: Tensor) -> np.ndarray:
    """Columns of a block [n, k] as np.lexsort wants them: the most important one last."""
    return block.cpu().numpy().T[::-1]


def _runs(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sorted rows [n, k] -> places [m] of those that equal a neighbour, and the number [m] of their run of equals."""
    same = (rows[1:] == rows[:-1]).all(1)
    inside = np.concatenate([[False], same]) | np.concatenate([same, [False]])
    number = np.concatenate([[0], np.cumsum(~same)])
    return np.flatnonzero(inside), number[inside]
