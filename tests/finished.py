"""Finished runs of an own data set of pictures in three classes, made in this process."""

import numpy as np
import pytest
import yaml

from pipeline import catalogue
from pipeline.plan import Plan
from pipeline.runs import Run
from tests.stages import Stages

NAMES = ("cat", "dog", "emu")
DATASET = {
    "title": "Mine", "family": "grey16", "source": "vectors", "classes": 3, "shape": [16, 16, 1],
    "files": {"train": "train.npz", "test": "test.npz", "unlabeled": "more.npz"},
    "splits": {"train": 60, "test": 30, "unlabeled": 24}, "normalisation": {"mean": [0.5], "std": [0.25]},
}  # fmt: skip
ROWS = [{"label": name, "recipe": "mixem", "assigner": name} for name in ("argmax", "kmeans")]
ROWS += [{"label": "k", "recipe": "untrained", "assigner": name} for name in ("kmeans", "gmm", "spectral")]
SMALL = {"batch_size": 16, "schedule": {"epochs": 2}, "network": {"widths": [4], "pool_after": []}}
MIXEM, PLAIN = "mine/split/mixem/seed0", "mine/split/untrained/seed0"


def images(rows, seed):
    """Three kinds of pictures, uint8 [N, 16, 16, 1], that differ in which third is bright, and their numbers."""
    generator, kinds = np.random.default_rng(seed), (np.arange(rows) + seed) % 3
    x = generator.integers(0, 90, (rows, 256))
    x[np.arange(256) // 86 == kinds[:, None]] += 150
    return x.astype(np.uint8).reshape(rows, 16, 16, 1), kinds


def finish(folder):
    """A folder with results/ of finished runs, three of a protocol with labels and one of one without."""
    for part, content in (("datasets", DATASET), ("tables", {"title": "Mine", "metrics": ["ACC"], "rows": ROWS})):
        (folder / "own" / part).mkdir(parents=True)
        (folder / "own" / part / "mine.yaml").write_text(yaml.safe_dump(content))
    for seed, split in enumerate(DATASET["splits"]):
        x, kinds = images(DATASET["splits"][split], seed)
        y = {} if split == "unlabeled" else {"y": np.array(NAMES)[kinds]}
        np.savez(folder / DATASET["files"][split], x=x, **y)
    asked = {"datasets": ["mine"], "protocols": ["split", "clusters"], "seeds": [0], "tables": ["mine"]}
    asked["overrides"] = {
        "simclr_base": SMALL,
        "untrained": {"network": SMALL["network"]},
        "mixem": {"batch_size": 16, "schedule": {"epochs": 2, "hold_epochs": 0}},
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalogue, "OWN", folder / "own")
        patch.setenv("BENCH_DATA_ROOT", str(folder))
        patch.setenv("BENCH_DEVICE", "cpu")
        plan = Plan(
            catalogue.read_yaml(catalogue.CONFIG / "config.yaml") | asked | {"results": str(folder / "results")}
        )
        stages = Stages(plan)
        stages.prepare()
        for protocol, recipe in (
            ("split", "simclr_base"),
            ("split", "mixem"),
            ("split", "untrained"),
            ("clusters", "untrained"),
        ):
            stages.model(Run("mine", protocol, recipe, 0))
