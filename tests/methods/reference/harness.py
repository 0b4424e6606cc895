"""A real training of two epochs of two steps, recorded, for tests that follow it with formulas of their own.

`follow_along(name)` trains by the program's own loop from a base's weights and keeps every batch that the feed gave.
`Weights` holds copies of the starting weights in float64 and knows plain layers: with it a test writes the method's
equations down once more and arrives at weights, queues and statistics that must equal the trained ones.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from lightning_fabric import Fabric
from lightning_fabric.plugins.environments import LightningEnvironment
from torch import Tensor

from methods.method import Batch, DataFacts, Method, build_method
from pipeline.recipes import merge, resolve
from training.augmentation import normalisation
from training.checkpoint import ResumeState
from training.feed import Images
from training.loop import Outcome, TrainingData, train
from training.train import build

ROWS, BATCH, CLASSES, SEED, RATE = 16, 8, 4, 5, 0.2
CARD = {"classes": CLASSES, "shape": [8, 8, 1], "normalisation": {"mean": [0.4], "std": [0.3]}}
PLAIN = {
    "optimiser": {"name": "sgd", "lr": RATE, "momentum": 0, "weight_decay": 0},
    "schedule": {"name": "constant", "epochs": 2},
    "batch_size": BATCH,
}
NEEDS_BASE = ("scan",)  # a recipe with neighbours says in whose features they are mined
WIDTHS = {"convnet": [4, 6], "mlp": [6, 5, 3]}


class Recorded(Images):
    """The feed in memory, which keeps every batch it gives: (epoch, step, batch). `double`: everything in float64."""

    def __init__(self, *arguments: Any, double: bool):
        super().__init__(*arguments)
        self.double, self.given = double, []

    def _as_asked(self, x: Tensor | None) -> Tensor | None:
        return x.double() if self.double and x is not None else x

    def clean(self, *arguments: Any, **named: Any) -> Iterator[Tensor]:
        return (self._as_asked(x) for x in super().clean(*arguments, **named))

    def epoch(self, order, epoch, *arguments: Any, **named: Any) -> Iterator[tuple[int, Batch]]:
        for step, batch in super().epoch(order, epoch, *arguments, **named):
            batch.views, batch.partners = ([self._as_asked(x) for x in part] for part in (batch.views, batch.partners))
            batch.clean = self._as_asked(batch.clean)
            labels = None if self.labels is None else self.labels[batch.index]
            self.given.append(Step(epoch, step, batch, labels))
            yield step, batch


@dataclass
class Step:
    """What one step saw, in float64."""

    epoch: int
    number: int  # within the epoch
    batch: Batch
    labels: Tensor | None

    def __post_init__(self) -> None:
        self.views = [x.detach().clone().double() for x in self.batch.views]
        self.partners = [x.detach().clone().double() for x in self.batch.partners]
        self.clean = None if self.batch.clean is None else self.batch.clean.detach().clone().double()
        self.index = self.batch.index.clone()


@dataclass
class Run:
    """A training that has ended: what it started from, saw, and became."""

    recipe: dict[str, Any]
    method: Method
    start: dict[str, Tensor]
    steps: list[Step]
    images: Tensor  # [N, C, H, W] of the training set, normalised, without augmentation
    outcome: Outcome | None = None
    marks: list[dict[str, Tensor]] = field(default_factory=list)  # the state right after each `before_epoch`

    def epochs(self) -> Iterator[tuple[int, list[Step]]]:
        for epoch in range(len(self.marks)):
            yield epoch, [step for step in self.steps if step.epoch == epoch]

    def check(self, weights: "Weights", tolerance: float = 1e-6, without: tuple[str, ...] = ()) -> None:
        """Every tensor of the trained method's state equals the reference's, and so do the history's mean terms."""
        moved = 0.0
        for name, value in tensors(self.method).items():
            if name.startswith(without) and without:
                continue
            torch.testing.assert_close(
                value,
                weights[name].detach(),
                rtol=tolerance,
                atol=tolerance,
                msg=lambda said, name=name: f"{name}: {said}",
            )
            if value.is_floating_point() and value.numel():
                moved = max(moved, float((value - self.start[name]).abs().max()))
        assert moved > 100 * tolerance, f"nothing moved by more than {moved}: the comparison would see nothing"
        for epoch, row in enumerate(self.outcome.history):
            terms = [terms for number, terms in weights.terms if number == epoch]
            for name in terms[0]:
                mean = sum(each[name] for each in terms) / len(terms)
                assert abs(row[name] - mean) <= 10 * tolerance * max(1, abs(mean)), (epoch, name, row[name], mean)


def tensors(method: Method) -> dict[str, Tensor]:
    """Copies of a method's parameters and buffers, floats in float64."""
    state = {name: value for name, value in method.state_dict().items() if isinstance(value, Tensor)}
    return {name: (v.double() if v.is_floating_point() else v).detach().clone() for name, v in state.items()}


def follow_along(
    name: str,
    *,
    double: bool = True,
    rows: int = ROWS,
    neighbours: bool = False,
    labels: bool = False,
    base: Callable[[Method], None] = lambda method: None,
    prepare: Callable[[Method], None] = lambda method: None,
    **changes: Any,
) -> Run:
    """Train the recipe `name` on random images; `changes` are those of the recipe. `base` may touch the method whose
    weights are inherited, `prepare` the one that is to start.
    """
    backbone = resolve(name, "digits")["network"]["backbone"]
    small = PLAIN if name in NEEDS_BASE else merge(PLAIN, {"base": None})
    small = merge(small, {"network": {"widths": WIDTHS[backbone]}})
    if backbone == "convnet":
        small = merge(small, {"network": {"pool_after": [0], "split_batch_norm": None}})
    own = {key: value for key, value in changes.items() if key in ("settings", "weights")}
    everywhere = {key: value for key, value in changes.items() if key not in own}
    recipe = resolve(name, "digits", {"*": merge(small, everywhere), name: own})
    targets = np.arange(rows) % CLASSES if labels else None
    feed = Recorded(pictures(rows), targets, torch.device("cpu"), double=double)
    near = torch.from_numpy(np.stack([np.arange(rows), (np.arange(rows) + CLASSES) % rows], axis=1))
    data = TrainingData(feed, normalisation(recipe, CARD), near if neighbours else None)
    method = _started(recipe, rows, base)
    with torch.no_grad():
        prepare(method)
    if double:
        method.double()
    run = Run(recipe, method, tensors(method), feed.given, torch.empty(0))
    plain = method.before_epoch

    def marked(context):
        run.images = context.clean(torch.arange(rows)).double()
        plain(context)
        run.marks.append(tensors(method))

    method.before_epoch = marked
    fabric = Fabric(accelerator="cpu", devices=1, plugins=[LightningEnvironment()])
    run.outcome = train(fabric, method, recipe, data, SEED, ResumeState("nowhere"), 10)
    assert run.outcome.status == "ok", run.outcome
    return run


def pictures(rows: int) -> np.ndarray:
    """Noisy images [rows, 8, 8, 1] of CLASSES kinds, for clusters to find: rows, columns, a bright half, a dark one."""
    down, across = np.mgrid[:8, :8]
    kinds = np.stack([down % 2, across % 2, across < 4, 0 * down]).astype(float)[..., None]
    noise = np.random.default_rng(0).random((rows, 8, 8, 1))
    return (0.7 * kinds[np.arange(rows) % CLASSES] + 0.3 * noise).astype(np.float32)


def centred(layer: str, factor: float) -> Callable[[Method], None]:
    """Makes outputs of the linear map `layer` of h differ between images: 0 in the mean, `factor` times as far."""

    def change(method: Method) -> None:
        *path, last = layer.split(".")
        linear = method.get_submodule(layer)
        h = method.backbone((torch.from_numpy(pictures(ROWS)).permute(0, 3, 1, 2) - 0.4) / 0.3)
        if path and last.isdecimal():  # a head of several layers
            h = method.get_submodule(".".join(path))[: int(last)](h)
        linear.weight.mul_(factor)
        linear.bias.copy_(-linear.weight @ h.mean(0))

    return change


def _started(recipe: Mapping[str, Any], rows: int, touch: Callable[[Method], None]) -> Method:
    """The method as stage `train` builds it, with the weights of a base: another network of the same form."""
    torch.manual_seed(99)
    base = build_method(recipe, DataFacts(CLASSES, (8, 8, 1), rows))
    for buffer_name, buffer in base.named_buffers():
        if buffer_name.endswith(("running_mean", "running_var")):
            buffer += 0.1 * torch.rand(buffer.shape)
    with torch.no_grad():
        touch(base)
    state = base.state_dict()
    inputs = SimpleNamespace(
        data=SimpleNamespace(card=CARD), recipe=recipe, rows=np.arange(rows), base={"method": state}
    )
    method, _ = build(inputs, SEED, "base")
    for part in method.inherits:  # not a parameter: a recipe's base has these parts
        assert all(torch.equal(v, state[f"{part}.{k}"]) for k, v in getattr(method, part).state_dict().items())
    return method


class Weights(dict[str, Tensor]):
    """Weights by name in float64, of which those under `learned` take gradients; plain layers written out."""

    def __init__(self, run: Run, *learned: str):
        super().__init__(run.start)
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
