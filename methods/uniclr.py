"""UniCLR: contrastive losses as one affinity matrix between two views.

"Unified Contrastive Learning via Affinity Matrices": A [N, N] holds the similarity of view 1 (rows) with view 2
(columns); a loss asks it to be the identity, and a symmetry term asks A = A^T (eq. 6). SimAffinity compares unit
vectors, SimWhitening unit whitened vectors, SimTrace maximises the trace of the whitened affinity alone.

`follow` "paper" follows the text, "code" the published program where they differ (docs/methods.md).
"""

import warnings
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from methods.blocks.distributed import gather
from methods.blocks.heads import projection
from methods.blocks.key_encoder import KeyEncoder
from methods.blocks.precision import full_precision
from methods.method import Batch, DataFacts, Method


@dataclass(frozen=True)
class Settings:
    affinity: Literal["affinity", "whitening", "trace"]  # SimAffinity, SimWhitening or SimTrace
    follow: Literal["paper", "code"]
    widths: list[int]  # of the projector, batch norm after every layer; the last is D
    temperature: float  # tau; SimTrace has none
    ridge: float  # added to the covariance's diagonal
    small_batch: Literal["error", "warn"]  # what happens where whitening lacks vectors: 2N - 1 <= D
    gamma_per_n: bool  # the symmetry term over N, since the norm grows with the batch
    ema: float | None  # view 2 passes an encoder that follows by this momentum, without gradient; None: the same one
    predictor: int | None  # hidden width of a further head on view 1; None: no such head


class UniCLR(Method):
    """L = fit(A, I) + gamma ||A - A^T||_F (eq. 6): the recipe's weight of `symmetry` is gamma."""

    terms = ("fit", "symmetry")

    def __init__(self, backbone: nn.Module, data: DataFacts, settings: Settings):
        super().__init__(backbone, data, settings)
        widths = settings.widths
        self.head = projection(backbone.width, widths, batch_norm=True)
        self.keys = KeyEncoder(self.backbone, self.head, settings.ema) if settings.ema is not None else None
        self.predictor = None
        if settings.predictor is not None:
            self.predictor = nn.Sequential(
                nn.Linear(widths[-1], settings.predictor, bias=False),
                nn.BatchNorm1d(settings.predictor),
                nn.ReLU(inplace=True),
                nn.Linear(settings.predictor, widths[-1]),
            )

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        first, second = batch.views
        if self.keys is None:
            return self._losses_of_pair(self._view1(first), self.head(self.backbone(second)))
        keys = self.keys(first), self.keys(second)
        pairs = [self._losses_of_pair(self._view1(view), key) for view, key in ((first, keys[1]), (second, keys[0]))]
        return {name: (pairs[0][name] + pairs[1][name]) / 2 for name in pairs[0]}

    def _view1(self, x: Tensor) -> Tensor:
        """x [B, C, H, W] -> z [B, D] of the view whose gradient is always taken."""
        z = self.head(self.backbone(x))
        return z if self.predictor is None else self.predictor(z)

    def _losses_of_pair(self, z1: Tensor, z2: Tensor) -> dict[str, Tensor]:
        """Terms of the affinity matrix between z1 and z2 [B, D], over the rows of all processes."""
        settings = self.settings
        z1, z2 = gather(z1.float()), gather(z2.float())
        if settings.affinity != "affinity":
            self._check(len(z1), z1.shape[1])
        a = AFFINITIES[settings.affinity](z1, z2, settings.follow, settings.ridge)
        if settings.affinity == "trace":
            return {"fit": -a.trace() / (len(a) if settings.follow == "code" else 1)}
        scaled = a / settings.temperature
        terms = {"fit": F.cross_entropy(scaled, torch.arange(len(a), device=a.device))}
        if self.active("symmetry"):
            uneven = asymmetry(scaled if settings.follow == "code" else a)
            terms["symmetry"] = uneven / len(a) if settings.gamma_per_n else uneven
        return terms

    def _check(self, rows: int, width: int) -> None:
        if 2 * rows - 1 > width:
            return
        text = (
            f"batch of {rows} for {width} dimensions: with 2N - 1 <= D the whitened affinity is constant and only the "
            f"ridge ({self.settings.ridge}) leaves a gradient; use a larger batch or a narrower projector"
        )
        if self.settings.small_batch == "error":
            raise ValueError(text)
        warnings.warn(text, stacklevel=2)

    def after_step(self) -> None:
        if self.keys is not None:
            self.keys.after_step(self.backbone, self.head)

    def inherited(self) -> None:
        if self.keys is not None:
            self.keys.start_as(self.backbone, self.head)

    def features(self, x: Tensor) -> dict[str, Tensor]:
        h = self.backbone(x)
        return {"h": h, "z": self.head(h)}


@full_precision
def affinity_of_unit_vectors(z1: Tensor, z2: Tensor, follow: str = "paper", ridge: float = 0.0) -> Tensor:
    """SimAffinity: A = nrm(Z)^T nrm(Z') of z1, z2 [N, D] -> [N, N]."""
    return F.normalize(z1, dim=1) @ F.normalize(z2, dim=1).T


@full_precision
def affinity_of_whitened(z1: Tensor, z2: Tensor, follow: str = "paper", ridge: float = 0.0) -> Tensor:
    """SimWhitening: A of whitened vectors, normalised after whitening (paper), or before and not after (code)."""
    if follow == "code":
        z1, z2 = F.normalize(z1, dim=1), F.normalize(z2, dim=1)
        w1, w2 = _whitened(z1, z2, ridge, len(z1) * 2 - 1)
        return w1 @ w2.T / len(z1)
    w1, w2 = _whitened(z1, z2, ridge, 2 * len(z1))
    return F.normalize(w1, dim=1) @ F.normalize(w2, dim=1).T


@full_precision
def affinity_of_trace(z1: Tensor, z2: Tensor, follow: str = "paper", ridge: float = 0.0) -> Tensor:
    """SimTrace: A = (Z - mu)^T Sigma^-1 (Z' - mu).

    Paper: Sigma without 1/(2N), gradient through it, which bounds the trace by D / 2. Code: unit vectors, the
    covariance, and no gradient through mean and covariance.
    """
    if follow == "code":
        z1, z2 = F.normalize(z1, dim=1), F.normalize(z2, dim=1)
        w1, w2 = _whitened(z1, z2, ridge, len(z1) * 2 - 1, detached=True)
    else:
        w1, w2 = _whitened(z1, z2, ridge, 1)
    return w1 @ w2.T


AFFINITIES = {"affinity": affinity_of_unit_vectors, "whitening": affinity_of_whitened, "trace": affinity_of_trace}


def _whitened(z1: Tensor, z2: Tensor, ridge: float, count: int, detached: bool = False) -> tuple[Tensor, Tensor]:
    """W (z - mu) of both views, W^T W = (Sigma + ridge I)^-1 with Sigma = sum of outer products / count.

    By Cholesky and a triangular solve: any other root of the inverse differs by a rotation, which no affinity sees.
    """
    joint = torch.cat([z1, z2])
    mean = joint.mean(0)
    sigma = (joint - mean).T @ (joint - mean) / count
    if detached:
        mean, sigma = mean.detach(), sigma.detach()
    root = torch.linalg.cholesky(sigma + ridge * torch.eye(len(sigma), dtype=sigma.dtype, device=sigma.device))
    both = torch.linalg.solve_triangular(root, (joint - mean).T, upper=False).T
    return both[: len(z1)], both[len(z1) :]


@full_precision
def asymmetry(a: Tensor) -> Tensor:
    """||A - A^T||_F, with 1e-12 under the root: its gradient at a symmetric A is 0, not undefined."""
    return ((a - a.T).square().sum() + 1e-12).sqrt() - 1e-6


METHOD = UniCLR
