"""CDC: contrastive learning and clustering in one embedding, z = [z^c, z^n].

"Contrastive Representation Disentanglement for Clustering" (arXiv 2306.05439; its first version called the method CLC).
The cluster part z^c has one number per cluster, the instance part z^n is what MoCo's embedding is. One InfoNCE on both
parts, each of unit length, lets similarity of clusters weigh the negatives (eq. 3); balanced assignments of the batch
are the targets of z^c (eqs. 6 and 7). No code was released: this file follows the equations.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from methods.blocks.contrast import info_nce, info_nce_in_batch
from methods.blocks.distributed import gather_constant, rank
from methods.blocks.heads import mlp
from methods.blocks.precision import full_precision
from methods.blocks.sinkhorn import sinkhorn
from methods.method import Batch, DataFacts, Method
from methods.moco import MoCo


class CDC(MoCo):
    """L = L_NCE + alpha L_CE (eq. 9): the recipe's weights are 1 and alpha; self-labelling is optional (weight 0)."""

    terms = ("contrast", "equipartition", "self_label")

    def __init__(
        self,
        backbone: nn.Module,
        data: DataFacts,
        *,
        clusters: int | None,
        embedding: int,
        queue: int,
        momentum: float,
        temperature: float,
        cluster_temperature: float,
        epsilon: float,
        iterations: int,
        sinkhorn_input: Literal["zc", "zc_over_t"],
        stabilise: Literal["global_max", "log", "none"],
        target_view: Literal["same", "swap"],
        normalise_zc: bool,
        joint_renorm: bool,
        symmetric: bool,
        shuffle: bool,
        threshold: float,
    ):
        """`clusters`: K, None for the number of classes. `queue` 0: negatives from the batch, one encoder for both
        views, gradient through both. `temperature` tau, `cluster_temperature` t. `threshold`: confidence above which an
        image labels itself.
        """
        count = data.classes if clusters is None else clusters
        Method.__init__(self, backbone, data)  # head and keys are not MoCo's
        self.clusters, self.in_batch = count, queue == 0
        self.head = mlp(backbone.width, backbone.width, count + embedding)
        self.temperature, self.symmetric = temperature, symmetric
        if not self.in_batch:
            self.start_keys(queue, [count, embedding], momentum, shuffle)
        self.t, self.epsilon, self.iterations = cluster_temperature, epsilon, iterations
        self.sinkhorn_input, self.stabilise, self.target_view = sinkhorn_input, stabilise, target_view
        self.normalise_zc, self.joint_renorm, self.threshold = normalise_zc, joint_renorm, threshold
        self.register_buffer("dominant_counts", torch.zeros(count, dtype=torch.long))
        self.register_buffer("confident", torch.zeros(2, dtype=torch.long))  # images above the threshold, images seen

    # ---- sec. 3.1: the embedding

    def parts(self, a: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs of the head a [B, K + D] -> z^c [B, K] and z^n [B, D], each of unit length."""
        zc, zn = a[:, : self.clusters].float(), F.normalize(a[:, self.clusters :].float(), dim=1)
        return (F.normalize(zc, dim=1) if self.normalise_zc else zc), zn

    def joined(self, zc: Tensor, zn: Tensor) -> Tensor:
        """z = [z^c, z^n], of length sqrt(2); normalised once more only by key, which halves every similarity."""
        z = torch.cat([zc, zn], dim=1)
        return F.normalize(z, dim=1) if self.joint_renorm else z

    # ---- the losses

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        views = batch.views
        outputs = [self.head(self.backbone(x)) for x in (views if self.symmetric or self.in_batch else views[:1])]
        queries = [self.parts(a) for a in outputs]
        if self.in_batch:
            keys = queries
        else:
            keys = [self.parts(self.key_outputs(x)) for x in (views if self.symmetric else views[1:])]
            keys = keys if self.symmetric else [None, *keys]
            self.fresh = self.joined(*keys[1])
        pairs = [(0, 1), (1, 0)] if self.symmetric or self.in_batch else [(0, 1)]
        terms: dict[str, list[Tensor]] = {}
        for query, key in pairs:
            for name, value in self._of_one_view(queries[query], keys[key]).items():
                terms.setdefault(name, []).append(value)
        return {name: torch.stack(values).mean() for name, values in terms.items()}

    def _of_one_view(self, query: tuple[Tensor, Tensor], key: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
        z_q, z_k = self.joined(*query), self.joined(*key)
        if self.in_batch:
            terms = {"contrast": info_nce_in_batch(z_q, z_k, self.temperature)}
        else:
            terms = {"contrast": info_nce(z_q, z_k, self.queue.keys, self.temperature)}
        zc = query[0]
        with torch.no_grad():
            self.dominant_counts += torch.bincount(zc.argmax(1), minlength=self.clusters)
        if self.weights.get("equipartition", 1):
            source = zc if self.target_view == "same" else key[0]
            terms["equipartition"] = equipartition(zc, self.targets(source), self.t)
        if self.weights.get("self_label"):
            terms["self_label"] = self._self_label(zc, key[0])
        return terms

    @torch.no_grad()
    def targets(self, zc: Tensor) -> Tensor:
        """Balanced soft assignment of the whole batch (eq. 6), its rows that belong to this process: [B, K]."""
        scores = gather_constant(zc.detach().float())
        if self.sinkhorn_input == "zc_over_t":
            scores = scores / self.t
        q = sinkhorn(scores, self.epsilon, self.iterations, self.stabilise)
        return q[rank() * len(zc) : (rank() + 1) * len(zc)]

    def _self_label(self, zc: Tensor, other: Tensor) -> Tensor:
        """Sec. 3.6: images whose other view is confident teach this view their own label; without any, 0."""
        p, label = (other.detach() / self.t).softmax(1).max(1)
        sure = p > self.threshold
        self.confident += torch.stack([sure.sum(), torch.tensor(len(sure), device=sure.device)])
        each = F.cross_entropy(zc / self.t, label, reduction="none")
        return (each * sure).sum() / sure.sum().clamp(min=1)

    # ---- what follows a step, what is told

    def after_step(self) -> None:
        if not self.in_batch:
            super().after_step()

    def inherited(self) -> None:
        if not self.in_batch:
            super().inherited()

    def statistics(self) -> dict[str, float]:
        counts, confident = self.dominant_counts.double(), self.confident.double()
        told = {
            "occupied_clusters": float((counts > 0).sum()),
            "largest_share": float(counts.max() / counts.sum().clamp(min=1)),
        }
        if self.weights.get("self_label"):
            told["confident"] = float(confident[0] / confident[1].clamp(min=1))
        self.dominant_counts.zero_()
        self.confident.zero_()
        return told

    def chance(self) -> dict[str, float]:
        return {} if self.in_batch else super().chance()

    def features(self, x: Tensor) -> dict[str, Tensor]:
        h = self.backbone(x)
        zc, zn = self.parts(self.head(h))
        return {"h": h, "z": self.joined(zc, zn), "zc": zc, "zn": zn, "p": (zc / self.t).softmax(1)}


@full_precision
def equipartition(zc: Tensor, targets: Tensor, t: float) -> Tensor:
    """Eq. 7: cross-entropy of p = softmax(z^c / t) with the soft targets [B, K], mean over the batch."""
    return -(targets * (zc / t).log_softmax(1)).sum(1).mean()


METHOD = CDC
