"""Stage `embed`: trained model -> features.npz (h, and z, p where the method has them) of every image, features.json.

python -m methods.embed --data results/data/digits --model some/folder/model.pt --out some/folder
"""

import argparse
import os
from pathlib import Path

import numpy as np
import torch

from methods.engine.augment import Normalise
from methods.engine.batches import Images
from methods.engine.method import DataFacts, build_method
from preparation.prepared import DataError, open_prepared
from rules.record import Record, read_json, run_stage, whole, write_json

BATCH = 1024  # rows per forward pass; no result depends on it, batch norm is in eval mode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="prepared folder")
    parser.add_argument("--model", required=True, help="model.pt; train.json lies beside it")
    parser.add_argument("--out", required=True, help="folder to write")
    parser.add_argument("--device", default=os.environ.get("BENCH_DEVICE", "auto"), help="auto, cpu or cuda")
    given = parser.parse_args()
    records = read_json(Path(given.model).with_name("train.json"))["records"]
    data = open_prepared(given.data)
    if data.card["record"]["fingerprint"] != records["prepare"]["fingerprint"]:
        raise DataError(
            f"{given.model} was trained on data {records['prepare']['fingerprint']}, {given.data} holds "
            f"{data.card['record']['fingerprint']}: train again, or prepare the data it was trained on"
        )
    recipe = records["train"]["settings"]["recipe"]
    record = Record(
        "embed", ("methods.embed", f"methods.{recipe['method']}"), {}, {"model": records["train"]["fingerprint"]}
    )
    wanted = given.device if given.device != "auto" else ("cuda" if torch.cuda.is_available() else "cpu")
    device = torch.device(wanted)
    rows = len(data.rows(records["train"]["settings"]["protocol"]["train"]))
    method = build_method(recipe, DataFacts(data.card["classes"], tuple(data.card["shape"]), rows))
    method.load_state_dict(torch.load(given.model, map_location="cpu", weights_only=True)["method"])
    method.to(device).eval()
    normalise = Normalise(data.card["normalisation"])
    parts: dict[str, list[np.ndarray]] = {}
    with torch.inference_mode():
        for start in range(0, len(data.images), BATCH):
            images = Images(data.images[start : start + BATCH], None, device)
            for name, values in method.features(normalise(images.pixels)).items():
                parts.setdefault(name, []).append(values.float().cpu().numpy())
    features = {name: np.concatenate(values) for name, values in parts.items()}
    out = Path(given.out)
    with whole(out / "features.npz") as file:
        np.savez(file, **features)
    shapes = {name: list(values.shape) for name, values in features.items()}
    write_json(
        out / "features.json", {"records": {**records, "embed": record.finish(shapes=shapes, device=str(device))}}
    )
    print(f"{recipe['name']} on {data.card['name']}: {shapes}")


if __name__ == "__main__":
    run_stage(main)
