"""A real training of two epochs of two steps, recorded, for tests that follow it with formulas of their own.

`follow_along(name)` trains by the program's own loop from a base's weights and keeps every batch that the feed gave.
With `Weights` (weights.py) a test writes the method's equations down once more and arrives at weights, queues and
statistics that must equal the trained ones.
"""

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from methods.method import Batch, DataFacts, Method, build_method
from pipeline.recipes import merge, resolve
from tests.methods.reference.weights import RATE, Weights
from training.augmentation import normalisation
from training.checkpoint import ResumeState
from training.fabric import Fabric, LightningEnvironment
from training.feed import Images
from training.loop import Outcome, TrainingData, train
from training.train import build

ROWS, BATCH, CLASSES, SEED = 16, 8, 4, 5
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

    def check(self, weights: Weights, tolerance: float = 1e-6, without: tuple[str, ...] = ()) -> None:
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


def normalised_pictures() -> Tensor:
    """The images [ROWS, 1, 8, 8] as training without augmentation sees them."""
    return (torch.from_numpy(pictures(ROWS)).permute(0, 3, 1, 2) - 0.4) / 0.3


def centred(layer: str, factor: float) -> Callable[[Method], None]:
    """Makes outputs of the linear map `layer` of h differ between images: 0 in the mean, `factor` times as far."""

    def change(method: Method) -> None:
        *path, last = layer.split(".")
        linear = method.get_submodule(layer)
        # Of a copy: running statistics stay what the base left.
        h = copy.deepcopy(method.backbone)(normalised_pictures())
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
