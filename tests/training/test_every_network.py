"""Every method on every network that a suite gives it: starts from its base, trains an epoch, gives features.

Tiny data of the family's kind (a last batch that is not full, photographs at 16 px) and tiny settings of the method;
what is kept is what breaks: stem, depth, batch norm in parts, frozen backbones, heads, neighbours, labels. No method
may count on the width of a network (tests/methods/test_networks.py holds those), so each is an eighth as wide.
"""

import copy
import functools
import json

import numpy as np
import pytest
import torch
from torchvision.models import resnet

from methods.method import DataFacts, build_method
from pipeline import catalogue
from pipeline.recipes import method_names, signature
from tests.suites import plans
from training.checkpoint import ResumeState
from training.fabric import Fabric, LightningEnvironment
from training.feed import Images
from training.loop import TrainingData, train
from training.weights import inherit

ROWS, BATCH, CLASSES = 28, 16, 4
NARROW = {"convnet": {"widths": [4, 8, 8, 8]}, "mlp": {"widths": [12, 12, 16, 5]}}
SMALL = {
    "embedding": 4, "hidden": 12, "bottleneck": 4, "queue": 24, "widths": [8, 8, 6], "predictor": 8, "slice_size": 8,
    "prototypes": 8, "queue_epoch": 0, "clusters": 4, "heads": 2, "interval": 1, "n_init": 2, "init_rows": 28,
    "warmup_epochs": 0, "neighbours": 2, "negatives": 4, "initialisations": 1, "threshold": 0.0, "start_epoch": 0,
    "background": 8,
}  # fmt: skip


class Narrow(resnet.ResNet):
    """The ResNet of torchvision with an eighth of the channels after the stem."""

    def _make_layer(self, block, planes, *words, **more):
        layer = super()._make_layer(block, planes // 8, *words, **more)
        self.fc = torch.nn.Linear(self.inplanes, 2)
        return layer

    def __setattr__(self, name, value):
        """Its last layer is that of the narrow network, not the one that torchvision sizes after it."""
        if name != "fc" or value.in_features == self.inplanes:
            super().__setattr__(name, value)


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    monkeypatch.setattr(resnet, "ResNet", Narrow)


@functools.cache
def cases():
    """Method -> one run for each (network, family, switches of its feed) of all suites, with its plan."""
    seen = {}
    for plan in plans().values():
        for run in plan.runs.all():
            recipe = plan.runs.recipe(run)
            family = catalogue.entry("data set", run.dataset)["family"]
            key = [recipe["network"], family, bool(recipe.get("base")), sorted(recipe["augmentation"])]
            if recipe["schedule"]["epochs"]:
                of_method = seen.setdefault(recipe["method"], {})
                of_method.setdefault(json.dumps(key, sort_keys=True), (plan, run))
    return {method: list(found.values()) for method, found in seen.items()}


def tiny(recipe):
    """The recipe at tiny scale, its kind of network kept."""
    recipe = copy.deepcopy(recipe)
    for key, widths in NARROW.get(recipe["network"]["backbone"], {}).items():
        recipe["network"][key] = widths[-len(recipe["network"][key]) :]
    recipe["network"].pop("weights", None)  # of a file that is not here; the backbone stays random
    recipe["schedule"] |= {"epochs": 1, "hold_epochs": 0, "warmup_epochs": 0}
    recipe["batch_size"] = BATCH
    recipe["optimiser"] |= {"lr": 1e-4}  # so few steps leave running statistics far from what larger ones would make
    recipe["precision"] = "32"
    recipe.pop("snapshots", None)
    known = signature(recipe["method"]).settings
    for name, value in SMALL.items():
        if name in known and recipe["settings"].get(name):
            recipe["settings"][name] = [2, 3] if recipe["method"] == "pcl" and name == "clusters" else value
    if "cutout" in recipe["augmentation"]:
        recipe["augmentation"]["cutout"] = {"side": 8}
    return recipe


def shape_of(dataset):
    height, width, channels = catalogue.entry("data set", dataset)["shape"]
    return min(height, 16), width if height == 1 else min(width, 16), channels


def build(recipe, shape):
    torch.manual_seed(0)
    return build_method(recipe, DataFacts(CLASSES, shape, ROWS))


@pytest.mark.parametrize("method", method_names())
def test_trains_an_epoch_from_its_base(method, tmp_path):
    """On each of its networks; all that fail are told of."""
    if method not in cases():
        pytest.skip("no suite trains it")
    failed = {}
    for number, (plan, run) in enumerate(cases()[method]):
        try:
            train_an_epoch(plan, run, tmp_path / str(number))
        except Exception as problem:
            failed[f"{run.dataset}/{run.recipe}"] = repr(problem)
    assert not failed


def train_an_epoch(plan, run, folder):
    recipe, shape = tiny(plan.runs.recipe(run)), shape_of(run.dataset)
    generator = np.random.default_rng(0)
    pixels = generator.integers(0, 256, (ROWS, *shape), dtype=np.uint8)
    if shape[0] == 1:
        pixels = pixels.astype(np.float32) / 255
    method = build(recipe, shape)
    if (base := plan.runs.base(run)) is not None:
        inherit(method, build(tiny(plan.runs.recipe(base)), shape_of(base.dataset)).state_dict(), "base")
        method.inherited()
    before = {name: value.clone() for name, value in method.named_parameters()}
    fabric = Fabric(accelerator="cpu", devices=1, plugins=[LightningEnvironment()])
    labels = np.arange(ROWS) % CLASSES if method.uses_labels else None
    neighbours = torch.stack([torch.arange(ROWS), torch.arange(ROWS).flip(0)], 1) if method.uses_neighbours else None
    normal = {"mean": [0.5] * shape[2], "std": [0.25] * shape[2]}
    data = TrainingData(Images(pixels, labels, fabric.device), normal, neighbours)
    outcome = train(fabric, method, recipe, data, 0, ResumeState(folder), 1e9)
    assert outcome.status == "ok", outcome
    frozen = method.frozen
    moved = [name for name, value in method.named_parameters() if not torch.equal(before[name], value)]
    assert moved
    assert frozen == (not any(name.startswith("backbone.") for name in moved))
    features = method.eval().features(torch.rand(3, shape[2], *shape[:2]))
    assert features["h"].shape == (3, method.backbone.width)
