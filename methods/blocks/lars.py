"""LARS: SGD whose step is adapted layer by layer (You et al., arXiv 1708.03888, eq. 6), with solo-learn's clipping.

lightly's skips every parameter without weight decay, so that with weight_decay 0 it is plain SGD; here what is adapted
is said apart.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

EPS = 1e-8


class LARS(torch.optim.Optimizer):
    """For each parameter w with gradient g: v <- momentum v + rate (g + weight_decay w), then w <- w - lr v, with

    rate = trust |w| / (|g| + weight_decay |w|), and with `clip_lr` min(rate / lr, 1): no step is longer than SGD's.

    Where w or g is zero, and with `exclude_flat` for parameters of one dimension (biases, norm layers), it is plain
    momentum: rate 1, no decay. Raises ValueError for settings below 0.
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        trust: float = 0.001,
        clip_lr: bool = False,
        exclude_flat: bool = False,
    ):
        numbers = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "trust": trust}
        if wrong := [name for name, value in numbers.items() if value < 0]:
            raise ValueError(f"LARS: {wrong[0]} is {numbers[wrong[0]]}, must be 0 or more")
        super().__init__(params, {**numbers, "clip_lr": clip_lr, "exclude_flat": exclude_flat})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One step; the loss, where a closure computes it again."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                flat = group["exclude_flat"] and parameter.ndim <= 1
                update = parameter.grad if flat else _adapted(parameter, group)
                if group["momentum"]:
                    state = self.state[parameter]
                    if "momentum_buffer" in state:
                        state["momentum_buffer"].mul_(group["momentum"]).add_(update)
                    else:
                        state["momentum_buffer"] = update.clone()
                    update = state["momentum_buffer"]
                parameter.add_(update, alpha=-group["lr"])
        return loss


def _adapted(parameter: Tensor, group: dict[str, Any]) -> Tensor:
    """rate (g + weight_decay w), of w's shape; without a decision on the host, which would wait for the device."""
    gradient, decay = parameter.grad, group["weight_decay"]
    size, slope = torch.linalg.vector_norm(parameter), torch.linalg.vector_norm(gradient)
    rate = size / (slope + size * decay + EPS) * group["trust"]
    if group["clip_lr"]:
        rate = (rate / group["lr"]).clamp(max=1)
    return torch.where((size != 0) & (slope != 0), gradient.add(parameter, alpha=decay) * rate, gradient)
