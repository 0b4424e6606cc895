"""The one training loop that runs every method."""

import csv
import io
import math
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor

from methods.method import Context, Method, Watched
from training.augmentation import Augment
from training.checkpoint import ResumeState
from training.feed import Files, Images, Order
from training.optimisers import build_optimiser, schedule
from training.seeds import derive

SNAPSHOT = 2000  # rows, evenly spaced, that are kept at the epochs that a recipe's `snapshots` names
AT_CHANCE = 0.002  # a mean loss so near to the value of chance, relatively, is at chance
PREEMPTED = 143  # 128 + SIGTERM: what a shell reports for a terminated process


@dataclass
class Outcome:
    """How a training ended: history rows (one per epoch) and, if it diverged, where."""

    history: list[dict[str, float]] = field(default_factory=list)
    diverged: dict[str, Any] | None = None
    # Where the recipe asks: epoch -> h of SNAPSHOT rows, and "{epoch}_clusters" -> argmax p where the method has p.
    snapshots: dict[str, Tensor] = field(default_factory=dict)


def train(
    fabric: Fabric,
    method: Method,
    recipe: Mapping[str, Any],
    images: Images | Files,
    normalisation: Mapping[str, list[float]],
    seed: int,
    state: ResumeState,
    checkpoint_minutes: float,
    neighbours: Tensor | None = None,
    watched: tuple[Images | Files, Tensor] | None = None,
) -> Outcome:
    """Train `method` in place for the recipe's epochs; resumes from `state` when it holds one.

    `neighbours` [N, k]: for a method that uses them, the rows that may be each row's partner. `watched`: images that
    train nothing, and their neighbours, for a recipe that asks for them.

    A run killed anywhere and started again ends in the same bits as one never killed (on one CPU): each epoch's order
    and each step's random numbers depend on (seed, epoch, step) alone, everything else is in `state`. State is saved
    every `checkpoint_minutes` (0: after every step) and on SIGTERM, which then ends the process with status 143.
    With several processes (Fabric's DDP) each works on its share of every batch; batch norm then counts its own share.
    """
    epochs, weights = recipe["schedule"]["epochs"], recipe["weights"]
    outcome = Outcome()
    if not epochs:
        return outcome
    rank, world = fabric.global_rank, fabric.world_size
    shuffle = recipe.get("shuffle", True)
    order = Order(len(images), recipe["batch_size"], method.drop_last, seed, rank, world, shuffle, neighbours)
    factor = schedule(recipe["schedule"], order.steps)

    def rate(step: int) -> float:
        return recipe["optimiser"]["lr"] * factor(step)

    augment = Augment(recipe["augmentation"], normalisation)
    optimiser = build_optimiser(recipe["optimiser"], method)
    first_epoch, first_step, sums, spent = 0, 0, {}, 0.0
    if (saved := state.load()) is not None:
        method.load_state_dict(saved["method"])
        optimiser.load_state_dict(saved["optimiser"])
        first_epoch, first_step, spent = saved["epoch"], saved["step"], saved["spent"]
        sums = dict(zip(saved["terms"], saved["sums"][rank], strict=True))
        outcome.history, outcome.snapshots = saved["history"], saved["snapshots"]
        if rank == 0:
            print(f"resuming at epoch {first_epoch + 1}/{epochs}, step {first_step}", flush=True)
        del saved
    method = method.to(fabric.device, memory_format=torch.channels_last)
    wrapped, optimiser = fabric.setup(method, optimiser)
    context = Context(
        epoch=0,
        epochs=epochs,
        rows=len(images),
        clean=lambda rows: torch.cat(list(images.clean(rows, augment))),
        seed=lambda *path: derive(seed, *path),
        device=fabric.device,
        steps=epochs * order.steps,
        batch_size=recipe["batch_size"],
    )
    if watched is not None:
        others, near = watched
        context.watched = Watched(lambda: others.clean(torch.arange(len(others)), augment), near.to(fabric.device))
    saver = _Saver(fabric, state, checkpoint_minutes)

    def reseed(*path: str | int) -> None:
        if fabric.device.type == "cpu":
            # torch.manual_seed also keeps a stack trace for a GPU not yet in use: 0.1 ms, twice a step.
            torch.default_generator.manual_seed(derive(seed, *path))
        else:
            torch.manual_seed(derive(seed, *path))

    def snapshot(epoch: int, step: int, sums: Mapping[str, Tensor], begun: float) -> dict[str, Any]:
        return {
            "method": method.state_dict(),
            "optimiser": optimiser.state_dict(),
            "epoch": epoch,
            "step": step,
            "terms": list(sums),
            "sums": fabric.all_gather(_stacked(sums)).view(world, -1).cpu(),  # every process's own
            "spent": spent + time.perf_counter() - begun,
            "history": outcome.history,
            "snapshots": outcome.snapshots,
        }

    with _progress(epochs, first_epoch, rank) as report, saver:
        for epoch in range(first_epoch, epochs):
            begun = time.perf_counter()
            context.epoch = epoch
            if first_step == 0:
                reseed("before_epoch", epoch)
                method.before_epoch(context)
            method.train()
            for step, batch in images.epoch(order, epoch, first_step, augment, method.views, method.clean_view):
                for group in optimiser.param_groups:
                    group["lr"] = rate(epoch * order.steps + step) * group.get("scale", 1.0)
                context.step = epoch * order.steps + step
                reseed("before_step", epoch, step)
                method.before_step(context)
                reseed("step", epoch, step)  # dropout and whatever else a method draws
                batch.views = [view.contiguous(memory_format=torch.channels_last) for view in batch.views]
                batch.labels = images.labels[batch.index] if method.uses_labels else None
                terms = wrapped(batch)
                total = sum(weights[name] * value for name, value in terms.items() if weights[name] != 0)
                optimiser.zero_grad(set_to_none=True)
                fabric.backward(total)
                optimiser.step()
                method.after_step()
                for name, value in (("total", total), *terms.items()):
                    sums[name] = sums.get(name, 0.0) + value.detach().double()
                if saver.due():
                    saver.save(snapshot(epoch, step + 1, sums, begun))
            reseed("after_epoch", epoch)
            method.after_epoch(context)
            means = fabric.all_gather(_stacked(sums)).view(world, -1).mean(0) / order.steps
            seconds = spent + time.perf_counter() - begun
            row = {"epoch": epoch + 1, **dict(zip(sums, means.tolist(), strict=True))}
            # Asked for, not kept from the last step: a run may resume after it.
            row |= {"lr": rate((epoch + 1) * order.steps - 1), **method.statistics()}
            if chance := method.chance():
                near = [abs(row[name] - value) < AT_CHANCE * value for name, value in chance.items()]
                row["at_chance"] = float(any(near))
            row |= {
                "seconds": round(seconds, 3),
                "images_per_s": round(order.used / seconds, 1),
            }
            outcome.history.append(row)
            report(row)
            if epoch + 1 in recipe.get("snapshots", ()):
                outcome.snapshots |= _snapshot(method, context)
            first_step, sums, spent = 0, {}, 0.0
            bad = [name for name in row if not math.isfinite(row[name])]
            if bad:
                # The total is bad whenever a term is: name the term.
                outcome.diverged = {"epoch": epoch + 1, "term": next((n for n in bad if n != "total"), bad[0])}
                break
            if method.finished:
                break
            if saver.due() and epoch + 1 < epochs:
                saver.save(snapshot(epoch + 1, 0, {}, time.perf_counter()))
    return outcome


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


class _Saver:
    """Decides when state is due: every so many minutes, or at once when the cluster asks the process to end."""

    def __init__(self, fabric: Fabric, state: ResumeState, minutes: float):
        self.fabric, self.state, self.seconds = fabric, state, minutes * 60
        self.last, self.terminated, self.ending = time.monotonic(), False, False

    def due(self) -> bool:
        """The same answer in every process: saving is a joint step."""
        wishes = torch.tensor([self.terminated, time.monotonic() - self.last >= self.seconds], dtype=torch.int32)
        if self.fabric.world_size > 1:
            wishes = self.fabric.all_reduce(wishes.to(self.fabric.device), reduce_op="sum").cpu()
        self.ending = bool(wishes[0])
        return bool(wishes.any())

    def save(self, snapshot: dict[str, Any]) -> None:
        if self.fabric.is_global_zero:
            self.state.save(snapshot)
        self.fabric.barrier()
        self.last = time.monotonic()
        if self.ending:
            print("terminated: state saved, the next run goes on from here", file=sys.stderr, flush=True)
            raise SystemExit(PREEMPTED)

    def __enter__(self) -> None:
        def on_term(*_: Any) -> None:
            self.terminated = True

        self.before = signal.signal(signal.SIGTERM, on_term)

    def __exit__(self, *_: Any) -> None:
        signal.signal(signal.SIGTERM, self.before)


@contextmanager
def _progress(epochs: int, done: int, rank: int) -> Iterator:
    """A bar with remaining time on a terminal, one plain line per epoch (at most about 20 in all) elsewhere."""
    if rank:
        yield lambda row: None
        return
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        from rich.progress import Progress, TimeElapsedColumn, TimeRemainingColumn

        with Progress(*Progress.get_default_columns()[:-1], TimeRemainingColumn(), TimeElapsedColumn()) as bar:
            task = bar.add_task("training", total=epochs, completed=done)
            yield lambda row: bar.update(task, advance=1, description=f"total {row['total']:.4f}")
        return
    begun, every = time.monotonic(), max(1, epochs // 20)

    def line(row: Mapping[str, float]) -> None:
        epoch = int(row["epoch"])
        if epoch % every and epoch != epochs and math.isfinite(row["total"]):
            return
        left = (time.monotonic() - begun) / (epoch - done) * (epochs - epoch)
        rest = " ".join(f"{name} {value:.4g}" for name, value in row.items() if name not in ("epoch", "seconds"))
        print(f"epoch {epoch}/{epochs} {rest} left {left:.0f} s", flush=True)

    yield line


def history_csv(history: list[dict[str, float]]) -> str:
    """The history as CSV text; floats are written so that reading them gives the same bits."""
    columns = list(dict.fromkeys(name for row in history for name in row)) or ["epoch"]
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows([{name: repr(value) for name, value in row.items()} for row in history])
    return text.getvalue()
