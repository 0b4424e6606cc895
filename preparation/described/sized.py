"""The quick suite of a described data set: what is measured, what is cut, and the arithmetic in words."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline import recipes
from pipeline.data_set import are_vectors
from preparation.described import quick, speed, suite
from preparation.described.found import Found

SEEDS = 3  # of the full suite
DAY = 86400


@dataclass
class Sized:
    """What the quick suite changes, its rows (None: all), and how it was found."""

    overrides: suite.Overrides
    rows: int | None
    why: list[str] = field(default_factory=list)
    full: str = ""  # the time of the full suite, in words


@dataclass(frozen=True)
class Machine:
    """What the suite shall run on: `rate` is the speed where it is known and need not be measured."""

    cores: int
    minutes: float
    rate: float | None = None

    @staticmethod
    def here() -> int:
        """Cores that this process may use, as `--cores all` counts them."""
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def sized(name: str, found: Found, asked: list[str], plain: suite.Overrides, machine: Machine) -> Sized:
    """Measure the base encoder, then cut epochs; where that is not enough on a CPU the network, and at last rows."""
    spec, total = found.spec, sum(found.spec["splits"].values())
    trainings = suite.trainings(name, asked, suite.training_rows(spec, asked))
    first = "autoencoder" if are_vectors(spec["shape"]) else "simclr_base"
    fewest = max(quick.FEWEST_ROWS, 20 * spec["classes"])
    own = _speed(name, first, found, plain, machine)
    workers = machine.cores if own.device == "cpu" else 1
    epochs = {recipe: one.epochs for recipe, one in trainings.items()}
    full = quick.seconds(trainings, epochs, own.rows, workers) * SEEDS
    network = recipes.resolve(first, name)["network"]["backbone"]
    small = own.device == "cpu" and network.startswith("resnet")
    cut = quick.size(trainings, own.rows, workers, machine.minutes, total, fewest, cut_rows=not small)
    why, changes, used = [_said(first, network, own)], plain, own
    if cut is None:
        changes = suite.overrides(name, spec, asked, suite.training_rows(spec, asked), small=True)
        used = _speed(name, first, found, changes, machine)
        why.append(_said(first, "a ConvNet in its place", used))
        cut = quick.size(trainings, used.rows, workers, machine.minutes, total, fewest, cut_rows=True)
    assert cut is not None
    if cut.rows is not None:
        rows = suite.training_rows(spec, asked, cut.rows)
        changes = suite.overrides(name, spec, asked, rows, small=changes is not plain)
    images = sum(epochs * trainings[recipe].rows for recipe, epochs in cut.epochs.items()) * (cut.rows or total) / total
    whole = cut.seconds + (1 - quick.FOR_TRAINING) * machine.minutes * 60
    why.append(
        f"{images:,.0f} rows in all epochs of all trainings, {workers} at once: {duration(cut.seconds)}; about "
        f"{duration(whole)} with start-up, clustering and tables"
    )
    overrides = suite.together(changes, suite.shorter(name, cut.epochs))
    return Sized(overrides, cut.rows, why, duration(full))


def _speed(name: str, recipe: str, found: Found, overrides: suite.Overrides, machine: Machine) -> speed.Speed:
    """The speed that was given, or the measured one."""
    if machine.rate is not None:
        return speed.Speed(machine.rate, "cpu", measured=False)
    resolved = recipes.resolve(recipe, name, overrides)
    return speed.measure(resolved, found.spec, found.paths, found.root)


def _said(recipe: str, network: str, found: speed.Speed) -> str:
    how = f"measured, one {'thread' if found.device == 'cpu' else 'GPU'}" if found.measured else "as given"
    return f"{recipe}, {network}: {found.words} ({how})"


def subset(spec: Mapping[str, Any], rows: int) -> dict[str, Any]:
    """The data set cut to so many rows, each split in proportion (preparation/readers.py)."""
    total = sum(spec["splits"].values())
    splits = {split: round(rows * size / total) for split, size in spec["splits"].items()}
    return {**spec, "title": f"{spec['title']}, {rows} rows", "splits": splits, "subset": rows}


def duration(seconds: float) -> str:
    """Seconds as people say them."""
    for unit, name in ((DAY, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} seconds"
