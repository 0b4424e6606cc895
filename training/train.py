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
from lightning_fabric import Fabric
from lightning_fabric.plugins.environments import LightningEnvironment

from methods.method import DataFacts, Method, build_method, digest, load_method
from pipeline.catalogue import entry_or_json
from pipeline.recipes import resolve_or_json, splits_read
from pipeline.record import Record, StageError, read_json, run_stage, whole, write_json
from preparation.prepared import Prepared, open_prepared
from training.augmentation import normalisation
from training.checkpoint import ResumeState
from training.feed import training_feed
from training.loop import history_csv, snapshot_rows, train
from training.mine import read_neighbours
from training.seeds import derive
from training.weights import load_weights


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="prepared folder")
    parser.add_argument("--recipe", required=True, help="name in config/recipes, or a resolved recipe as JSON")
    parser.add_argument("--protocol", required=True, help="name in config/protocols.yaml, or its JSON")
    parser.add_argument("--seed", required=True, type=int)
    parser.add_argument("--base", help="model.pt of the base recipe, where the recipe names one")
    parser.add_argument("--neighbours", help="file of stage mine, where the recipe names neighbours")
    parser.add_argument("--watched", help="file of stage mine for the scored rows, where the recipe watches them")
    parser.add_argument("--out", required=True, help="folder to write")
    parser.add_argument("--resume", default="results/.resume", help="folder for the state of unfinished runs")
    parser.add_argument("--device", default=os.environ.get("BENCH_DEVICE", "auto"), help="auto, cpu or cuda")
    parser.add_argument(
        "--checkpoint-minutes", type=float, default=float(os.environ.get("BENCH_CHECKPOINT_MINUTES", 10))
    )
    parser.add_argument("--devices", type=int, default=int(os.environ.get("BENCH_DEVICES", 1)), help="processes of DDP")
    parser.add_argument("--compile", action="store_true", default=os.environ.get("BENCH_COMPILE") == "1")
    parser.add_argument("--strict", action="store_true", default=os.environ.get("BENCH_STRICT") == "1")
    given = parser.parse_args()

    data = open_prepared(given.data)
    recipe = resolve_or_json(given.recipe, data.card["name"])
    protocol_name, protocol = entry_or_json("protocol", given.protocol)
    splits = splits_read(recipe, protocol_name, protocol)
    rows = data.rows(splits["train"])
    if "labels" in recipe:
        rows = labelled_rows(data, rows, recipe["labels"])
    base = _read_base(recipe, given.base)
    settings = {"recipe": recipe, "protocol": splits}
    inputs = {"data": data.card["record"]["fingerprint"], **({"base": base["fingerprint"]} if base else {})}
    neighbours, scored, near = None, None, None
    for option, path, wanted in (
        ("neighbours", given.neighbours, "neighbours" in recipe),
        ("watched", given.watched, "score" in splits),
    ):
        if wanted != bool(path):
            raise StageError(
                f"recipe {recipe['name']!r} {'needs' if wanted else 'uses no'} {option}: "
                f"{'give their file as' if wanted else 'leave out'} --{option}"
            )
    if given.neighbours:
        neighbours, inputs["neighbours"] = read_neighbours(given.neighbours, rows, inputs["data"])
    if given.watched:
        scored = data.rows(splits["score"])
        near, inputs["watched"] = read_neighbours(given.watched, scored, inputs["data"])
    record = Record("train", ("training.train", f"methods.{recipe['method']}"), settings, inputs, given.seed)

    fabric = Fabric(
        accelerator=given.device,
        devices=given.devices,
        strategy="ddp" if given.devices > 1 else "auto",
        precision=fabric_precision(recipe["precision"], given.device),
        plugins=[LightningEnvironment()],  # one job starts its own processes, under SLURM too
    )
    fabric.launch()  # starts the other processes, if any: each runs this program
    kind = load_method(recipe["method"])
    facts = DataFacts(data.card["classes"], tuple(data.card["shape"]), len(rows))
    torch.manual_seed(derive(given.seed, "weights"))
    method = build_method(recipe, facts)
    if base:
        _inherit(method, base["method"], given.base)
    weights = None
    if "weights" in recipe["network"]:
        weights = load_weights(
            method.backbone, Path(os.environ.get("BENCH_WEIGHTS_ROOT", ""), recipe["network"]["weights"])
        )
    if base or weights:
        method.inherited()
    if given.compile:
        method.backbone.compile()
    frozen = digest(method.backbone) if method.frozen else None
    images = training_feed(data, rows, data.labels[rows] if kind.uses_labels else None, fabric.device)

    state = ResumeState(Path(given.resume) / f"train-{record.facts['fingerprint']}")
    normal = normalisation(recipe, data.card)
    minutes = given.checkpoint_minutes
    watched = None if near is None else (training_feed(data, scored, None, fabric.device), near)
    outcome = train(fabric, method, recipe, images, normal, given.seed, state, minutes, neighbours, watched)
    if outcome.diverged and given.strict:
        state.remove()
        raise StageError(
            f"training diverged: term {outcome.diverged['term']!r} is not finite in epoch {outcome.diverged['epoch']} "
            f"(recipe {recipe['name']}, seed {given.seed}); strict=true makes this an error"
        )
    fabric.barrier()
    if not fabric.is_global_zero:
        return
    out = Path(given.out)
    method.cpu()
    backbone = digest(method.backbone)
    if frozen not in (None, backbone):
        raise RuntimeError(f"the frozen backbone changed in training: {frozen} before, {backbone} after")
    model = {
        "method": method.state_dict(),
        "backbone": method.backbone.state_dict(),
        "fingerprint": record.facts["fingerprint"],
        "epoch": len(outcome.history),
    }
    with whole(out / "model.pt") as file:
        torch.save(model, file)
    with whole(out / "history.csv", "w") as file:
        file.write(history_csv(outcome.history))
    with whole(out / "snapshots.npz") as file:
        kept = {epoch: features.numpy() for epoch, features in outcome.snapshots.items()}
        np.savez(file, rows=rows[snapshot_rows(len(rows)).numpy()], **kept)
    collapsed = bool(outcome.history and outcome.history[-1].get("at_chance"))
    if collapsed:
        print(f"warning: {recipe['name']}, seed {given.seed}: the loss sits at the value of chance: it collapsed")
    own = record.finish(
        "diverged" if outcome.diverged else "ok",
        diverged=outcome.diverged,
        at_chance=collapsed,
        backbone=backbone,
        weights=weights,
        base_seed=base["seed"] if base else None,
        epochs=len(outcome.history),
        training_seconds=round(sum(row["seconds"] for row in outcome.history), 3),
        parameters=sum(parameter.numel() for parameter in method.parameters()),
        device=str(fabric.device),
        devices=fabric.world_size,
        precision=fabric._precision.precision,
    )
    write_json(out / "train.json", {"records": {"prepare": data.card["record"], "train": own}})
    state.remove()
    print(f"{recipe['name']} on {data.card['name']}, seed {given.seed}: {own['status']}, {own['epochs']} epochs")


def labelled_rows(data: Prepared, rows: np.ndarray, wanted: dict[str, Any]) -> np.ndarray:
    """The part of `rows` whose labels may be used: a share of each class, the same for every seed, or listed files."""
    if "list" in wanted:
        path = Path(os.environ.get("BENCH_DATA_ROOT", ""), wanted["list"])
        if not path.is_file() or data.root is None:
            raise StageError(f"labels.list: {path} must be a file, and the data set one of image files")
        names = set(path.read_text(encoding="utf-8").split())
        kept = [row for row in rows if Path(str(data.images[row])).name in names]
        if len(kept) != len(names):
            raise StageError(f"{path}: {len(names)} files named, {len(kept)} of them are in the training splits")
        return np.array(kept)
    generator = np.random.default_rng(0)
    kept = []
    for label in np.unique(data.labels[rows][data.labels[rows] >= 0]):
        own = generator.permutation(rows[data.labels[rows] == label])
        kept.append(own[: max(1, round(wanted["fraction"] * len(own)))])
    return np.sort(np.concatenate(kept))


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


def _read_base(recipe: dict[str, Any], path: str | None) -> dict[str, Any] | None:
    """The base model that the recipe starts from, with its seed, or None."""
    if recipe.get("base") is None:
        if path:
            raise StageError(f"recipe {recipe['name']!r} names no base, but --base {path} was given: leave it out")
        return None
    if not path:
        raise StageError(
            f"recipe {recipe['name']!r} starts from {recipe['base']['recipe']!r}: give its model as --base"
        )
    if not Path(path).is_file():
        raise StageError(f"{path}: base model not found; train {recipe['base']['recipe']!r} first")
    model = torch.load(path, map_location="cpu", weights_only=True)
    model["seed"] = read_json(Path(path).with_name("train.json"))["records"]["train"]["seed"]
    return model


def _inherit(method: Method, weights: dict[str, torch.Tensor], path: str) -> None:
    """Load the parts that the method inherits from the base's state."""
    for part in method.inherits:
        own = {name.removeprefix(f"{part}."): value for name, value in weights.items() if name.startswith(f"{part}.")}
        try:
            getattr(method, part).load_state_dict(own)
        except RuntimeError as problem:
            raise StageError(
                f"{path}: its {part} does not fit this recipe's network ({' '.join(str(problem).split())[:300]}); "
                "give the recipe and its base the same network"
            ) from None


if __name__ == "__main__":
    run_stage(main)
