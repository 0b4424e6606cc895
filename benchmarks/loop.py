"""The project's training loop on a prepared data set, in this process and without results: what benchmarks time."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from methods.method import DataFacts, Method, build_method
from pipeline.recipes import resolve
from preparation.prepared import Prepared
from training.augmentation import normalisation
from training.checkpoint import ResumeState
from training.fabric import Fabric, LightningEnvironment
from training.feed import Images
from training.loop import Outcome, TrainingData, train


def train_here(
    data: Prepared, name: str, changes: dict[str, Any], prepare: Callable[[Method], None]
) -> tuple[Method, Outcome]:
    """Train recipe `name` with `changes` on all rows, on the CPU in float32; `prepare` sees the untrained method."""
    recipe = resolve(name, data.card["name"], {"*": {**changes, "base": None}})
    torch.manual_seed(0)
    method = build_method(recipe, DataFacts(data.card["classes"], tuple(data.card["shape"]), len(data.images)))
    prepare(method)
    fabric = Fabric(accelerator="cpu", devices=1, precision="32-true", plugins=[LightningEnvironment()])
    with tempfile.TemporaryDirectory() as folder:
        images, state = Images(data.images, None, fabric.device), ResumeState(Path(folder) / "state")
        read = TrainingData(images, normalisation(recipe, data.card))
        outcome = train(fabric, method, recipe, read, 0, state, 1e9)
    return method, outcome
