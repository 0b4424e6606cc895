"""Batch norm over parts of a batch: one device behaves like several, as MoCo needs against leaking batch statistics."""

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn


class SplitBatchNorm2d(nn.BatchNorm2d):
    """BatchNorm2d over `splits` interleaved parts of the batch: sample n belongs to part n mod splits.

    Training normalises each part by its own statistics and keeps running statistics of each; evaluation uses their
    mean. Weight and bias are shared. With one split it is BatchNorm2d. The batch must be a multiple of `splits`.
    (He et al.'s MoCo demonstration for CIFAR.)
    """

    def __init__(self, features: int, splits: int, eps: float = 1e-5, momentum: float = 0.1):
        super().__init__(features, eps, momentum)
        self.splits = splits
        self.running_mean = torch.zeros(features * splits)
        self.running_var = torch.ones(features * splits)

    def forward(self, x: Tensor) -> Tensor:
        images, channels, height, width = x.shape
        if not self.training:
            mean, variance = (v.view(self.splits, channels).mean(0) for v in (self.running_mean, self.running_var))
            return F.batch_norm(x, mean, variance, self.weight, self.bias, False, 0.0, self.eps)
        if images % self.splits:
            raise ValueError(f"batch of {images} for {self.splits} splits: the batch must be a multiple of the splits")
        self.num_batches_tracked.add_(1)
        parts = x.reshape(images // self.splits, self.splits * channels, height, width)
        out = F.batch_norm(
            parts,
            self.running_mean,
            self.running_var,
            self.weight.repeat(self.splits),
            self.bias.repeat(self.splits),
            True,
            self.momentum,
            self.eps,
        )
        out = out.view(images, channels, height, width)
        # The parts lie channels first; what follows (pooling in bfloat16 above all) is many times slower on that.
        return out.contiguous(memory_format=torch.channels_last) if _channels_last(x) else out


def _channels_last(x: Tensor) -> bool:
    return x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()


def split_batch_norm(module: nn.Module, splits: int) -> None:
    """Replace every BatchNorm2d in `module` by a SplitBatchNorm2d with the same weight and bias."""
    for name, child in module.named_children():
        if isinstance(child, nn.BatchNorm2d):
            new = SplitBatchNorm2d(child.num_features, splits, child.eps, child.momentum)
            new.weight, new.bias = child.weight, child.bias
            setattr(module, name, new)
        else:
            split_batch_norm(child, splits)


def shuffled(x: Tensor, generator: Generator | None = None) -> tuple[Tensor, Tensor]:
    """(x in a random order, index that undoes it): keys are shuffled before split batch norm and put back after."""
    order = torch.randperm(len(x), generator=generator).to(x.device)
    return x[order], order.argsort()
