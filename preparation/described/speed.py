"""How fast this machine trains: a few steps of a recipe, run by the project's own training stage on made images."""

import csv
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.processes import of_this_process
from pipeline.provenance import ROOT, canonical_json
from pipeline.record import Record, StageError, read_json
from preparation.prepared import write_prepared

LIMIT = 600  # seconds that a measurement may take
BATCHES = 3
# Rows of a timed batch on a CPU by backbone: a ResNet takes seconds for 64, a small network hundreds a second.
BATCH = {"convnet": 256, "mlp": 256}
LARGE_BATCH = 64


@dataclass(frozen=True)
class Speed:
    """Rows that one training works off in a second, and where."""

    rows: float
    device: str  # "cpu", "cuda"
    measured: bool = True

    @property
    def words(self) -> str:
        """The speed as it is printed."""
        return f"{self.rows:,.0f} rows/s" if self.rows >= 10 else f"{self.rows:.1f} rows/s"


def measure(recipe: Mapping[str, Any], spec: Mapping[str, Any], paths: np.ndarray | None, root: Path) -> Speed:
    """Train a recipe without base for two short epochs and take the second one's speed.

    Made pixels cost as much as real ones; of data that stay files the real files `paths` (below `root`/folder) are
    decoded. One thread, as a suite's jobs have. StageError where the training fails, with its last line.
    """
    batch = min(recipe["batch_size"], BATCH.get(recipe["network"]["backbone"], LARGE_BATCH))
    rows = batch * BATCHES
    schedule = {key: value for key, value in recipe["schedule"].items() if not key.endswith("_epochs")}
    timed = {**recipe, "batch_size": batch, "schedule": {**schedule, "epochs": 2}}
    with tempfile.TemporaryDirectory(prefix="bench-describe-") as folder:
        _write(Path(folder, "data"), spec, rows, paths, root)
        words = [
            "--data", f"{folder}/data", "--recipe", canonical_json(timed), "--protocol", "training", "--seed", "0",
            "--out", f"{folder}/run", "--resume", f"{folder}/resume", "--checkpoint-minutes", "1000",
        ]  # fmt: skip
        environment = {key: value for key, value in os.environ.items() if key != "BENCH_DATA_ROOT"}
        environment |= {**of_this_process(), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "training.train", *words]
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LIMIT, check=False
            )
        except subprocess.TimeoutExpired:
            raise StageError(
                f"{2 * rows} rows of {recipe['name']} took more than {LIMIT} s here; give the speed of the machine "
                "that shall train: --rows-per-second V"
            ) from None
        if done.returncode:
            last = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
            raise StageError(f"the timed training of {recipe['name']} failed: {last}")
        with open(f"{folder}/run/history.csv", encoding="utf-8") as file:
            last_row = list(csv.DictReader(file))[-1]
        device = read_json(f"{folder}/run/train.json")["records"]["train"]["device"]
    return Speed(float(last_row["images_per_s"]), device.partition(":")[0])


def _write(folder: Path, spec: Mapping[str, Any], rows: int, paths: np.ndarray | None, root: Path) -> None:
    """A prepared folder of so many rows, of random pixels or of files."""
    if paths is None:
        images = np.random.default_rng(0).random((rows, *spec["shape"]), np.float32)
        images = (images * 255).astype(np.uint8) if spec["family"] != "vectors" else images
    else:
        images = np.resize(paths, rows)
    made = {**spec, "classes": 2, "splits": {"train": rows}}
    record = Record("prepare", ("preparation.prepare",), json.loads(canonical_json({"name": "timed", **made})), {})
    place = None if paths is None else str(root / spec["folder"])
    write_prepared(folder, "timed", made, images, np.arange(rows) % 2, made["splits"], "made", record, root=place)
