"""DEC and IDEC beside ClustPy's: seconds per epoch on one data set, same network, batch and epochs; accuracy of both.

python -m benchmarks.deep_clustering --data results/data/usps [--epochs 6] [--repeats 3] [--interval 140]

ClustPy is no dependency of the project: `pip install --no-deps clustpy`. Side by side in one process, float32, all
threads. Seconds per epoch come from the difference of a long and a short run, which leaves out what happens once. The
last line is one JSON object: `vs_clustpy` for pretraining, DEC and IDEC (its seconds per epoch over ours), and both
accuracies after `epochs` epochs of pretraining and of clustering.
"""

import argparse
import functools
import json
import statistics
import time

import numpy as np
import torch
from clustpy.deep import DEC, IDEC

from benchmarks.loop import train_here
from evaluation.metrics.accuracy import accuracy
from methods.method import Method
from preparation.prepared import Prepared, open_prepared

WIDTHS = [500, 500, 2000, 10]  # ClustPy's default


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="prepared folder")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--interval", type=int, default=140, help="steps between our targets of all samples (DEC: 140)")
    given = parser.parse_args()
    data = open_prepared(given.data)
    report: dict = {"vs_clustpy": {}, "seconds_per_epoch": {}, "ACC": {}, "threads": torch.get_num_threads()}
    seconds: dict[str, list[float]] = {}
    PRETRAINED["autoencoder"] = run_ours(data, "autoencoder", given.epochs, None, given.interval)
    for _ in range(given.repeats):
        for name, run in (("ours", functools.partial(ours, interval=given.interval)), ("clustpy", clustpy)):
            for method in ("pretraining", "dec", "idec"):
                short = timed(lambda run=run, method=method: run(data, method, 1, given.epochs))
                long = timed(lambda run=run, method=method: run(data, method, given.epochs, given.epochs))
                seconds.setdefault(f"{name} {method}", []).append((long[0] - short[0]) / (given.epochs - 1))
                if method != "pretraining":
                    report["ACC"].setdefault(f"{name} {method}", []).append(round(accuracy(data.labels, long[1]), 4))
    median = {name: statistics.median(values) for name, values in seconds.items()}
    report["seconds_per_epoch"] = {name: round(value, 3) for name, value in median.items()}
    for method in ("pretraining", "dec", "idec"):
        report["vs_clustpy"][method] = round(median[f"clustpy {method}"] / median[f"ours {method}"], 2)
    print(json.dumps(report))


def timed(run):
    """(seconds, result) of a call."""
    begun = time.perf_counter()
    result = run()
    return time.perf_counter() - begun, result


PRETRAINED: dict[str, Method] = {}


def ours(data: Prepared, method: str, epochs: int, pretraining: int, interval: int) -> np.ndarray | None:
    """Train for `epochs` from an autoencoder of `pretraining` epochs (made once); clusters of every row."""
    if method == "pretraining":
        run_ours(data, "autoencoder", epochs, None, interval)
        return None
    trained = run_ours(data, method, epochs, PRETRAINED["autoencoder"], interval)
    x = torch.from_numpy(data.vectors(np.arange(len(data.images))))
    with torch.inference_mode():
        return trained.features(x)["p"].argmax(1).numpy()


def run_ours(data: Prepared, name: str, epochs: int, base: Method | None, interval: int) -> Method:
    """The recipe with ClustPy's network and optimiser (Adam), a plain autoencoder.

    ClustPy takes the target of each batch from that batch alone; ours comes from all samples every so many steps.
    """
    changes: dict = {
        "network": {"widths": WIDTHS},
        "schedule": {"epochs": epochs},
        "optimiser": {"name": "adam", "lr": 1e-3 if name == "autoencoder" else 1e-4, "momentum": 0},
    }
    changes["settings"] = {"noise": 0} if name == "autoencoder" else {"interval": interval, "tolerance": 0}

    def start(method: Method) -> None:
        for part in method.inherits if base else ():
            getattr(method, part).load_state_dict(getattr(base, part).state_dict())

    return train_here(data, name, changes, start)[0].eval()


def clustpy(data: Prepared, method: str, epochs: int, pretraining: int) -> np.ndarray | None:
    """The same by ClustPy, whose pretraining is part of every run and so falls out of the difference."""
    x = data.vectors(np.arange(len(data.images)))
    before, after = (epochs, 0) if method == "pretraining" else (pretraining, epochs)
    kind = DEC if method == "dec" else IDEC
    model = kind(
        data.card["classes"],
        batch_size=256,
        pretrain_epochs=before,
        clustering_epochs=after,
        pretrain_optimizer_params={"lr": 1e-3},
        clustering_optimizer_params={"lr": 1e-4},
        device="cpu",
        random_state=0,
    ).fit(x)
    return model.labels_


if __name__ == "__main__":
    main()
