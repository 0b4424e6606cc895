"""DCRL: deep clustering that keeps the distances inside clusters and the order of distances between them.

Wu et al., "Deep Clustering and Representation Learning that Preserves Geometric Structures" (arXiv 2009.09590; code
released as GCML). Clustering (DEC) and reconstruction shape the latent space, L_rank orders the centres as the data's
cluster means are ordered, L_LIS keeps distances to near members of the same cluster, L_align joins centres and cluster
means. Two optimisers alternate: batches for the first, once an epoch all data for L_LIS and L_align.

`follow` "code" is the released program, which made the paper's numbers; "paper" follows the text where they differ.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from methods.blocks.clusters import cluster_means, cluster_neighbours, rank_agreement
from methods.blocks.distributed import from_first, gather, gather_constant, rank
from methods.blocks.plane import plane_centres
from methods.blocks.reconstruction import reconstruction
from methods.blocks.student_t import soft_assignment, squared_distances, target_distribution
from methods.method import Batch, Context, DataFacts, Method

CHUNK = 1 << 22  # numbers held at a time in work on the whole training set


@dataclass(frozen=True)
class Settings:
    follow: Literal["code", "paper"]
    # How the whole-data step differentiates after the batches moved the weights. "vjp": at the latents of the epoch's
    # start, through the present network; "epoch_start": wholly at the epoch's start; "recompute": at fresh latents,
    # which collapses.
    isometry_gradient: Literal["vjp", "epoch_start", "recompute"]
    start_epoch: int  # first epoch with structure terms, from 0 (code)
    ramp_epochs: int  # length of the ramps of the weights
    neighbours: int  # k of L_LIS
    rank_scale: float  # distances of centres over those of the data's cluster means, in L_rank
    gradual: bool  # weights change over the epochs (ablation of Table 5)
    alternating: bool  # two optimisers alternate (ablation of Table 5)
    structure_lr: float  # learning rate of the whole-data step
    init_rows: int  # random rows that place the centres
    initialisations: int  # of which the best by `choose` is kept
    choose: Literal["inertia", "silhouette", "likelihood"]  # criterion (blocks/plane.py); none asks for a label


class DCRL(Method):
    """z = f(x), centres mu, clusters s_i = argmax_j q_ij of the epoch's start; eqs. of sec. 3 in `losses` and below."""

    terms = ("reconstruction", "cluster", "rank", "isometry", "align")
    views = 0
    drop_last = False
    inherits = ("backbone", "decoder")

    def __init__(self, backbone: nn.Module, data: DataFacts, settings: Settings):
        super().__init__(backbone, data, settings)
        count, width, inputs = data.classes, backbone.width, backbone.sizes[0]
        self.decoder = backbone.mirror()
        self.centres = nn.Parameter(torch.zeros(count, width))
        self.register_buffer("epoch", torch.zeros((), dtype=torch.long))
        self.register_buffer("batches", torch.ones(()))  # N // B: each of an epoch's steps takes this part of L_rank
        self.register_buffer("target", torch.zeros(data.rows, count))
        self.register_buffer("clusters", torch.zeros(data.rows, dtype=torch.long))
        self.register_buffer("latents", torch.zeros(data.rows, width))
        self.register_buffer("near", torch.full((data.rows, settings.neighbours), -1, dtype=torch.long))
        self.register_buffer("near_gaps", torch.zeros(data.rows, settings.neighbours))
        self.register_buffer("input_means", torch.zeros(count, inputs))
        self.register_buffer("latent_means", torch.zeros(count, width))
        self.optimiser: torch.optim.Optimizer | None = None  # of the whole-data step
        self.pending: dict[str, Any] | None = None  # state read from a checkpoint before that optimiser exists
        self.early: list[Tensor] = []  # gradients taken at the epoch's start
        self.structure_losses: dict[str, float] = {"isometry": 0.0, "align": 0.0}

    # ---- weights over the epochs (sec. 3.4)

    def schedule(self) -> dict[str, float]:
        """Factors of this epoch, e counted from 0: a fades clustering (and, in the code, reconstruction) out, b fades
        L_LIS in.
        """
        epoch, start, ramp = int(self.epoch), self.settings.start_epoch, self.settings.ramp_epochs
        gradual = self.settings.gradual
        if self.settings.follow == "paper":
            a, b = (max(0.0, 1 - epoch / ramp), min(1.0, epoch / ramp)) if gradual else (1.0, 1.0)
            return {"reconstruction": 1.0, "cluster": a, "rank": 1.0, "isometry": b, "align": 1.0}
        if epoch < start:
            return {"reconstruction": 1.0, "cluster": 1.0, "rank": 0.0, "isometry": 0.0, "align": 0.0}
        a = max(0.0, 1 - (epoch - start) / (ramp - start)) if gradual else 1.0
        b = min(1.0, (epoch - start) / ramp) if gradual else 1.0
        return {"reconstruction": a, "cluster": a, "rank": 1.0, "isometry": b, "align": 1.0}

    # ---- the epoch's start: clusters, targets, neighbours

    @torch.no_grad()
    def before_epoch(self, context: Context) -> None:
        self.epoch.fill_(context.epoch)
        self.batches.fill_(max(1, context.rows // context.batch_size))
        if context.epoch == 0:
            if rank() == 0:
                self._place_centres(context)
            from_first(self.centres)
        self.latents.copy_(torch.cat([self.backbone(x).float() for x in self._chunks(context)]))
        q = soft_assignment(self.latents, self.centres)
        self.target.copy_(target_distribution(q))
        self.clusters.copy_(q.argmax(1))
        sums = torch.zeros_like(self.input_means)
        for x, clusters in zip(self._chunks(context), self.clusters.split(self._rows()), strict=True):
            sums.index_add_(0, clusters, x.flatten(1))
        counts = torch.bincount(self.clusters, minlength=len(self.centres))
        full = counts > 0  # an empty cluster keeps its previous means
        self.input_means[full] = sums[full] / counts[full].unsqueeze(1)
        self.latent_means.copy_(cluster_means(self.latents, self.clusters, self.latent_means))
        if self._structured():
            near = cluster_neighbours(self.latents, self.clusters, self.settings.neighbours)
            self.near.copy_(near)
            self.near_gaps.copy_(self._input_gaps(context))
            if self.settings.isometry_gradient == "epoch_start":
                self.early = self._structure_gradient(context, self.latents)

    def _place_centres(self, context: Context) -> None:
        """Centres from the t-SNE plane of some latents (spec of the released code; appendix of the paper)."""
        best = float("inf")
        for attempt in range(self.settings.initialisations):
            seed = context.seed("centres", attempt)
            order = torch.randperm(context.rows, generator=torch.Generator().manual_seed(seed))
            rows = order[: self.settings.init_rows]
            z = torch.cat([self.backbone(context.clean(part)) for part in rows.split(4096)])
            badness, centres = plane_centres(z, len(self.centres), self.settings.choose, seed)
            if badness < best:
                best = badness
                self.centres.copy_(centres)

    # ---- step (1): batches

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        x, factor, follow = batch.views[0].flatten(1), self.schedule(), self.settings.follow
        z = self.backbone(x)
        q = soft_assignment(z, self.centres)
        terms = {
            "reconstruction": factor["reconstruction"] * reconstruction(self.decoder(z), x),
            "cluster": factor["cluster"] * cluster_loss(self.target[batch.index], q, follow),
        }
        rank = rank_loss(self.centres, self.input_means, self.settings.rank_scale, follow)
        terms["rank"] = factor["rank"] * (rank / self.batches if self.settings.alternating else rank)
        if not self.settings.alternating and self._structured():
            # Neighbours, norms and means are of the batch as a whole: of the rows of all processes.
            z, x, clusters = gather(z.float()), gather_constant(x), self.clusters[gather_constant(batch.index)]
            near = cluster_neighbours(z.detach(), clusters, self.settings.neighbours)
            gaps = (x[near.clamp(min=0)] - x.unsqueeze(1)).norm(dim=2)
            lis = isometry_loss(z, near, gaps, x.shape[1], follow)
            terms["isometry"] = factor["isometry"] * lis
            align = align_loss(z, self.centres, clusters, self.latent_means, follow)
            terms["align"] = factor["align"] * align
        return terms

    # ---- step (2): all data

    def after_epoch(self, context: Context) -> None:
        if not (self.settings.alternating and self._structured()):
            return
        if self.settings.isometry_gradient == "epoch_start":
            gradients = self.early
        elif self.settings.isometry_gradient == "vjp":
            gradients = self._structure_gradient(context, self.latents)
        else:
            with torch.no_grad():
                fresh = torch.cat([self.backbone(x).float() for x in self._chunks(context)])
            gradients = self._structure_gradient(context, fresh)
        parameters = self._structure_parameters()
        if self.optimiser is None:
            self.optimiser = torch.optim.Adam(parameters, self.settings.structure_lr, fused=True)
            if self.pending:
                self.optimiser.load_state_dict(self.pending)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        self.optimiser.step()
        self.zero_grad(set_to_none=True)

    def _structure_gradient(self, context: Context, z: Tensor) -> list[Tensor]:
        """Gradient of w b L_LIS + w L_align, taken at latents z [N, m] and the present centres, through the network."""
        factor, follow = self.schedule(), self.settings.follow
        parameters = list(self.backbone.parameters())
        with torch.enable_grad():
            z, centres = z.detach().requires_grad_(), self.centres.detach().requires_grad_()
            lis = isometry_loss(z, self.near, self.near_gaps, self.backbone.sizes[0], follow)
            align = align_loss(z, centres, self.clusters, self.latent_means, follow)
            total = self.weight("isometry") * factor["isometry"] * lis + self.weight("align") * factor["align"] * align
            of_latents, of_centres = torch.autograd.grad(total, (z, centres))
            self.structure_losses = {"isometry": float(lis.detach()), "align": float(align.detach())}
            summed = [torch.zeros_like(parameter) for parameter in parameters]
            for x, gradient_of_chunk in zip(self._chunks(context), of_latents.split(self._rows()), strict=True):
                gradients = torch.autograd.grad(self.backbone(x), parameters, gradient_of_chunk)
                for total_gradient, gradient in zip(summed, gradients, strict=True):
                    total_gradient += gradient
        return [*summed, of_centres]

    def _structure_parameters(self) -> list[nn.Parameter]:
        return [*self.backbone.parameters(), self.centres]

    def _structured(self) -> bool:
        """Whether this epoch has structure terms on samples at all (an ablation switches them off by weight)."""
        late = self.settings.follow == "paper" or int(self.epoch) >= self.settings.start_epoch
        return late and (self.active("isometry") or self.active("align"))

    def _input_gaps(self, context: Context) -> Tensor:
        """Distances [N, k] in input space to the neighbours in `near`; rows without neighbours are left at 0."""
        x = torch.cat(list(self._chunks(context)))
        rows = max(1, CHUNK // (x.shape[1] * self.settings.neighbours))
        parts = [
            (x[near.clamp(min=0)] - part.unsqueeze(1)).norm(dim=2)
            for part, near in zip(x.split(rows), self.near.split(rows), strict=True)
        ]
        return torch.cat(parts) * (self.near >= 0)

    def _rows(self) -> int:
        """Rows of a chunk, so that the widest layer holds CHUNK numbers."""
        return max(1, CHUNK // max(self.backbone.sizes))

    def _chunks(self, context: Context) -> Iterator[Tensor]:
        """The clean inputs of the training set, flattened, some rows at a time."""
        return (x.flatten(1) for x in context.chunks(self._rows()))

    # ---- state and statistics

    def get_extra_state(self) -> dict[str, Any]:
        state = self.optimiser.state_dict() if self.optimiser else self.pending
        return {"optimiser": state, "early": self.early, "structure_losses": self.structure_losses}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self.pending, self.early = state["optimiser"], state["early"]
        self.structure_losses = state["structure_losses"]

    def statistics(self) -> dict[str, float]:
        counts = torch.bincount(self.clusters, minlength=len(self.centres))
        statistics = {"CRA_centres": float(rank_agreement(self.input_means, self.centres.detach()))}
        statistics["occupied"] = int((counts > 0).sum())
        return statistics | {f"L_{name}": value for name, value in self.structure_losses.items()}

    def features(self, x: Tensor) -> dict[str, Tensor]:
        z = self.backbone(x)
        return {"h": z, "p": soft_assignment(z, self.centres)}


def cluster_loss(p: Tensor, q: Tensor, follow: str) -> Tensor:
    """KL(P || Q) (eq. 4): the code averages over B * K (torch's "mean"), the text sums over clusters (mean over B)."""
    kl = torch.xlogy(p, p) - torch.xlogy(p, q)
    return kl.mean() if follow == "code" else kl.sum(1).mean()


def rank_loss(centres: Tensor, means: Tensor, scale: float, follow: str) -> Tensor:
    """L_rank: centres mu [C, m] at `scale` times the distances of the cluster means [C, d]; gradient to mu alone.

    Text: sum of |d_mu - scale d_v|; code: Frobenius norm of the difference, over C. Distances are at least 1e-4.
    """
    gap = _distances(centres) - scale * _distances(means.detach())
    return torch.linalg.norm(gap) / len(centres) if follow == "code" else gap.abs().sum()


def isometry_loss(z: Tensor, near: Tensor, gaps: Tensor, inputs: int, follow: str) -> Tensor:
    """L_LIS: z [N, m], neighbours in the same cluster near [N, k] (-1: none), their distances `gaps` in input space.

    Text: sum of |d_X - d_Z|; code: Frobenius norm, distances divided by the square roots of the dimensions.
    """
    index = near.clamp(min=0)
    d = (z[index] - z.unsqueeze(1)).square().sum(2).clamp(min=1e-12).sqrt()
    if follow == "code":
        d, gaps = d / z.shape[1] ** 0.5, gaps / inputs**0.5
    difference = (gaps - d) * (near >= 0)
    return torch.linalg.norm(difference) if follow == "code" else difference.abs().sum()


def align_loss(z: Tensor, centres: Tensor, clusters: Tensor, before: Tensor, follow: str) -> Tensor:
    """L_align: distance of each centre [C, m] from the mean of its cluster's latents; sum (text) or mean (code).

    An empty cluster is measured from its previous mean `before` [C, m].
    """
    gaps = (centres - cluster_means(z, clusters, before)).square().sum(1).clamp(min=1e-12).sqrt()
    return gaps.mean() if follow == "code" else gaps.sum()


def _distances(points: Tensor) -> Tensor:
    """points [C, m] -> Euclidean distances [C, C], at least 1e-4."""
    return squared_distances(points, points).clamp(min=1e-8).sqrt()


METHOD = DCRL
