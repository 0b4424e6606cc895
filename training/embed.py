"""Stage `embed`: trained model -> features.npz (h, and z, p where the method has them) of every image, features.json.

python -m training.embed --data results/data/digits --model some/folder/model.pt --out some/folder

With --new the images are those of another prepared folder (preparation/new_rows.py), which the model never saw.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from methods.blocks.distributed import rank, world
from methods.method import DataFacts, Method, build_method, digest
from pipeline.options import Parser
from pipeline.record import Record, hashes, read_records, run_stage, whole, write_json
from preparation.prepared import Prepared, check_made_from, content, open_prepared
from training.augmentation import Augment, normalisation
from training.devices import claim, refuse_missing
from training.feed import training_feed
from training.seeds import derive
from training.weights import read_model

VIEWS = 2000  # images of which two random views are embedded, for statistics of augmented pairs
BATCH = 1024  # rows per forward pass; no result depends on it, batch norm is in eval mode


def main() -> None:
    parser = Parser(description=__doc__)
    parser.add_argument("--data", required=True, help="prepared folder")
    parser.add_argument("--model", required=True, help="model.pt; train.json lies beside it")
    parser.add_argument("--new", help="prepared folder of new rows, whose features are written instead")
    parser.add_argument("--out", required=True, help="folder to write")
    parser.add_argument(
        "--devices", type=int, default=int(os.environ.get("BENCH_DEVICES", 1)), help="processes of one job"
    )
    parser.add_argument("--device", default=os.environ.get("BENCH_DEVICE", "auto"), help="auto, cpu or cuda")
    arguments = parser.parse_args()
    records = read_records(Path(arguments.model).with_name("train.json"), "prepare", "train")
    data = open_prepared(arguments.data)
    check_made_from(data, records, arguments.model)
    recipe = records["train"]["settings"]["recipe"]
    shown, inputs = data, {"model": records["train"]["fingerprint"]}
    if arguments.new:
        shown = open_prepared(arguments.new)
        inputs["new"] = content(shown.card)
    record = Record("embed", ("training.embed", f"methods.{recipe['method']}"), {}, inputs)
    claim(arguments.device, arguments.devices)
    refuse_missing(arguments.device)
    if arguments.devices > 1:
        from training.fabric import Fabric, LightningEnvironment  # slow to import, and one device does without

        fabric = Fabric(
            accelerator=arguments.device, devices=arguments.devices, strategy="ddp", plugins=[LightningEnvironment()]
        )
        fabric.launch()
        device = fabric.device
    else:
        device = torch.device("cuda" if arguments.device != "cpu" and torch.cuda.is_available() else "cpu")
    rows = len(data.rows(records["train"]["settings"]["protocol"]["train"]))
    method = build_method(recipe, DataFacts(data.card["classes"], tuple(data.card["shape"]), rows))
    method.load_state_dict(read_model(arguments.model, records["train"])["method"])
    method.to(device).eval()
    statistics = normalisation(recipe, data.card)
    features = embed(method, shown, Augment({}, statistics), device)
    if method.views == 2 and data.root is None and not arguments.new:
        features |= embed_views(method, data, Augment(recipe["augmentation"], statistics), device)
    if rank():
        return
    # What is evaluated is what was trained: embedding moved no weight and no batch-norm statistic.
    backbone = digest(method.cpu().backbone)
    if backbone != records["train"]["backbone"]:
        raise RuntimeError(f"backbone {backbone} after embedding, {records['train']['backbone']} after training")
    out = Path(arguments.out)
    with whole(out / "features.npz") as file:
        np.savez(file, **features)
    shapes = {name: list(values.shape) for name, values in features.items()}
    files = hashes(out / "features.npz")
    embedded = record.finish(files=files, shapes=shapes, backbone=backbone, device=str(device))
    write_json(out / "features.json", {"records": {**records, "embed": embedded}})
    print(f"{recipe['name']} on {data.card['name']}: {shapes}")


def embed_views(method: Method, data: Prepared, augment: Augment, device: torch.device) -> dict[str, np.ndarray]:
    """Embeddings of two random views of up to VIEWS images, evenly spaced: view1_z, view2_z, ... (all but h and p)."""
    rows = np.unique(np.linspace(0, len(data.images) - 1, min(VIEWS, len(data.images))).astype(int))
    images = training_feed(data, rows, None, torch.device("cpu")).pixels
    found = {}
    with torch.inference_mode():
        for view in (1, 2):
            generator = torch.Generator().manual_seed(derive(0, "views", view))
            parts: dict[str, list[Tensor]] = {}
            for batch in images.split(BATCH):
                for name, values in method.features(augment(batch, generator).to(device)).items():
                    parts.setdefault(name, []).append(values.float().cpu())
            found |= {f"view{view}_{name}": torch.cat(values).numpy() for name, values in parts.items()}
    return {name: values for name, values in found.items() if name.partition("_")[2] not in ("h", "p")}


def embed(method: Method, data: Prepared, plain: Augment, device: torch.device) -> dict[str, np.ndarray]:
    """Features of every image, in the data set's order. Processes take every R-th row; the first gets them all."""
    feed = training_feed(data, np.arange(len(data.images)), None, torch.device("cpu"))
    own = torch.arange(rank(), len(data.images), world())
    parts: dict[str, list[np.ndarray]] = {}
    with torch.inference_mode():
        for images in feed.clean(own, plain, BATCH):
            for name, values in method.features(images.to(device)).items():
                parts.setdefault(name, []).append(values.float().cpu().numpy())
    mine = {name: np.concatenate(values) for name, values in parts.items()}
    if world() == 1:
        return mine
    shares: list[Any] = [None] * world()
    torch.distributed.all_gather_object(shares, (own.numpy(), mine))
    merged = {}
    for name in mine:
        merged[name] = np.empty((len(data.images), *mine[name].shape[1:]), np.float32)
        for rows, share in shares:
            merged[name][rows] = share[name]
    return merged


if __name__ == "__main__":
    run_stage(main)
