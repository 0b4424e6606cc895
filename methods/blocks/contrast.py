"""Contrastive losses."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from methods.blocks.distributed import gather, rank
from methods.blocks.precision import full_precision


@full_precision
def nt_xent(z1: Tensor, z2: Tensor, temperature: float, anchors: Literal["both", "first"] = "both") -> Tensor:
    """NT-Xent, the loss of SimCLR (MIX'EM eqs. 1-2): mean over anchors of logsumexp(s / t) - s_positive / t.

    z1, z2 [B, D]: embeddings of two views of the same B images, of any scale (cosine similarity). Every anchor has one
    positive and 2B - 2 negatives; similarity with itself is masked, not subtracted. `anchors`: the 2B rows of both
    views, or the B rows of the first (SCAN's form). Computed in float32 or better. With several processes B counts the
    images of all of them, and the mean over processes is the loss.
    """
    z1, z2 = F.normalize(z1, dim=1), F.normalize(z2, dim=1)
    # Anchors are the rows of this process, candidates those of all.
    all1, all2 = gather(z1), gather(z2)
    rows, images = len(z1), len(all1)
    first = torch.arange(rows, device=z1.device) + rank() * rows  # place of each anchor of view 1 among the candidates
    second = first + images
    queries, itself, partner = z1, first, second
    if anchors == "both":
        queries, itself, partner = torch.cat([z1, z2]), torch.cat([first, second]), torch.cat([second, first])
    similarity = queries @ torch.cat([all1, all2]).T / temperature
    similarity = similarity.scatter(1, itself.unsqueeze(1), -torch.inf)
    return F.cross_entropy(similarity, partner)


@full_precision
def info_nce(q: Tensor, k: Tensor, queue: Tensor, temperature: float) -> Tensor:
    """InfoNCE against a queue (MoCo eq. 1): q, k [B, D] of the same images, queue [N, D]; mean over the batch.

    Each row has its key as the positive and the whole queue as negatives; no other key of the batch. Vectors are taken
    as they are. No gradient reaches keys or queue.
    """
    q = q / temperature  # [B, D] once, not the [B, 1 + N] logits
    positive = (q * k.detach()).sum(1, keepdim=True)
    logits = torch.cat([positive, q @ queue.detach().to(q).T], dim=1)
    return F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long, device=q.device))


@full_precision
def info_nce_in_batch(q: Tensor, k: Tensor, temperature: float) -> Tensor:
    """InfoNCE within the batch (CDC eq. 2): row i of q [B, D] against all keys k [B, D], its own the positive.

    Vectors are taken as they are. With several processes the keys are those of all of them.
    """
    keys = gather(k)
    positive = torch.arange(len(q), device=q.device) + rank() * len(q)
    return F.cross_entropy(q @ keys.T / temperature, positive)
