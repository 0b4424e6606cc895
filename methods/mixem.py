"""MIX'EM: unsupervised image classification using a mixture of embeddings.

Varamesh and Tuytelaars, ACCV 2020 (arXiv 2007.09502). Equation numbers are the paper's. Where the text and the released
code differ, `follow` chooses (docs/methods.md): "code" is what produced the published numbers and what the published
loss weights belong to, "paper" is eqs. 5-8 as printed.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from methods.blocks.contrast import nt_xent
from methods.blocks.distributed import gather
from methods.blocks.heads import ParallelMLP, mlp
from methods.blocks.occupancy import Occupancy
from methods.blocks.precision import full_precision
from methods.method import Batch, DataFacts, Method


@dataclass(frozen=True)
class Settings:
    components: int | None  # M; None: the number of classes
    embedding: int  # D, width of every e_m and of z
    temperature: float  # tau of NT-Xent
    follow: Literal["code", "paper"]


class MixEm(Method):
    """M embeddings g_m(h), a gate p(h) that mixes them, NT-Xent on the mixture, and four terms that shape the gate."""

    terms = ("contrast", "comp_ent", "inst_ent", "push", "pull")

    def __init__(self, backbone: nn.Module, data: DataFacts, settings: Settings):
        super().__init__(backbone, data, settings)
        self.components = data.classes if settings.components is None else settings.components
        width = backbone.width
        self.experts = ParallelMLP(self.components, width, width, settings.embedding)
        self.gate = mlp(width, width, self.components)
        self.occupancy = Occupancy(self.components)

    def mixture(self, h: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Eq. 3: h [B, d] -> p [B, M] = softmax(g_p(h)), e [B, M, D] = unit-norm g_m(h), z [B, D] = sum_m p_m e_m."""
        return mix(self.gate(h), self.experts(h))

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Eq. 9 before weighting: NT-Xent once per pair of views, every other term summed over the two views."""
        views = [self.mixture(self.backbone(view)) for view in batch.views]
        terms = {"contrast": nt_xent(views[0][2], views[1][2], self.settings.temperature)}
        for p, _, _ in views:
            self.occupancy.add(p.argmax(1))
        # The other terms are functions of the whole batch: of the rows of all processes.
        views = [tuple(map(gather, view)) for view in views]
        shapes = [shaping_terms(p, e, z, self.settings.follow) for p, e, z in views]
        return terms | {name: shapes[0][name] + shapes[1][name] for name in shapes[0]}

    def statistics(self) -> dict[str, float]:
        """Components that dominated at least one view of the epoch, and the largest share of one component."""
        occupied, largest = self.occupancy.take()
        return {"occupied_components": occupied, "largest_share": largest}

    def chance(self, batch_size: int) -> dict[str, float]:
        return {"contrast": math.log(2 * batch_size - 1)}  # candidates of an anchor: both views of all, but itself

    def features(self, x: Tensor) -> dict[str, Tensor]:
        h = self.backbone(x)
        p, _, z = self.mixture(h)
        return {"h": h, "z": z, "p": p}


@full_precision
def mix(logits: Tensor, embeddings: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Eq. 3: logits [B, M], embeddings [B, M, D] -> p [B, M], e [B, M, D] with unit rows, z [B, D]."""
    p, e = logits.softmax(1), F.normalize(embeddings, dim=2)
    return p, e, torch.einsum("bm,bmd->bd", p, e)


@full_precision
def shaping_terms(p: Tensor, e: Tensor, z: Tensor, follow: Literal["code", "paper"]) -> dict[str, Tensor]:
    """The four terms of one view: p [B, M], e [B, M, D], z [B, D] -> comp_ent, inst_ent, push, pull."""
    dominant = p.argmax(1)  # E_m of eq. 6 (whose printed argmin is a slip); no gradient passes
    members = F.one_hot(dominant, p.shape[1]).to(p.dtype)  # [B, M]
    inst_ent = 1 - p.max(1).values
    if follow == "code":
        push, pull = _push_pull_code(members, z)
        inst_ent = inst_ent.mean()
    else:
        push, pull = _push_pull_paper(members, dominant, e.to(p.dtype))
        inst_ent = inst_ent.sum()
    return {"comp_ent": component_entropy(p), "inst_ent": inst_ent, "push": push, "pull": pull}


def component_entropy(p: Tensor) -> Tensor:
    """Eq. 4: minus the entropy of the batch mean of p [B, M]."""
    mean = p.mean(0)
    return torch.xlogy(mean, mean).sum()


def _push_pull_paper(members: Tensor, dominant: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
    """Eqs. 6-8 on the component embeddings e_m^i; components without members take part in neither term."""
    e_dominant = e[torch.arange(len(e), device=e.device), dominant]  # [B, D]: e_m^i for the m that i belongs to
    counts = members.sum(0)
    mu = members.T @ e_dominant / counts.clamp(min=1).unsqueeze(1)  # [M, D]
    count = len(counts)
    pull = torch.linalg.vector_norm(e_dominant - mu[dominant], dim=1).sum() / count
    occupied = counts > 0
    apart = _pairwise(mu) * (occupied[:, None] & occupied[None, :])
    return -apart.sum() / count, pull


def _push_pull_code(members: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    """The released code: on the mixed z_i, one zero vector added to every E_m, means instead of sums.

    The zero vector keeps an empty component defined (its mean is 0) and shrinks the mean of a small one.
    """
    sizes = members.sum(0) + 1
    mu = members.T @ z / sizes.unsqueeze(1)  # [M, D]
    count = len(sizes)
    spread = members * torch.linalg.vector_norm(z.unsqueeze(1) - mu, dim=2)  # [B, M]
    pull = ((spread.sum(0) + torch.linalg.vector_norm(mu, dim=1)) / sizes).sum() / count
    push = -_pairwise(mu).sum() / max(count * count - count, 1)
    return push, pull


def _pairwise(mu: Tensor) -> Tensor:
    """Euclidean distances [M, M] of all pairs; the gradient of vector_norm at 0 is 0, so equal means are harmless."""
    return torch.linalg.vector_norm(mu.unsqueeze(0) - mu.unsqueeze(1), dim=2)


METHOD = MixEm
