"""Time of one training step on ready tensors, by network and precision: what the hardware gives before any data work.

python -m benchmarks.step [--device cpu] [--repeats 5] [--methods simclr_base uniclr uniclr-whitening ...]

Medians of several turns, contenders side by side in one process. With `--methods` the recipes' own heads and losses on
one network instead, as multiples of the first one's step. The last line is one JSON object of ratios.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable

import torch

from methods.method import Batch, DataFacts, Method, build_method
from pipeline.recipes import resolve
from training.optimisers import build_optimiser

NETWORKS = {
    "convnet_28": ((28, 28, 1), {"backbone": "convnet", "widths": [32, 64, 128, 128], "pool_after": [0, 2]}, 256),
    "narrow_28": ((28, 28, 1), {"backbone": "convnet", "widths": [16, 32, 64, 64], "pool_after": [0, 2]}, 256),
    "resnet18_32": ((32, 32, 3), {"backbone": "resnet18", "stem": "cifar"}, 64),
}


def simclr(network: str, batch_size: int | None = None) -> tuple[dict, DataFacts]:
    """A SimCLR recipe on one of NETWORKS, and the facts of made data that fit it."""
    shape, net, batch = NETWORKS[network]
    recipe = {
        "name": network,
        "method": "simclr",
        "base": None,
        "network": net,
        "augmentation": {},
        "optimiser": {"name": "sgd", "lr": 0.01, "momentum": 0.9, "weight_decay": 1e-4},
        "schedule": {"name": "constant", "epochs": 1},
        "batch_size": batch_size or batch,
        "precision": "32",
        "weights": {"contrast": 1},
        "settings": {"embedding": 128, "temperature": 0.5, "anchors": "both"},
    }
    return recipe, DataFacts(10, shape, 10_000)


def bare_step(
    method: Method, recipe: dict, views: list[torch.Tensor], bf16: bool = False, channels_last: bool = True
) -> Callable[[], None]:
    """Forward, backward and optimiser step on ready views."""
    device = views[0].device
    layout = torch.channels_last if channels_last else torch.contiguous_format
    method = method.to(device, memory_format=layout).train()
    optimiser = build_optimiser(recipe["optimiser"], method)
    batch = Batch([view.contiguous(memory_format=layout) for view in views], torch.arange(len(views[0])))

    def step() -> None:
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            total = sum(recipe["weights"].get(name, 1) * value for name, value in method(batch).items())
        optimiser.zero_grad(set_to_none=True)
        total.backward()
        optimiser.step()
        method.after_step()
        if device.type == "cuda":
            torch.cuda.synchronize()

    return step


def measure(contenders: dict[str, Callable[[], None]], repeats: int) -> dict[str, float]:
    """Median seconds of each contender; they take turns."""
    for run in contenders.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(repeats):
        for name, run in contenders.items():
            begun = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - begun)
    return {name: statistics.median(values) for name, values in times.items()}


def method_steps(names: list[str], device: str, repeats: int) -> dict[str, float]:
    """Step time of recipes on the ConvNet for 28 px, batch 256, float32, as multiples of the first one's."""
    shape, network, size = NETWORKS["convnet_28"]
    views = [torch.randn(size, shape[2], *shape[:2], device=device) for _ in range(2)]
    contenders = {}
    for name in names:
        recipe = resolve(name, "digits", {"*": {"network": network}})
        method = build_method(recipe, DataFacts(10, shape, 10_000))
        contenders[name] = bare_step(method, recipe, views)
    seconds = measure(contenders, repeats)
    for name, value in seconds.items():
        print(f"{name:24s} {1000 * value:8.1f} ms")
    return {name: round(value / seconds[names[0]], 3) for name, value in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--methods", nargs="+", help="recipes to compare, the first is 1")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    if given.methods:
        print(json.dumps(method_steps(given.methods, given.device, given.repeats)))
        return
    ratios = {}
    for network in NETWORKS:
        recipe, facts = simclr(network)
        shape = (recipe["batch_size"], facts.shape[2], *facts.shape[:2])
        views = [torch.randn(shape, device=given.device) for _ in range(2)]
        variants = {
            "plain": {"channels_last": False},
            "channels_last": {},
            "bf16": {"channels_last": False, "bf16": True},
            "bf16_channels_last": {"bf16": True},
        }
        contenders = {
            name: bare_step(build_method(recipe, facts), recipe, views, **options) for name, options in variants.items()
        }
        seconds = measure(contenders, given.repeats)
        for name, value in seconds.items():
            print(f"{network:12s} {name:20s} {recipe['batch_size'] / value:9.0f} images/s")
            ratios[f"{network}_{name}"] = round(seconds["plain"] / value, 2)
    print(json.dumps(ratios | {"device": given.device, "threads": given.threads}))


if __name__ == "__main__":
    main()
