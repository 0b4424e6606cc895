"""The loss of the autoencoder family."""

import torch.nn.functional as F
from torch import Tensor


def reconstruction(rebuilt: Tensor, x: Tensor) -> Tensor:
    """Mean over samples and dimensions of the squared error of rebuilt, x [B, d], in float32."""
    return F.mse_loss(rebuilt.float(), x.float())
