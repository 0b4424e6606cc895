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
    `labels` [B] is set only for methods that declare `uses_labels`; `clean` [B, C, H, W], the images without
    augmentation, for those with `clean_view`; `partners`, as many views of one neighbour of each image, for those with
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
    run's seed and the words of `path` alone. `watched` is set where the recipe's `neighbours` ask for it: the scored
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
    """One method: a backbone, the heads on it, and its loss terms. What follows is all one needs to write another.

    **Files.** methods/NAME.py, which ends with `METHOD = TheClass` (so it is found: no list names it),
    config/recipes/NAME.yaml, tests/methods/test_NAME.py; docs/extending.md walks through them. The file imports blocks
    and this module, never another method, and its class derives from `Method` alone: what two methods share is a block
    that both hold. tests/methods/test_contract.py checks all that follows for every method.

    **Settings.** A module-level frozen dataclass `Settings`, one typed field per key of the recipe's `settings` (int,
    float, bool, str, list, dict, None, Literal and unions of them); the pipeline checks recipes against its source
    before any job starts. The constructor takes `(backbone, data, settings)` and calls `super().__init__` with all
    three; a method without settings needs neither the dataclass nor a constructor.

    **Class attributes**, literals all, since the pipeline reads some of them from the source:
      terms: names of the loss terms. The recipe's `weights` has one number for each.
      views: augmented views of an image in a batch; 0: one version without augmentation.
      clean_view: the batch also holds the images without augmentation.
      uses_labels: the batch holds labels; then the method trains on the probes' splits, never on scored labels.
      uses_neighbours: the batch holds views of a mined neighbour of each image; the recipe's `neighbours` say which.
      drop_last: leave out the incomplete last batch (contrastive losses depend on the size of the batch).
      inherits: parts (attributes) that take their weights from the model of the recipe's `base`.
      may_be_empty: a batch may hold nothing to learn from (no confident image); `empty` then says whether the last did.
      max_rows: with more training rows its memory would not do; such data are refused before any job.

    **Order of calls.** Once: constructor, weights of the base or of a file, `inherited`. Then in every epoch:
      `before_epoch(context)`, on the whole training set (an E-step, a target distribution);
      for every batch: `before_step(context)`, `losses(batch)`, backward pass, optimiser step, `after_step()`; of an
      empty batch (`may_be_empty`) only the first two;
      `after_epoch(context)`, `statistics()`, `chance()`: the last two fill the epoch's row of the history.
    Training ends after the recipe's epochs, or with the first epoch after which `finished` is true. `features(x)` is
    called in eval mode, without gradient, after training and for snapshots; it draws no random number.

    **Resume is exact.** A run may be killed after any step and goes on in a new process from the `state_dict`. So what
    a method keeps between two steps is a parameter, a buffer or extra state (`get_extra_state`), and buffers have their
    final shape in the constructor. Plain attributes may be derived from settings, or carry something from `losses` to
    the `after_step` of the same step, no further. torch's generator is seeded before each hook and each step: draw from
    it on the CPU, or ask `context.seed`.

    **Several processes.** Each has its share of every batch. Gradients and terms are averaged over processes, so a mean
    over rows needs no care; whatever looks at the batch as a whole gathers first (blocks/distributed.py: `gather` with
    gradient, `gather_constant` without). Every process must end each step with equal buffers: random work on the whole
    set is done in process 0 and broadcast (blocks/shared_kmeans.py), counters count all rows (blocks/occupancy.py).

    >>> @dataclass(frozen=True)
    ... class Settings:
    ...     scale: float  # of the cosine
    >>> class Attract(Method):  # -s cos(f(x1), f(x2)): two views attract each other
    ...     terms = ("attraction",)
    ...     def losses(self, batch):
    ...         h1, h2 = (self.backbone(view) for view in batch.views)
    ...         return {"attraction": -self.settings.scale * torch.cosine_similarity(h1, h2).mean()}
    >>> method = Attract(backbone({"backbone": "none"}, (8, 8, 1)), DataFacts(10, (8, 8, 1), 64), Settings(2.0))
    >>> x = torch.ones(4, 1, 8, 8)
    >>> method(Batch([x, x], torch.arange(4)))
    {'attraction': tensor(-2.)}
    >>> method.features(x)["h"].shape
    torch.Size([4, 64])
    """

    terms: ClassVar[tuple[str, ...]] = ()
    views: ClassVar[int] = 2
    uses_labels: ClassVar[bool] = False
    uses_neighbours: ClassVar[bool] = False
    clean_view: ClassVar[bool] = False
    drop_last: ClassVar[bool] = True
    inherits: ClassVar[tuple[str, ...]] = ("backbone",)
    may_be_empty: ClassVar[bool] = False
    max_rows: ClassVar[int | None] = None
    finished: bool = False  # a method that knows when it has converged makes this a property

    def __init__(self, backbone: nn.Module, data: DataFacts, settings: Any = None):
        super().__init__()
        self.backbone = backbone
        self.data = data
        self.settings = settings
        self.frozen = False
        self.weights: Mapping[str, float] = {}  # the recipe's, per term

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Named scalar terms, before weighting; the loop minimises their sum weighted by the recipe's `weights`.

        A term may be left out of a step, and one that is not `active` need not be computed.
        """
        raise TypeError(f"{type(self).__name__} has no losses: its recipe must say epochs: 0")

    def weight(self, term: str) -> float:
        """The recipe's weight of the term; 1 before any recipe has set weights."""
        return self.weights.get(term, 1)

    def active(self, term: str) -> bool:
        """Whether the recipe's weight of the term is not 0. An ablation is a weight of 0, never a setting."""
        return self.weight(term) != 0

    def empty(self) -> bool:
        """Whether the batch that `losses` saw last, over all processes, held nothing to learn from.

        The loop then leaves weights, batch-norm statistics, optimiser and `after_step` alone. Asked only where the
        method says `may_be_empty`, once a step: it waits for the device.
        """
        return False

    def freeze_backbone(self) -> None:
        """No gradient for the backbone, and eval mode for good: its batch-norm statistics stay as they are.

        A block that holds a copy of the backbone (KeyEncoder) has a `freeze_backbone` of its own, called from here.
        """
        self.frozen = True
        self.backbone.requires_grad_(False)
        for part in self.children():
            if hasattr(part, "freeze_backbone"):
                part.freeze_backbone()
        self.train(self.training)

    def train(self, mode: bool = True) -> "Method":
        super().train(mode)
        if self.frozen:
            self.backbone.eval()
        return self

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        return self.losses(batch)

    def inherited(self) -> None:
        """Called after weights were loaded from the base or a file: make equal what starts as a copy (key encoder)."""

    def before_epoch(self, context: Context) -> None:
        """Work on the whole training set before an epoch (an E-step, a target distribution, neighbours)."""

    def before_step(self, context: Context) -> None:
        """Work before each step (a target distribution that is refreshed every so many steps)."""

    def after_step(self) -> None:
        """Work after each optimiser step (momentum update, queue)."""

    def after_epoch(self, context: Context) -> None:
        """Work on the whole training set after an epoch."""

    def statistics(self) -> dict[str, float]:
        """Numbers for this epoch's row of the history (occupied components, ...). Called once, at the epoch's end, so
        counters start anew here.
        """
        return {}

    def chance(self, batch_size: int) -> dict[str, float]:
        """Term -> its value when all images get the same output (ln K for a uniform assignment to K clusters).

        `batch_size` counts the images of a step over all processes. A loss that sits there has collapsed; the history
        and the record then say so.
        """
        return {}

    def features(self, x: Tensor) -> dict[str, Tensor]:
        """x [B, C, H, W], normalised -> h [B, d] (backbone), and where the method has them z [B, D] (embedding) and
        p [B, K] (probabilities of the clusters).
        """
        return {"h": self.backbone(x)}


def digest(module: nn.Module) -> str:
    """Hash of every parameter and buffer of a module, batch-norm statistics among them: 16 hex digits."""
    hashed = hashlib.sha256()
    for name, value in sorted(module.state_dict().items()):
        hashed.update(f"{name}\0".encode())
        hashed.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return hashed.hexdigest()[:16]


def load_method(name: str) -> type[Method]:
    """The class of methods/{name}.py."""
    return importlib.import_module(f"methods.{name}").METHOD


def build_method(recipe: Mapping[str, Any], data: DataFacts) -> Method:
    """A fresh method with random weights (from torch's global generator), as the recipe says."""
    module = importlib.import_module(f"methods.{recipe['method']}")
    settings = module.Settings(**recipe["settings"]) if hasattr(module, "Settings") else None
    method = module.METHOD(backbone(recipe["network"], data.shape), data, settings)
    method.weights = recipe["weights"]
    if recipe["network"].get("frozen"):
        method.freeze_backbone()
    return method
