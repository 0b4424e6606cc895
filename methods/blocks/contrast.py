"""Contrastive losses."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor


def nt_xent(z1: Tensor, z2: Tensor, temperature: float, anchors: Literal["both", "first"] = "both") -> Tensor:
    """NT-Xent, the loss of SimCLR (MIX'EM eqs. 1-2): mean over anchors of logsumexp(s / t) - s_positive / t.

    z1, z2 [B, D]: embeddings of two views of the same B images, of any scale (cosine similarity). Every anchor has one
    positive and 2B - 2 negatives; similarity with itself is masked, not subtracted. `anchors`: the 2B rows of both
    views, or the B rows of the first (SCAN's form). Computed in float32 or better.
    """
    z = F.normalize(torch.cat([z1, z2]).float() if z1.dtype != torch.float64 else torch.cat([z1, z2]), dim=1)
    rows = len(z1)
    similarity = z @ z.T / temperature
    similarity = similarity.masked_fill(torch.eye(2 * rows, dtype=torch.bool, device=z.device), -torch.inf)
    partner = torch.arange(2 * rows, device=z.device).roll(rows)
    if anchors == "first":
        similarity, partner = similarity[:rows], partner[:rows]
    return F.cross_entropy(similarity, partner)
