"""The memory bank: one unit vector for every training row, and which row an embedding belongs to among those held.

Wu et al., "Unsupervised Feature Learning via Non-Parametric Instance Discrimination" (CVPR 2018, arXiv 1805.01978).
"""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from methods.blocks.distributed import gather_constant, own_share, world
from methods.blocks.precision import full_precision

EPSILON = 1e-7  # in the denominators of the noise-contrastive form, as released


class MemoryBank(nn.Module):
    """Rows M_i <- nrm(m M_i + (1 - m) z_i), taken up after the step in which z_i was computed.

    The method that holds it keeps this order: in `losses` embeddings are compared with the bank as earlier steps left
    it, and kept (`hold`); its `after_step` calls that of the bank. `momentum` m: the paper's proximal term (eq. 9) is
    released as this average. Rows start in random directions.
    """

    def __init__(self, rows: int, width: int, momentum: float):
        super().__init__()
        self.register_buffer("vectors", F.normalize(torch.rand(rows, width) * 2 - 1, dim=1))
        self.momentum = momentum
        self.held: tuple[Tensor, Tensor] | None = None  # rows [B] and unit embeddings [B, D] of this step

    def draw(self, images: int, count: int | None) -> Tensor | None:
        """Rows for `images` images of this process to be told from, [B, count], even and with replacement.

        An image's own row may be among them. None for all rows of the bank. The numbers are drawn for the images of
        all processes, so that the step of several is that of one.
        """
        if count is None:
            return None
        size = len(self.vectors)
        drawn = torch.randint(size, (images * world(), count), dtype=torch.int32)  # half the time of 64 bits
        return own_share(drawn).to(self.vectors.device).long()

    def hold(self, index: Tensor, z: Tensor) -> None:
        """Keep unit embeddings z [B, D] of the training rows index [B] until `after_step`."""
        self.held = index, z.detach()

    @torch.no_grad()
    def after_step(self) -> None:
        """Take up what was kept, from all processes. Of a row that is there twice the later embedding counts."""
        index, z = (gather_constant(part) for part in self.held)
        place = torch.arange(len(index), device=index.device)
        latest = place.new_zeros(len(self.vectors)).scatter_reduce(0, index, place, "amax")[index]
        self.vectors[index] = self.moved(self.vectors[index], z[latest].to(self.vectors))

    @full_precision
    def moved(self, before: Tensor, z: Tensor) -> Tensor:
        """nrm(m M_i + (1 - m) z_i), [B, D]. Where the two cancel out the new embedding stands alone."""
        mean = self.momentum * before + (1 - self.momentum) * z
        return F.normalize(torch.where(mean.norm(dim=1, keepdim=True) > 0, mean, z), dim=1)


class Instances(nn.Module):
    """The loss of finding an image's own row of the bank, without gradient to the bank.

    `softmax`: cross-entropy of z M^T / tau, over all rows or over the own one and `m` drawn ones. `nce`: each of 1 + m
    rows is told from noise by itself, h = v / (v + m / N) with v = exp(z M^T / tau) / Z (eqs. 6 and 7); -log h of the
    own row and -log(1 - h) of the others are added up. Z = N mean exp(z M^T / tau) of the first batch, for good with
    `constant` 1 (released); below 1 it follows the batches: Z <- c Z + (1 - c) Z_batch.
    """

    def __init__(self, form: Literal["softmax", "nce"], temperature: float, constant: float):
        super().__init__()
        self.form, self.temperature, self.constant = form, temperature, constant
        self.register_buffer("normaliser", torch.zeros(()))  # Z; 0 before the first batch

    def forward(self, z: Tensor, vectors: Tensor, index: Tensor, others: Tensor | None) -> Tensor:
        """z [B, D] of unit length, vectors [N, D], own rows index [B], other rows [B, m] (None: all) -> mean loss."""
        scores = similarities(z, vectors, index, others) / self.temperature
        if self.form == "softmax":
            return F.cross_entropy(scores, index if others is None else torch.zeros_like(index))
        if others is None:  # every row is noise once, the own one too
            scores = torch.cat([scores.gather(1, index.unsqueeze(1)), scores], dim=1)
        values = scores.exp()
        return noise_contrast(values / self._normalise(values, len(vectors)), len(vectors))

    @torch.no_grad()
    def _normalise(self, values: Tensor, rows: int) -> Tensor:
        """Z, after this batch of all processes took part."""
        now = rows * gather_constant(values.mean().float().unsqueeze(0)).mean()
        moved = self.constant * self.normaliser + (1 - self.constant) * now
        self.normaliser.copy_(torch.where(self.normaliser > 0, moved, now))
        return self.normaliser.clone()  # the next call moves it before this one's backward pass

    def chance(self, rows: int, others: int | None) -> float | None:
        """The loss of equal embeddings in a bank of the same, with Z as it is; m counts the drawn rows.

        None before Z has its first value.
        """
        if self.form == "softmax":
            return math.log(rows if others is None else 1 + others)
        if not self.normaliser:
            return None
        drawn = rows if others is None else others
        noise, value = drawn / rows, math.exp(1 / self.temperature) / float(self.normaliser)
        return math.log1p(noise / value) + drawn * math.log1p(value / noise)


@full_precision
def similarities(z: Tensor, vectors: Tensor, index: Tensor, others: Tensor | None) -> Tensor:
    """Products of z [B, D] with all vectors, [B, N], or with the own (first) and other rows [B, m], [B, 1 + m].

    Of many rows the product with the whole bank costs less memory than copies of those that are asked for.
    """
    vectors = vectors.detach().to(z)
    if others is None:
        return z @ vectors.T
    columns = torch.cat([index.unsqueeze(1), others], dim=1)
    if columns.shape[1] * z.shape[1] > len(vectors):
        return (z @ vectors.T).gather(1, columns)
    return torch.einsum("bd,bcd->bc", z, vectors[columns])


@full_precision
def noise_contrast(values: Tensor, rows: int) -> Tensor:
    """Noise-contrastive loss of v [B, 1 + m], the own row first, with even noise over N `rows`; mean over the batch."""
    noise = (values.shape[1] - 1) / rows
    own, others = values[:, :1], values[:, 1:]
    told = (own / (own + noise + EPSILON)).log().sum(1) + (noise / (others + noise + EPSILON)).log().sum(1)
    return -told.mean()
