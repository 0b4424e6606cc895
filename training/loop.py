"""The one training loop that runs every method."""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from methods.method import Batch, Context, Method, Watched
from pipeline.record import StageError
from training.augmentation import Augment
from training.checkpoint import ResumeState, Saver
from training.fabric import Fabric
from training.feed import Files, Images, Order
from training.optimisers import build_optimiser, schedule
from training.progress import progress
from training.seeds import derive

SNAPSHOT = 2000  # rows, evenly spaced, that are kept at the epochs that a recipe's `snapshots` names
AT_CHANCE = 0.002  # a mean loss so near to the value of chance, relatively, is at chance


@dataclass
class Outcome:
    """How a training ended: history rows (one per epoch), and where it failed if it did."""

    history: list[dict[str, float]] = field(default_factory=list)
    diverged: dict[str, Any] | None = None  # epoch, and the term that was not finite
    untaught: dict[str, Any] | None = None  # epoch in which no step had anything to learn from
    # Where the recipe asks: epoch -> h of SNAPSHOT rows, and "{epoch}_clusters" -> argmax p where the method has p.
    snapshots: dict[str, Tensor] = field(default_factory=dict)

    @property
    def status(self) -> str:
        """The status of the record: "ok" or the failure's name."""
        return "diverged" if self.diverged else "untaught" if self.untaught else "ok"


@dataclass
class TrainingData:
    """What a training reads: its images, how they are normalised, and mined neighbours where the recipe asks for them.

    `neighbours` [N, k]: rows that may be each row's partner. `watched`: images that train nothing, and their own.
    """

    images: Images | Files
    normalisation: Mapping[str, list[float]]
    neighbours: Tensor | None = None
    watched: tuple[Images | Files, Tensor] | None = None


def train(
    fabric: Fabric,
    method: Method,
    recipe: Mapping[str, Any],
    data: TrainingData,
    seed: int,
    state: ResumeState,
    checkpoint_minutes: float,
) -> Outcome:
    """Train `method` in place for the recipe's epochs; resumes from `state` when it holds one.

    A run killed anywhere and started again ends in the same bits as one never killed (on one CPU): each epoch's order
    and each step's random numbers depend on (seed, epoch, step) alone, everything else is in `state`. State is saved
    every `checkpoint_minutes` (0: after every step) and on SIGTERM, which then ends the process with status 143.
    With several processes (Fabric's DDP) each works on its share of every batch; batch norm then counts its own share.
    Raises StageError for a saved state of another number of processes.
    """
    if not recipe["schedule"]["epochs"]:
        return Outcome()
    return _Training(fabric, method, recipe, data, seed, state, checkpoint_minutes).run()


class _Training:
    """One training: what stays the same throughout, and where it stands."""

    def __init__(
        self,
        fabric: Fabric,
        method: Method,
        recipe: Mapping[str, Any],
        data: TrainingData,
        seed: int,
        state: ResumeState,
        checkpoint_minutes: float,
    ):
        self.fabric, self.recipe, self.data, self.seed = fabric, recipe, data, seed
        self.epochs, self.world = recipe["schedule"]["epochs"], fabric.world_size
        shuffle, rank = recipe.get("shuffle", True), fabric.global_rank
        rows, batch_size = len(data.images), recipe["batch_size"]
        self.order = Order(rows, batch_size, method.drop_last, seed, rank, self.world, shuffle, data.neighbours)
        self.factor = schedule(recipe["schedule"], self.order.steps)
        self.augment = Augment(recipe["augmentation"], data.normalisation)
        self.outcome = Outcome()
        optimiser = build_optimiser(recipe["optimiser"], method)
        self.first_epoch, self.first_step, self.spent = 0, 0, 0.0  # `spent`: seconds of this epoch before a kill
        self.sums: dict[str, Tensor] = {}  # of this epoch's terms so far
        self.taught = False  # whether any step of this epoch had something to learn from
        self._resume(state.load(), method, optimiser)
        self.method = method.to(fabric.device, memory_format=torch.channels_last)
        self.wrapped, self.optimiser = fabric.setup(self.method, optimiser)
        self.context = self._context()
        self.saver = Saver(fabric, state, checkpoint_minutes)

    def _resume(self, saved: dict[str, Any] | None, method: Method, optimiser: torch.optim.Optimizer) -> None:
        """Take up a saved state, if there is one."""
        if saved is None:
            return
        if len(saved["sums"]) != self.world:
            raise StageError(
                f"the saved state is of {len(saved['sums'])} processes, this run has {self.world}: run it with "
                f"devices={len(saved['sums'])}, or delete the state to start anew"
            )
        method.load_state_dict(saved["method"])
        optimiser.load_state_dict(saved["optimiser"])
        self.first_epoch, self.first_step, self.spent = saved["epoch"], saved["step"], saved["spent"]
        self.sums = dict(zip(saved["terms"], saved["sums"][self.fabric.global_rank], strict=True))
        self.taught = saved["taught"]
        self.outcome.history, self.outcome.snapshots = saved["history"], saved["snapshots"]
        if self.fabric.is_global_zero:
            print(f"resuming at epoch {self.first_epoch + 1}/{self.epochs}, step {self.first_step}", flush=True)

    def _context(self) -> Context:
        images, seed = self.data.images, self.seed
        context = Context(
            epoch=0,
            epochs=self.epochs,
            rows=len(images),
            clean=lambda rows: torch.cat(list(images.clean(rows, self.augment))),
            seed=lambda *path: derive(seed, *path),
            device=self.fabric.device,
            steps=self.epochs * self.order.steps,
            batch_size=self.recipe["batch_size"],
        )
        if self.data.watched is not None:
            others, near = self.data.watched
            context.watched = Watched(
                lambda: others.clean(torch.arange(len(others)), self.augment), near.to(self.fabric.device)
            )
        return context

    def run(self) -> Outcome:
        """Train to the end, or to a failure that the outcome names."""
        with progress(self.epochs, self.first_epoch, self.fabric.global_rank) as report, self.saver:
            for epoch in range(self.first_epoch, self.epochs):
                begun = time.perf_counter()
                self._epoch(epoch, begun)
                row = self._history_row(epoch, begun)
                self.outcome.history.append(row)
                report(row)
                if epoch + 1 in self.recipe.get("snapshots", ()):
                    self.outcome.snapshots |= _snapshot(self.method, self.context)
                if self._failed(row) or self.method.finished:
                    break
                self.first_step, self.sums, self.spent, self.taught = 0, {}, 0.0, False
                if self.saver.due() and epoch + 1 < self.epochs:
                    self.saver.save(self._state(epoch + 1, 0, time.perf_counter()))
        return self.outcome

    def _epoch(self, epoch: int, begun: float) -> None:
        """All steps of an epoch, and the method's work before and after them."""
        self.context.epoch = epoch
        if self.first_step == 0:
            self._reseed("before_epoch", epoch)
            self.method.before_epoch(self.context)
        self.method.train()
        views, clean = self.method.views, self.method.clean_view
        for step, batch in self.data.images.epoch(self.order, epoch, self.first_step, self.augment, views, clean):
            self._step(epoch, step, batch)
            if self.saver.due():
                self.saver.save(self._state(epoch, step + 1, begun))
        self._reseed("after_epoch", epoch)
        self.method.after_epoch(self.context)

    def _step(self, epoch: int, step: int, batch: Batch) -> None:
        """One step of the optimiser. A batch with nothing to learn from changes nothing but the method's counters."""
        if len(batch.views) != (wanted := max(1, self.method.views)):
            raise StageError(
                f"a batch of {len(batch.views)} views, but method {self.recipe['method']!r} learns from {wanted}: "
                "mend the feed, or `views` of the method"
            )
        if len(batch.partners) != (wanted := 0 if self.order.neighbours is None else self.method.views):
            raise StageError(
                f"a batch of {len(batch.partners)} views of partners, but method {self.recipe['method']!r} learns from "
                f"{wanted}: mend the feed"
            )
        position = epoch * self.order.steps + step
        for group in self.optimiser.param_groups:
            rate = self.recipe["optimiser"]["lr"] if group.get("constant") else self._rate(position)
            group["lr"] = rate * group.get("scale", 1.0)
        self.context.step = position
        self._reseed("before_step", epoch, step)
        self.method.before_step(self.context)
        self._reseed("step", epoch, step)  # dropout and whatever else a method draws
        batch.views = [view.contiguous(memory_format=torch.channels_last) for view in batch.views]
        batch.labels = self.data.images.labels[batch.index] if self.method.uses_labels else None
        statistics = _batch_norm_buffers(self.method) if self.method.may_be_empty else {}
        terms = self.wrapped(batch)
        weights = self.recipe["weights"]
        total = sum(weights[name] * value for name, value in terms.items() if weights[name] != 0)
        if self.method.may_be_empty and self.method.empty():
            # Even without a gradient an optimiser would move every weight, by its decay and its momentum.
            for buffer, before in statistics.items():
                buffer.copy_(before)
        else:
            self.optimiser.zero_grad(set_to_none=True)
            self.fabric.backward(total)
            self.optimiser.step()
            self.method.after_step()
            self.taught = True
        for name, value in (("total", total), *terms.items()):
            self.sums[name] = self.sums.get(name, 0.0) + value.detach().double()

    def _rate(self, step: int) -> float:
        return self.recipe["optimiser"]["lr"] * self.factor(step)

    def _history_row(self, epoch: int, begun: float) -> dict[str, float]:
        """Mean terms of the epoch over all steps and processes, rate, the method's statistics, time."""
        means = self.fabric.all_gather(_stacked(self.sums)).view(self.world, -1).mean(0) / self.order.steps
        seconds = self.spent + time.perf_counter() - begun
        row = {"epoch": epoch + 1, **dict(zip(self.sums, means.tolist(), strict=True))}
        # Asked for, not kept from the last step: a run may resume after it.
        row |= {"lr": self._rate((epoch + 1) * self.order.steps - 1), **self.method.statistics()}
        # A term of weight 0 is not trained: where it sits says nothing of the training.
        chance = self.method.chance(self.recipe["batch_size"]).items()
        if trained := [(name, value) for name, value in chance if self.method.active(name)]:
            row["at_chance"] = float(any(abs(row[name] - value) < AT_CHANCE * value for name, value in trained))
        return row | {"seconds": round(seconds, 3), "images_per_s": round(self.order.used / seconds, 1)}

    def _failed(self, row: dict[str, float]) -> bool:
        """Whether the epoch ended the training: a term that is not finite, or not one step with something to learn."""
        bad = [name for name in row if not math.isfinite(row[name])]
        if bad:
            # The total is bad whenever a term is: name the term.
            term = next((name for name in bad if name != "total"), bad[0])
            self.outcome.diverged = {"epoch": row["epoch"], "term": term}
        elif not self.taught:
            self.outcome.untaught = {"epoch": row["epoch"], "steps": self.order.steps}
        return bool(bad) or not self.taught

    def _state(self, epoch: int, step: int, begun: float) -> dict[str, Any]:
        """Everything that a run which goes on from here needs."""
        return {
            "method": self.method.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "epoch": epoch,
            "step": step,
            "terms": list(self.sums),
            "sums": self.fabric.all_gather(_stacked(self.sums)).view(self.world, -1).cpu(),  # every process's own
            "taught": self.taught,
            "spent": self.spent + time.perf_counter() - begun,
            "history": self.outcome.history,
            "snapshots": self.outcome.snapshots,
        }

    def _reseed(self, *path: str | int) -> None:
        """Seed torch's global generator for the purpose that `path` names."""
        if self.fabric.device.type == "cpu":
            # torch.manual_seed also keeps a stack trace for a GPU not yet in use: 0.1 ms, twice a step.
            torch.default_generator.manual_seed(derive(self.seed, *path))
        else:
            torch.manual_seed(derive(self.seed, *path))


@torch.no_grad()
def _snapshot(method: Method, context: Context) -> dict[str, Tensor]:
    """h [n, d] and clusters [n] of up to SNAPSHOT evenly spaced training rows, as they are after this epoch."""
    method.eval()
    features = method.features(context.clean(snapshot_rows(context.rows).to(context.device)))
    kept = {str(context.epoch + 1): features["h"].float().cpu()}
    if "p" in features:
        kept[f"{context.epoch + 1}_clusters"] = features["p"].argmax(1).cpu()
    return kept


def snapshot_rows(rows: int) -> Tensor:
    """The training rows that snapshots hold."""
    return torch.linspace(0, rows - 1, min(SNAPSHOT, rows)).long()


def _stacked(sums: Mapping[str, Tensor]) -> Tensor:
    return torch.stack(list(sums.values())) if sums else torch.zeros(0)


def _batch_norm_buffers(method: nn.Module) -> dict[Tensor, Tensor]:
    """Every running statistic of batch norm, and a copy of what it is now."""
    layers = [module for module in method.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    return {buffer: buffer.clone() for layer in layers for buffer in layer.buffers()}
