"""Views per second of the batched augmentation beside torchvision (PIL and v2 tensors) and kornia, on one core.

python -m benchmarks.augment [--side 32] [--images 512] [--repeats 7]

The recipe is the whole SimCLR one: crop, flip, jitter with hue, grey, blur, normalise. Every contender makes two views
of the same images; contenders take turns, medians over the turns. The last line is one JSON object with the ratios.
"""

import argparse
import json
import statistics
import time

import numpy as np
import torch
import torchvision.transforms as v1
import torchvision.transforms.v2 as v2
from PIL import Image

from pipeline.catalogue import entry
from pipeline.recipes import merge
from training.augmentation import Augment

MEAN, STD = [0.4914, 0.4822, 0.4465], [0.2023, 0.1994, 0.2010]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", type=int, default=32)
    parser.add_argument("--images", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--no-blur", action="store_true")
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    torch.set_num_threads(1)
    recipe = entry("augmentation", "simclr")
    if given.no_blur:
        recipe = merge(recipe, {"blur": None})
    images = np.random.default_rng(0).integers(0, 256, (given.images, given.side, given.side, 3), dtype=np.uint8)
    contenders = {
        "ours": ours(images, recipe, given.device),
        "torchvision_pil": torchvision_pil(images, recipe),
        "torchvision_v2": torchvision_v2(images, recipe),
        "kornia": kornia_batched(images, recipe, given.device),
    }
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for view in contenders.values():
        view()  # warm-up
    for _ in range(given.repeats):
        for name, view in contenders.items():
            begun = time.perf_counter()
            view()
            view()
            if given.device == "cuda":
                torch.cuda.synchronize()
            times[name].append(time.perf_counter() - begun)
    rates = {name: 2 * given.images / statistics.median(values) for name, values in times.items()}
    for name, rate in rates.items():
        print(f"{name:16s} {rate:10.0f} views/s")
    for name, share in where_time_goes(images, recipe, given.repeats).items():
        print(f"  of ours: {name:10s} {share:5.1%}")
    ratios = {f"vs_{name}": round(rates["ours"] / rate, 2) for name, rate in rates.items() if name != "ours"}
    facts = {"views_per_s": round(rates["ours"]), "side": given.side, "blur": not given.no_blur, "device": given.device}
    print(json.dumps({**ratios, **facts}))


def ours(images, recipe, device):
    pixels = torch.from_numpy(images).permute(0, 3, 1, 2).contiguous().to(device)
    augment, generator = Augment(recipe, {"mean": MEAN, "std": STD}), torch.Generator().manual_seed(0)
    return lambda: augment(pixels, generator)


def torchvision_pil(images, recipe):
    """The pipeline of the papers' own code: PIL images, one by one."""
    crop, jitter, blur = recipe["crop"], recipe["jitter"], recipe["blur"]
    side = images.shape[1]
    steps = [
        v1.RandomResizedCrop(side, scale=crop["scale"], ratio=crop["ratio"]),
        v1.RandomHorizontalFlip(recipe["flip"]["probability"]),
        v1.RandomApply(
            [v1.ColorJitter(jitter["brightness"], jitter["contrast"], jitter["saturation"], jitter["hue"])],
            p=jitter["probability"],
        ),
        v1.RandomGrayscale(recipe["grey"]["probability"]),
    ]
    if blur:
        steps.append(v1.RandomApply([v1.GaussianBlur(kernel(blur, side), blur["sigma"])], p=blur["probability"]))
    transform = v1.Compose([*steps, v1.ToTensor(), v1.Normalize(MEAN, STD)])
    pictures = [Image.fromarray(image) for image in images]
    return lambda: torch.stack([transform(picture) for picture in pictures])


def torchvision_v2(images, recipe):
    """torchvision's v2 transforms on uint8 tensors, one by one (on a batch they would share one draw)."""
    crop, jitter, blur = recipe["crop"], recipe["jitter"], recipe["blur"]
    side = images.shape[1]
    steps = [
        v2.RandomResizedCrop(side, scale=crop["scale"], ratio=crop["ratio"], antialias=True),
        v2.RandomHorizontalFlip(recipe["flip"]["probability"]),
        v2.RandomApply(
            [v2.ColorJitter(jitter["brightness"], jitter["contrast"], jitter["saturation"], jitter["hue"])],
            p=jitter["probability"],
        ),
        v2.RandomGrayscale(recipe["grey"]["probability"]),
    ]
    if blur:
        steps.append(v2.RandomApply([v2.GaussianBlur(kernel(blur, side), blur["sigma"])], p=blur["probability"]))
    transform = v2.Compose([*steps, v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)])
    tensors = list(torch.from_numpy(images).permute(0, 3, 1, 2).contiguous())
    return lambda: torch.stack([transform(tensor) for tensor in tensors])


def kornia_batched(images, recipe, device):
    """kornia's batched augmentations with one draw per image."""
    import kornia.augmentation as K

    crop, jitter, blur = recipe["crop"], recipe["jitter"], recipe["blur"]
    side = images.shape[1]
    steps = [
        K.RandomResizedCrop((side, side), scale=tuple(crop["scale"]), ratio=tuple(crop["ratio"])),
        K.RandomHorizontalFlip(p=recipe["flip"]["probability"]),
        K.ColorJitter(
            jitter["brightness"], jitter["contrast"], jitter["saturation"], jitter["hue"], p=jitter["probability"]
        ),
        K.RandomGrayscale(p=recipe["grey"]["probability"]),
    ]
    if blur:
        width = kernel(blur, side)
        steps.append(K.RandomGaussianBlur((width, width), tuple(blur["sigma"]), p=blur["probability"]))
    steps.append(K.Normalize(torch.tensor(MEAN), torch.tensor(STD)))
    transform = K.AugmentationSequential(*steps, data_keys=["input"]).to(device)
    pixels = torch.from_numpy(images).permute(0, 3, 1, 2).contiguous().to(device)

    def view():
        with torch.no_grad():
            return transform(pixels.float() / 255)

    return view


def kernel(blur, side):
    return max(3, int(blur["kernel_share"] * side) // 2 * 2 + 1)


def where_time_goes(images, recipe, repeats):
    """Share of each operation: what leaving it out saves, out of the whole."""
    names = [name for name, settings in recipe.items() if settings]
    variants = {"all": recipe, **{name: merge(recipe, {name: None}) for name in names}}
    runs = {name: ours(images, variant, "cpu") for name, variant in variants.items()}
    times = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            begun = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - begun)
    whole = statistics.median(times["all"])
    return {name: (whole - statistics.median(times[name])) / whole for name in names}


if __name__ == "__main__":
    main()
