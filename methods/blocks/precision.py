"""Losses keep float32 or better when the network around them runs in bfloat16."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def full_precision(function: Callable) -> Callable:
    """Run `function` outside autocast, with half-precision tensor arguments raised to float32.

    Under autocast even a product of float32 tensors is computed in bfloat16, whose three digits are too few for
    exponentials at temperature 0.1.
    """

    @functools.wraps(function)
    def outside_autocast(*arguments: Any, **named: Any) -> Any:
        arguments = tuple(map(_raised, arguments))
        named = {name: _raised(value) for name, value in named.items()}
        device = next((a.device.type for a in (*arguments, *named.values()) if isinstance(a, Tensor)), "cpu")
        with torch.autocast(device, enabled=False):
            return function(*arguments, **named)

    return outside_autocast


def _raised(value: Any) -> Any:
    half = isinstance(value, Tensor) and value.dtype in (torch.bfloat16, torch.float16)
    return value.float() if half else value
