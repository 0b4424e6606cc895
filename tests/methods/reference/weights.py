"""Copies of a run's starting weights in float64, plain layers, and what the methods' formulas share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

if TYPE_CHECKING:
    from tests.methods.reference.harness import Run, Step

RATE = 0.2  # of plain gradient descent


class Weights(dict[str, Tensor]):
    """Weights by name in float64, of which those under `learned` take gradients; plain layers written out."""

    def __init__(self, run: Run, *learned: str):
        super().__init__({name: value.clone() for name, value in run.start.items()})
        self.recipe, self.terms = run.recipe, []
        parameters = [name for name in self if self[name].is_floating_point() and "running_" not in name]
        self.learned = [name for name in parameters if name.startswith(tuple(f"{part}" for part in learned))]
        for name in self.learned:
            self[name].requires_grad_()

    def copy_of(self, copy: str, *parts: str) -> None:
        """The network `copy` starts as the query network."""
        for name in list(self):
            if name.startswith(tuple(f"{part}." for part in parts)):
                self[f"{copy}.{name}"] = self[name].detach().clone()

    def drift(self, copy: str, momentum: float, *parts: str, buffers: bool = False) -> None:
        """theta_k <- m theta_k + (1 - m) theta_q; with `buffers` the copy's buffers become the query network's."""
        for name in list(self):
            if not name.startswith(tuple(f"{part}." for part in parts)):
                continue
            buffer = "running_" in name or not self[name].is_floating_point()
            if not buffer:
                mean = momentum * self[f"{copy}.{name}"] + (1 - momentum) * self[name].detach()
                self[f"{copy}.{name}"] = mean
            elif buffers:
                self[f"{copy}.{name}"] = self[name].clone()

    def step(self, step: Step, terms: Mapping[str, Tensor], rate: float = RATE) -> None:
        """Plain gradient descent on the weighted sum of the terms."""
        self.terms.append((step.epoch, {name: float(torch.as_tensor(value).detach()) for name, value in terms.items()}))
        total = sum(self.recipe["weights"][name] * value for name, value in terms.items())
        leaves = [self[name] for name in self.learned]
        gradients = torch.autograd.grad(total, leaves, allow_unused=True)
        for name, gradient in zip(self.learned, gradients, strict=True):
            if gradient is not None:
                self.move(name, -rate * gradient)

    def move(self, name: str, change: Tensor) -> None:
        self[name] = (self[name].detach() + change).requires_grad_()

    # ---- layers

    def batch_norm(self, name: str, x: Tensor, training: bool) -> Tensor:
        """x [B, C, ...]: by statistics of the batch (which move the running ones by a tenth), or by the running ones.

        With running statistics of several parts, row n belongs to part n mod parts.
        """
        width = x.shape[1]
        parts = len(self[f"{name}.running_mean"]) // width
        axes = [axis for axis in range(x.dim()) if axis != 1]
        shape = [1, -1, *[1] * (x.dim() - 2)]
        out = torch.empty_like(x)
        means, variances = (self[f"{name}.running_{kind}"].clone().view(parts, width) for kind in ("mean", "var"))
        for part in range(parts):
            rows = x[part::parts]
            mean, variance = means.mean(0), variances.mean(0)
            if training:
                mean, variance = rows.mean(axes), rows.var(axes, correction=0)
                count = rows.numel() / width
                means[part] = 0.9 * means[part] + 0.1 * mean.detach()
                variances[part] = 0.9 * variances[part] + 0.1 * variance.detach() * count / (count - 1)
            out[part::parts] = (rows - mean.view(shape)) / (variance.view(shape) + 1e-5).sqrt()
        if training:
            self[f"{name}.running_mean"], self[f"{name}.running_var"] = means.flatten(), variances.flatten()
            self[f"{name}.num_batches_tracked"] = self[f"{name}.num_batches_tracked"] + 1
        return out * self[f"{name}.weight"].view(shape) + self[f"{name}.bias"].view(shape)

    def convnet(self, x: Tensor, name: str = "backbone", training: bool = True) -> Tensor:
        """[B, 1, 8, 8] -> h [B, 6]: two 3x3 convolutions with batch norm and ReLU, pooling after the first."""
        x = F.conv2d(x, self[f"{name}.layers.0.weight"], padding=1)
        x = F.max_pool2d(self.batch_norm(f"{name}.layers.1", x, training).relu(), 2)
        x = F.conv2d(x, self[f"{name}.layers.4.weight"], padding=1)
        return self.batch_norm(f"{name}.layers.5", x, training).relu().mean((2, 3))

    def stack(self, x: Tensor, name: str, training: bool = True) -> Tensor:
        """Linear layers and batch norm `name.0`, `name.1`, ...: a number without weights is a ReLU."""
        places = sorted({int(k.removeprefix(f"{name}.").split(".")[0]) for k in self if k.startswith(f"{name}.")})
        for place in range(places[-1] + 1):
            layer = f"{name}.{place}"
            if place not in places:
                x = x.relu()
            elif f"{layer}.running_mean" in self:
                x = self.batch_norm(layer, x, training)
            else:
                x = x @ self[f"{layer}.weight"].T
                x = x + self[f"{layer}.bias"] if f"{layer}.bias" in self else x
        return x

    def embed(self, x: Tensor, copy: str = "", training: bool = True) -> Tensor:
        """The head's output on the backbone's, of the network itself or of its `copy`."""
        prefix = f"{copy}." if copy else ""
        return self.stack(self.convnet(x, f"{prefix}backbone", training), f"{prefix}head", training)


def unit(x: Tensor) -> Tensor:
    """Rows of length 1."""
    return x / x.square().sum(1, keepdim=True).sqrt()


def cross_entropy(logits: Tensor, place: Tensor) -> Tensor:
    """-log of the softmax at `place` [B], mean over rows of logits [B, K]."""
    chosen = logits[torch.arange(len(logits)), place]
    return (torch.logsumexp(logits, 1) - chosen).mean()


def enqueue(weights: Weights, name: str, keys: Tensor) -> None:
    """Write keys [B, D] over the oldest of the ring `name`."""
    queue, place = weights[f"{name}.keys"].clone(), int(weights[f"{name}.place"])
    for key in keys.detach():
        queue[place] = key
        place = (place + 1) % len(queue)
    weights[f"{name}.keys"], weights[f"{name}.place"] = queue, torch.tensor(place)


def balanced(scores: Tensor, epsilon: float, iterations: int) -> Tensor:
    """Sinkhorn: columns, then rows, of exp(scores / epsilon) are scaled to sum 1, so many times."""
    q = (scores.detach() / epsilon).exp()
    for _ in range(iterations):
        q = q / q.sum(0)
        q = (q.T / q.sum(1)).T
    return q
