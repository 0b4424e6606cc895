"""Sinkhorn: balanced soft assignment of a batch to clusters."""

from typing import Literal

import torch
from torch import Tensor

from methods.blocks.precision import full_precision

Stabilise = Literal["global_max", "log", "none"]


@full_precision
@torch.no_grad()
def sinkhorn(scores: Tensor, epsilon: float, iterations: int, stabilise: Stabilise = "global_max") -> Tensor:
    """Scores [B, K] -> Q [B, K], rows summing to 1, columns to about B/K (CDC eqs. 6-7, SwAV).

    Q maximises Tr(Q^T S) + epsilon H(Q) over balanced assignments; each iteration scales columns, then rows.
    `global_max` subtracts the largest score before the exponential, which changes nothing but the range. `log` stays in
    the log domain, for scores whose spread over epsilon exceeds what the exponential can hold. `none` is the plain
    form, which overflows float32 once scores/epsilon pass 88. K may exceed B: clusters then get less than one image
    each. No gradient flows. Any float type comes in; the computation is in float32 or better.
    """
    if scores.ndim != 2:
        raise ValueError(f"scores must be [B, K], found {list(scores.shape)}")
    logits = scores / epsilon
    if stabilise == "log":
        for _ in range(iterations):
            logits = logits - logits.logsumexp(0, keepdim=True)
            logits = logits - logits.logsumexp(1, keepdim=True)
        return logits.exp()
    q = torch.exp(logits - logits.max() if stabilise == "global_max" else logits)
    q = q / q.sum()
    for _ in range(iterations):
        q = q / q.sum(0, keepdim=True)
        q = q / q.sum(1, keepdim=True)
    return q
