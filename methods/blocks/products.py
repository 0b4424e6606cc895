"""Matrix products of float32 on the CPU by the faster of torch's two libraries.

torch's own come from MKL, which uses AVX-512 on Intel alone; oneDNN uses it everywhere and is up to twice as fast on
AMD (docs/results.md). Without AVX-512, and in other precisions, these are the plain products.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def by_onednn(x: Tensor) -> bool:
    """Whether products with x are oneDNN's here; under autocast torch itself goes there."""
    plain = x.device.type == "cpu" and x.dtype == torch.float32 and not torch.is_autocast_enabled("cpu")
    wide = torch.backends.mkldnn.is_available() and torch.backends.cpu.get_cpu_capability() == "AVX512"
    return plain and wide and x.numel() > 0 and not torch.compiler.is_compiling()


def factor(x: Tensor, scale: float = 1.0) -> Tensor:
    """scale * x [n, d], made ready once to be the left side of any number of `product`s; not differentiable."""
    x = scale * x.detach()
    return x.to_mkldnn() if by_onednn(x) else x


def product(left: Tensor, right: Tensor, bias: Tensor | None = None) -> Tensor:
    """left [n, d], a `factor`, and right [m, d] -> left right^T (+ bias, broadcast to [n, m]).

    Raises ValueError where `left` is in oneDNN's layout and `right` is not float32 on the CPU.
    """
    if left.is_mkldnn:
        if right.dtype != torch.float32 or right.device.type != "cpu":
            raise ValueError(f"a factor in float32 on the CPU, and {right.dtype} on {right.device}: give both the same")
        products = F.linear(left, right.contiguous()).to_dense()
        return products if bias is None else products.add_(bias)
    return left @ right.T if bias is None else torch.addmm(bias, left, right.T)
