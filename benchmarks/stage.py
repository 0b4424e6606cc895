"""A whole SimCLR training stage beside its bare step and beside lightly's own loop on the same network.

python -m benchmarks.stage [--network convnet_28] [--device cpu] [--repeats 5]

ours: the project's loop with batched augmentation from memory. bare: forward, backward, step on ready tensors. lightly:
its SimCLR transform on PIL images in a DataLoader with two workers (on cores of their own, where ours uses one; and
once without workers, on one core as well), its head and loss, float32 as its examples run.
Ours and the bare step run in the recipe precision `auto` (bfloat16 where the hardware has it) unless --precision 32.
Contenders take turns in one process; images per second are medians. The last line is one JSON object: `of_bare_step`,
`vs_lightly`, `vs_lightly_one_core`.
"""

import argparse
import contextlib
import json
import os
import tempfile
import time

import numpy as np
import torch
from PIL import Image

from benchmarks.step import NETWORKS, bare_step, measure, simclr
from methods.blocks.networks import backbone
from methods.method import build_method
from pipeline.catalogue import entry
from training.augmentation import Augment
from training.checkpoint import ResumeState
from training.fabric import Fabric, LightningEnvironment
from training.feed import Images
from training.loop import TrainingData, train
from training.optimisers import build_optimiser
from training.train import fabric_precision


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", choices=list(NETWORKS), default="convnet_28")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=8, help="steps of one turn")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--precision", choices=["auto", "32"], default="auto")
    parser.add_argument("--no-lightly", action="store_true")
    parser.add_argument("--memory", type=int, help="only run one epoch over so many made images and print peak memory")
    given = parser.parse_args()
    torch.set_num_threads(1)
    recipe, facts = simclr(given.network)
    recipe["augmentation"] = entry("augmentation", "simclr")
    if given.memory:
        return peak_memory(recipe, facts, given.memory)
    rows = given.steps * recipe["batch_size"]
    images = np.random.default_rng(0).integers(0, 256, (rows, *facts.shape), dtype=np.uint8)
    normalisation = {"mean": [0.5] * facts.shape[2], "std": [0.25] * facts.shape[2]}
    device, precision = torch.device(given.device), fabric_precision(given.precision, given.device)
    contenders = {
        "ours": stage(recipe, facts, images, normalisation, given.device, precision),
        "bare": bare(recipe, facts, images, normalisation, device, given.steps, precision),
    }
    if not given.no_lightly:
        contenders["lightly"] = lightly_loop(recipe, facts, images, normalisation, device, workers=2)
        contenders["lightly_one_core"] = lightly_loop(recipe, facts, images, normalisation, device, workers=0)
    seconds = measure(contenders, given.repeats)
    for name, value in seconds.items():
        print(f"{given.network} {name:8s} {rows / value:9.0f} images/s")
    result = {
        "network": given.network,
        "precision": precision,
        "of_bare_step": round(seconds["bare"] / seconds["ours"], 3),
    }
    for name in ("lightly", "lightly_one_core"):
        if name in seconds:
            result[f"vs_{name}"] = round(seconds[name] / seconds["ours"], 2)
    print(json.dumps(result | {"images_per_s": round(rows / seconds["ours"]), "device": given.device}))
    return None


def stage(recipe, facts, images, normalisation, device, precision):
    """One epoch of the project's own loop, model and data in place."""
    fabric = Fabric(accelerator=device, devices=1, precision=precision, plugins=[LightningEnvironment()])
    method = build_method(recipe, facts)
    feed = Images(images, None, fabric.device)
    folder = tempfile.mkdtemp()

    def run():
        with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
            train(fabric, method, recipe, TrainingData(feed, normalisation), 0, ResumeState(folder), 10)

    return run


def bare(recipe, facts, images, normalisation, device, steps, precision):
    pixels = torch.from_numpy(images[: recipe["batch_size"]]).permute(0, 3, 1, 2).contiguous().to(device)
    augment, generator = Augment(recipe["augmentation"], normalisation), torch.Generator().manual_seed(0)
    views = [augment(pixels, generator) for _ in range(2)]
    step = bare_step(build_method(recipe, facts), recipe, views, bf16="bf16" in precision)

    def run():
        for _ in range(steps):
            step()

    return run


def lightly_loop(recipe, facts, images, normalisation, device, workers):
    """The loop of lightly's SimCLR example with the same network, optimiser and batch."""
    from lightly.loss import NTXentLoss
    from lightly.models.modules import SimCLRProjectionHead
    from lightly.transforms import SimCLRTransform

    side = facts.shape[0]
    transform = SimCLRTransform(input_size=side, min_scale=0.08, normalize=normalisation)
    pictures = [Image.fromarray(image.squeeze()) for image in images]

    class Pictures(torch.utils.data.Dataset):
        def __len__(self):
            return len(pictures)

        def __getitem__(self, row):
            return transform(pictures[row])

    loader = torch.utils.data.DataLoader(
        Pictures(),
        recipe["batch_size"],
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        persistent_workers=workers > 0,
    )
    net = backbone(recipe["network"], facts.shape)
    model = torch.nn.Sequential(net, SimCLRProjectionHead(net.width, net.width, 128)).to(device).train()
    optimiser, criterion = build_optimiser(recipe["optimiser"], model), NTXentLoss(temperature=0.5)

    def run():
        for first, second in loader:
            loss = criterion(model(first.to(device)), model(second.to(device)))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()

    return run


def peak_memory(recipe, facts, rows):
    """Resident memory at its highest over one epoch of the stage on `rows` images."""
    import resource

    images = np.zeros((rows, *facts.shape), dtype=np.uint8)
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/images.npy", images)
        del images
        mapped = np.load(f"{folder}/images.npy", mmap_mode="r")
        begun = time.perf_counter()
        stage(recipe, facts, mapped, {"mean": [0.5], "std": [0.25]}, "cpu", fabric_precision("auto", "cpu"))()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(json.dumps({"rows": rows, "peak_gib": round(peak, 3), "seconds": round(time.perf_counter() - begun)}))


if __name__ == "__main__":
    main()
