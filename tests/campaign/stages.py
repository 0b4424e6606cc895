"""Single stages, run in this process on the files of a finished smoke suite, each with the outputs it must make."""

import contextlib
import importlib
import io
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from threadpoolctl import threadpool_limits

from pipeline.provenance import canonical_json
from pipeline.record import run_stage
from tests.campaign.site import RUNS

ENVIRONMENT = {"BENCH_DEVICE": "cpu", "OMP_NUM_THREADS": "1", "BENCH_CHECKPOINT_MINUTES": "10"}


@dataclass(frozen=True)
class Ended:
    """How a stage ended: its exit status, and what it said."""

    status: int
    said: str

    @property
    def refusal(self) -> str:
        """The one line of an error; empty where there is none, or more than that."""
        errors = [text for text in self.said.splitlines() if text.startswith("error: ")]
        return errors[0] if self.status == 1 and len(errors) == 1 and "Traceback" not in self.said else ""


def run(folder: Path, module: str, *words: Any) -> Ended:
    """Run a stage in a folder as its command line would, without a process of its own."""
    streams = io.StringIO()
    loaded = importlib.import_module(module)
    threads, status = torch.get_num_threads(), 0
    with (
        mock.patch.object(sys, "argv", [module, *map(str, words)]),
        mock.patch.dict(os.environ, ENVIRONMENT),
        contextlib.redirect_stdout(streams),
        contextlib.redirect_stderr(streams),
        threadpool_limits(1),
        contextlib.chdir(folder),  # plans name folders relative to the working directory
    ):
        torch.set_num_threads(1)
        try:
            run_stage(loaded.main)
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
        finally:
            torch.set_num_threads(threads)
    return Ended(status, streams.getvalue())


class Finished:
    """The stages of a finished smoke suite, as the pipeline calls them. `results` is what they read, `out` (a folder of
    its own) where they write; `truth`, an undamaged copy, says what they must make.
    """

    def __init__(self, results: Path, truth: Path, out: Path):
        self.results, self.truth, self.out = results, truth, out
        self.data = results / "data/digits_200"
        self.recipes = {name: self._recipe(name) for name in ("simclr_base", "mixem", "scan")}

    def _recipe(self, name: str) -> str:
        stored = json.loads((self.truth / RUNS / name / "seed0/train.json").read_text(encoding="utf-8"))
        return canonical_json(stored["records"]["train"]["settings"]["recipe"])

    def folder(self, recipe: str) -> Path:
        return self.results / RUNS / recipe / "seed0"

    def run(self, reader: str) -> Ended:
        """Run a reader by its name: stage and recipe."""
        stage, _, recipe = reader.partition(" ")
        return getattr(self, stage)(recipe)

    def call(self, module: str, *words: Any) -> Ended:
        """Run a stage where the pipeline would: its plans name folders from there."""
        return run(self.results.parents[1], module, *words)

    def train(self, recipe: str) -> Ended:
        base = self.folder("simclr_base")
        words = ["--data", self.data, "--recipe", self.recipes[recipe], "--protocol", "full", "--seed", 0]
        words += ["--base", base / "model.pt"] if recipe != "simclr_base" else []
        words += ["--neighbours", *base.glob("neighbours/*.npz")] if recipe == "scan" else []
        return run(
            self.results.parents[1], "training.train", *words, "--out", self.out, "--resume", self.results / ".resume"
        )

    def embed(self, recipe: str) -> Ended:
        model = self.folder(recipe) / "model.pt"
        return self.call("training.embed", "--data", self.data, "--model", model, "--out", self.out)

    def mine(self, recipe: str) -> Ended:
        words = ["--data", self.data, "--features", self.folder(recipe) / "features.npz", "--array", "z"]
        out = self.out / "neighbours" / self._near(recipe).name
        return run(
            self.results.parents[1], "training.mine", *words, "--count", 20, "--splits", "train", "test", "--out", out
        )

    def _near(self, recipe: str) -> Path:
        return next((self.truth / RUNS / recipe / "seed0").glob("neighbours/*.npz"))

    def assign(self, recipe: str) -> Ended:
        words = ["--data", self.data, "--features", self.folder(recipe) / "features.npz", "--assigner", "kmeans"]
        out = self.out / "clusters/kmeans.npz"
        return run(
            self.results.parents[1], "evaluation.assign", *words, "--protocol", "full", "--seed", 0, "--out", out
        )

    def evaluate(self, recipe: str) -> Ended:
        folder = self.folder(recipe)
        words = ["--data", self.data, "--features", folder / "features.npz", "--clusters"]
        words += [folder / "clusters/kmeans.npz", "--protocol", "full", "--seed", 0, "--out", self.out / "metrics.json"]
        return self.call("evaluation.evaluate", *words)

    def tabulate(self, _: str) -> Ended:
        plan = next((self.results / ".plan").glob("table2-*.json"))
        return self.call("report.tabulate", "--plan", plan, "--out", self.out / "table2.csv")

    def plot(self, figure: str) -> Ended:
        words = [f"SimCLR={self.folder('simclr_base')}", f"MIX'EM={self.folder('mixem')}"]
        words = ["--figure", figure, "--data", self.data, "--runs", *words]
        return self.call("report.plot", *words, "--out", self.out / "figure.png")

    def differences(self, reader: str) -> Iterator[str]:
        """What a reader wrote and should not have: other bits, another result, other provenance."""
        recipe = reader.partition(" ")[2]
        for path in sorted(self.out.rglob("*")):
            if not path.is_file() or path.suffix == ".png":
                continue
            name = path.relative_to(self.out)
            truth = self.truth / name if name.stem == "table2" else self.truth / RUNS / recipe / "seed0" / name
            if path.suffix == ".json":
                if _facts(path) != _facts(truth):
                    yield f"{name} says something else"
            elif name.name != "history.csv" and path.read_bytes() != truth.read_bytes():  # that one holds times
                yield f"{name} has other bits"


def _facts(path: Path) -> Any:
    """What must be the same whenever a stage runs: results and fingerprints; not its times and its machine."""
    stored = json.loads(path.read_text(encoding="utf-8"))
    if "records" not in stored:
        return stored
    kept = ("fingerprint", "status", "code", "settings", "seed", "inputs", "content", "result")
    records = {stage: {key: record.get(key) for key in kept} for stage, record in stored["records"].items()}
    return stored.get("result"), records
