"""Stage `train`: prepared data + recipe (+ the base encoder it starts from) -> model.pt, history.csv, snapshots.npz,
train.json.

python -m training.train --data results/data/digits --recipe simclr_base --protocol full --seed 0 --out some/folder
"""

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch

from methods.method import DataFacts, Method, build_method, digest
from pipeline.options import Parser
from pipeline.record import Record, StageError, hashes, run_stage, whole, write_json
from preparation.prepared import content
from training.augmentation import normalisation
from training.checkpoint import ResumeState, packed
from training.devices import claim, refuse_missing
from training.fabric import DDPStrategy, Fabric, LightningEnvironment
from training.feed import training_feed
from training.inputs import Inputs, read_inputs
from training.loop import Outcome, TrainingData, snapshot_rows, train
from training.progress import history_csv
from training.seeds import derive
from training.weights import inherit, load_weights


def main() -> None:
    arguments = _arguments()
    inputs = read_inputs(arguments)
    recipe = inputs.recipe
    roots = ("training.train", f"methods.{recipe['method']}")
    record = Record("train", roots, inputs.settings, inputs.fingerprints, arguments.seed)
    claim(arguments.device, arguments.devices)
    refuse_missing(arguments.device)
    fabric = launch(arguments.device, arguments.devices, recipe["precision"])
    method, weights = build(inputs, arguments.seed, arguments.base)
    if arguments.compile:
        method.backbone.compile()
    frozen = digest(method.backbone) if method.frozen else None
    state = ResumeState(Path(arguments.resume) / f"train-{record.facts['fingerprint']}-{content(inputs.data.card)}")
    data = training_data(inputs, method, fabric.device)
    outcome = train(fabric, method, recipe, data, arguments.seed, state, arguments.checkpoint_minutes)
    if outcome.status != "ok" and arguments.strict:
        state.remove()
        raise StageError(
            f"{_failure(outcome)} (recipe {recipe['name']}, seed {arguments.seed}); strict=true makes this an error"
        )
    fabric.barrier()
    if not fabric.is_global_zero:
        return
    method.cpu()
    if frozen not in (None, digest(method.backbone)):
        raise RuntimeError(f"the frozen backbone changed in training: {frozen} before, {digest(method.backbone)} after")
    write(Path(arguments.out), inputs, method, outcome, record, weights, fabric)
    state.remove()


def _arguments() -> argparse.Namespace:
    parser = Parser(description=__doc__)
    parser.add_argument("--data", required=True, help="prepared folder")
    parser.add_argument("--recipe", required=True, help="name in config/recipes, or a resolved recipe as JSON")
    parser.add_argument("--protocol", required=True, help="name in config/protocols.yaml, or its JSON")
    parser.add_argument("--seed", required=True, type=int, help="whole number from 0, where all chance begins")
    parser.add_argument("--base", help="model.pt of the base recipe, where the recipe names one")
    parser.add_argument("--neighbours", help="file of stage mine, where the recipe names neighbours")
    parser.add_argument("--watched", help="file of stage mine for the scored rows, where the recipe watches them")
    parser.add_argument("--out", required=True, help="folder to write")
    parser.add_argument("--resume", default="results/.resume", help="folder for the state of unfinished runs")
    parser.add_argument("--device", default=os.environ.get("BENCH_DEVICE", "auto"), help="auto, cpu or cuda")
    minutes = float(os.environ.get("BENCH_CHECKPOINT_MINUTES", 10))
    parser.add_argument("--checkpoint-minutes", type=float, default=minutes, help="between two states of a training")
    parser.add_argument("--devices", type=int, default=int(os.environ.get("BENCH_DEVICES", 1)), help="processes of DDP")
    for option, what in (("compile", "torch.compile the backbone"), ("strict", "a diverged training is an error")):
        given = os.environ.get(f"BENCH_{option.upper()}") == "1"
        parser.add_argument(f"--{option}", action="store_true", default=given, help=what)
    return parser.parse_args()


def launch(device: str, devices: int, precision: str) -> Fabric:
    """Fabric on the device, in the precision; starts the other processes, each of which runs this program."""
    fabric = Fabric(
        accelerator=device,
        devices=devices,
        # Some methods leave parameters without a gradient in some steps (frozen prototypes, a decoder without a term).
        strategy=DDPStrategy(find_unused_parameters=True) if devices > 1 else "auto",
        precision=fabric_precision(precision, device),
        plugins=[LightningEnvironment()],  # one job starts its own processes, under SLURM too
    )
    fabric.launch()
    return fabric


def build(inputs: Inputs, seed: int, base_path: str | None) -> tuple[Method, dict[str, object] | None]:
    """(the method with its starting weights, what the record says of a file of published weights)."""
    card, recipe = inputs.data.card, inputs.recipe
    torch.manual_seed(derive(seed, "weights"))
    method = build_method(recipe, DataFacts(card["classes"], tuple(card["shape"]), len(inputs.rows)))
    weights = None
    if inputs.base and base_path:
        inherit(method, inputs.base["method"], base_path)
    if "weights" in recipe["network"]:
        path = Path(os.environ.get("BENCH_WEIGHTS_ROOT", ""), recipe["network"]["weights"])
        weights = load_weights(method.backbone, path)
    if inputs.base or weights:
        method.inherited()  # only now: a key encoder starts as a copy of what was loaded
    return method, weights


def training_data(inputs: Inputs, method: Method, device: torch.device) -> TrainingData:
    """The images in memory or as files, with labels where the method asks for them, and mined neighbours."""
    data, rows = inputs.data, inputs.rows
    labels = data.labels[rows] if method.uses_labels else None
    if labels is not None and (labels < 0).any():
        raise StageError(
            f"recipe {inputs.recipe['name']!r} learns from labels, which {int((labels < 0).sum())} of its {len(rows)} "
            "rows lack: train it on labelled splits"
        )
    images = training_feed(data, rows, labels, device)
    watched = None
    if inputs.watched is not None:
        scored, near = inputs.watched
        watched = training_feed(data, scored, None, device), near
    return TrainingData(images, normalisation(inputs.recipe, data.card), inputs.neighbours, watched)


def write(
    out: Path,
    inputs: Inputs,
    method: Method,
    outcome: Outcome,
    record: Record,
    weights: dict[str, object] | None,
    fabric: Fabric,
) -> None:
    """model.pt, history.csv, snapshots.npz, and train.json last: a folder with a record is complete."""
    model = {
        "method": method.state_dict(),
        "backbone": method.backbone.state_dict(),
        "epoch": len(outcome.history),
    }
    with whole(out / "model.pt") as file:
        file.write(packed(model))
    with whole(out / "history.csv", "w") as file:
        file.write(history_csv(outcome.history))
    with whole(out / "snapshots.npz") as file:
        kept = {epoch: features.numpy() for epoch, features in outcome.snapshots.items()}
        np.savez(file, rows=inputs.rows[snapshot_rows(len(inputs.rows)).numpy()], **kept)
    name, seed = inputs.recipe["name"], record.facts["seed"]
    at_chance = bool(outcome.history and outcome.history[-1].get("at_chance"))
    if at_chance:
        print(f"warning: {name}, seed {seed}: the loss sits at the value of chance: it collapsed")
    facts = record.finish(
        outcome.status,
        files=hashes(out / "model.pt", out / "history.csv", out / "snapshots.npz"),
        diverged=outcome.diverged,
        untaught=outcome.untaught,
        at_chance=at_chance,
        backbone=digest(method.backbone),
        weights=weights,
        base_seed=inputs.base["seed"] if inputs.base else None,
        epochs=len(outcome.history),
        training_seconds=round(sum(row["seconds"] for row in outcome.history), 3),
        parameters=sum(parameter.numel() for parameter in method.parameters()),
        device=str(fabric.device),
        devices=fabric.world_size,
        precision=fabric._precision.precision,
    )
    write_json(out / "train.json", {"records": {"prepare": inputs.data.card["record"], "train": facts}})
    print(f"{name} on {inputs.data.card['name']}, seed {seed}: {facts['status']}, {facts['epochs']} epochs")


def _failure(outcome: Outcome) -> str:
    if outcome.diverged:
        return (
            f"training diverged: term {outcome.diverged['term']!r} is not finite in epoch {outcome.diverged['epoch']}"
        )
    where: dict[str, Any] = outcome.untaught or {}
    return f"training had nothing to learn from: all {where['steps']} steps of epoch {where['epoch']} were empty"


def fabric_precision(wanted: str, device: str) -> str:
    """Fabric's name of the precision; `auto` is bfloat16 where the device computes in it, float32 elsewhere."""
    if wanted == "auto":
        if device != "cpu" and torch.cuda.is_available():
            wanted = "bf16" if torch.cuda.is_bf16_supported() else "32"
        else:
            # torch has no public question for this, and not every build has both of these.
            units = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
            wanted = "bf16" if any(getattr(torch.cpu, name, bool)() for name in units) else "32"
    return {"32": "32-true", "bf16": "bf16-mixed"}[wanted]


if __name__ == "__main__":
    run_stage(main)
