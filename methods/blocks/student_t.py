"""Soft assignment by Student's t kernel and the sharpened target of it: DEC (arXiv 1511.06335), also IDEC and DCRL."""

from torch import Tensor

from methods.blocks.precision import full_precision


@full_precision
def soft_assignment(z: Tensor, centres: Tensor) -> Tensor:
    """z [B, m], centres [K, m] -> q [B, K], q_ij ~ 1 / (1 + |z_i - mu_j|^2) (DEC eq. 1 with one degree of freedom)."""
    kernel = 1 / (1 + squared_distances(z, centres))
    return kernel / kernel.sum(1, keepdim=True)


@full_precision
def target_distribution(q: Tensor) -> Tensor:
    """q [N, K] of the whole set -> p [N, K], p_ij ~ q_ij^2 / f_j with f_j = sum_i q_ij (DEC eq. 3)."""
    weight = q.square() / q.sum(0)
    return weight / weight.sum(1, keepdim=True)


def squared_distances(a: Tensor, b: Tensor) -> Tensor:
    """a [N, m], b [K, m] -> squared Euclidean distances [N, K], from differences: exact for near points."""
    return (a.unsqueeze(1) - b.unsqueeze(0)).square().sum(2)
