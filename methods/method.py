"""The interface between one method and the loop that runs it."""

import hashlib
import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from methods.blocks.networks import backbone


@dataclass(frozen=True)
class DataFacts:
    """What a method may know of its data set: number of classes (never a label), image shape, training rows."""

    classes: int
    shape: tuple[int, int, int]  # height, width, channels
    rows: int


@dataclass
class Batch:
    """What the loop hands to `Method.losses`.

    `views`: `Method.views` independently augmented, normalised versions of the same images, each float [B, C, H, W];
    with `views = 0` one normalised version without augmentation. `index` [B] numbers the training rows from 0.
    `labels` [B] is there only for methods that declare `uses_labels`; `clean` [B, C, H, W], the images without
    augmentation, for those with `clean_view`; `partners`, as many views of a neighbour of each image, for those with
    `uses_neighbours`.
    """

    views: list[Tensor]
    index: Tensor
    labels: Tensor | None = None
    clean: Tensor | None = None
    partners: list[Tensor] = field(default_factory=list)


@dataclass
class Watched:
    """Images that train nothing, in chunks [n, C, H, W], without labels, and the neighbours [N, k + 1] of each."""

    images: Callable[[], Iterator[Tensor]]
    neighbours: Tensor


@dataclass
class Context:
    """What a method sees at the borders of an epoch.

    `clean(rows)` gives normalised images without augmentation, [n, C, H, W]; `seed(*path)` a seed that depends on the
    run's seed and the given words alone. `watched` is there where the recipe's `neighbours` ask for it: the scored
    images, by which a method may choose what it keeps.
    """

    epoch: int
    epochs: int
    rows: int
    clean: Callable[[Tensor], Tensor]
    seed: Callable[..., int]
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    step: int = 0  # steps since the start of training
    steps: int = 0  # steps of the whole training
    batch_size: int = 1  # images a step, over all processes
    watched: Watched | None = None

    def chunks(self, size: int) -> Iterator[Tensor]:
        """All training images in the order of their rows, without augmentation, [<= size, C, H, W] at a time."""
        for rows in torch.arange(self.rows, device=self.device).split(size):
            yield self.clean(rows)


class Method(nn.Module):
    """One method: a backbone, what stands on it, and its loss terms.

    A method file holds one subclass (or a small family), and ends with `METHOD = TheClass`. The constructor takes
    `(backbone, data)` and, keyword-only and annotated, every key of the recipe's `settings`. Everything a method keeps
    between steps is a parameter or buffer (or extra state), so that it is part of the state a run resumes from.
    """

    terms: ClassVar[tuple[str, ...]] = ()  # names of the loss terms, a literal; weights come from the recipe
    views: ClassVar[int] = 2
    uses_labels: ClassVar[bool] = False
    uses_neighbours: ClassVar[bool] = False  # the recipe's `neighbours` say which (stage `mine`)
    clean_view: ClassVar[bool] = False
    drop_last: ClassVar[bool] = True  # contrastive losses depend on the batch size; others may take the rest
    finished: bool = False  # a method that knows it has converged says so; training ends with that epoch
    inherits: ClassVar[tuple[str, ...]] = ("backbone",)  # parts that take the weights of the base recipe's model

    def __init__(self, backbone: nn.Module, data: DataFacts):
        super().__init__()
        self.backbone = backbone
        self.data = data
        self.frozen = False
        self.weights: Mapping[str, float] = {}  # the recipe's, for terms that a method does not leave to the loop

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Named scalar terms; the loop minimises their sum weighted by the recipe's `weights`."""
        raise TypeError(f"{type(self).__name__} has no losses: its recipe must say epochs: 0")

    def freeze_backbone(self) -> None:
        """No gradient for the backbone, and eval mode for good: its batch-norm statistics stay as they are."""
        self.frozen = True
        self.backbone.requires_grad_(False)
        self.train(self.training)

    def train(self, mode: bool = True) -> "Method":
        super().train(mode)
        if self.frozen:
            self.backbone.eval()
        return self

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        return self.losses(batch)

    def inherited(self) -> None:
        """Work after the base's weights have been loaded (a key encoder that starts as a copy)."""

    def before_epoch(self, context: Context) -> None:
        """Work on the whole training set before an epoch (an E-step, a target distribution, neighbours)."""

    def before_step(self, context: Context) -> None:
        """Work before each step (a target distribution that is refreshed every so many steps)."""

    def after_step(self) -> None:
        """Work after each optimiser step (momentum update, queue)."""

    def after_epoch(self, context: Context) -> None:
        """Work on the whole training set after an epoch."""

    def statistics(self) -> dict[str, float]:
        """Numbers for this epoch's row of the history (occupied components, ...); called once, at the epoch's end."""
        return {}

    def chance(self) -> dict[str, float]:
        """Term -> its value when nothing is told apart (ln K of a uniform assignment): a loss that sits there has
        collapsed, which the history and the record say.
        """
        return {}

    def features(self, x: Tensor) -> dict[str, Tensor]:
        """x [B, C, H, W], normalised -> h [B, d] (backbone), and where the method has them z [B, D], p [B, K]."""
        return {"h": self.backbone(x)}


def digest(module: nn.Module) -> str:
    """Hash of every parameter and buffer of a module, batch-norm statistics among them: 16 hex digits."""
    summed = hashlib.sha256()
    for name, value in sorted(module.state_dict().items()):
        summed.update(f"{name}\0".encode())
        summed.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return summed.hexdigest()[:16]


def load_method(name: str) -> type[Method]:
    """The class of methods/{name}.py."""
    return importlib.import_module(f"methods.{name}").METHOD


def build_method(recipe: Mapping[str, Any], data: DataFacts) -> Method:
    """A fresh method with random weights (from torch's global generator), as the recipe says."""
    kind = load_method(recipe["method"])
    method = kind(backbone(recipe["network"], data.shape), data, **recipe["settings"])
    method.weights = recipe["weights"]
    if recipe["network"].get("frozen"):
        method.freeze_backbone()
    return method
