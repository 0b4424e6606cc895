"""PCL's E-step: its share of an epoch, and its K-means beside faiss with the same starts and iterations.

python -m benchmarks.estep --data results/data/digits [--epochs 3]

Side by side in one process. The last line is one JSON object: seconds of the E-step (features and clusters) and of the
whole epoch, medians over the epochs; seconds of K-means and of faiss on the last epoch's features, and both inertias.
"""

import argparse
import json
import statistics
import time

import faiss
import numpy as np
import torch
from torch import Tensor

from benchmarks.loop import train_here
from methods import pcl
from methods.blocks.kmeans import kmeans
from methods.method import Context
from preparation.prepared import open_prepared


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="prepared folder")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    data = open_prepared(given.data)
    changes = {"schedule": {"epochs": given.epochs}, "settings": {"warmup_epochs": 0, "queue": 1024}}
    spent: list[float] = []
    kept: list[Tensor] = []

    def watch(method: pcl.PCL) -> None:
        e_step, features_of_all = method.before_epoch, method._features_of_all

        def timed(context: Context) -> None:
            begun = time.perf_counter()
            e_step(context)
            spent.append(time.perf_counter() - begun)

        def remembered(context: Context) -> Tensor:
            kept[:] = [features_of_all(context)]
            return kept[0]

        method.before_epoch, method._features_of_all = timed, remembered

    method, outcome = train_here(data, "pcl", changes, watch)
    epoch, step = statistics.median(row["seconds"] for row in outcome.history), statistics.median(spent)
    report = {"epoch_s": round(epoch, 3), "e_step_s": round(step, 3), "e_step_share": round(step / epoch, 3)}
    report |= {"rows": len(kept[0]), "prototypes": method.counts, "threads": torch.get_num_threads()}
    print(json.dumps(report | beside_faiss(kept[0], method, given.repeats)))


def beside_faiss(features: Tensor, method: pcl.PCL, repeats: int) -> dict[str, float | list[float]]:
    """Seconds and inertias of both for all granularities, taking turns."""
    faiss.omp_set_num_threads(torch.get_num_threads())
    seconds: dict[str, list[float]] = {"kmeans": [], "faiss": []}
    inertia: dict[str, list[float]] = {"kmeans": [], "faiss": []}
    x = np.ascontiguousarray(features.numpy())
    for _ in range(repeats):
        for name in seconds:
            begun = time.perf_counter()
            inertia[name] = []
            for number, count in enumerate(method.counts):
                if name == "kmeans":
                    fitted = kmeans(
                        features, count, method.settings.restarts, max_iter=method.settings.iterations, seed=number
                    )
                    inertia[name].append(float(fitted.inertia))
                else:
                    settings = {"niter": method.settings.iterations, "nredo": method.settings.restarts, "seed": number}
                    model = faiss.Kmeans(x.shape[1], count, **settings, max_points_per_centroid=1000)
                    model.train(x)
                    inertia[name].append(float(model.index.search(x, 1)[0].sum()))
            seconds[name].append(time.perf_counter() - begun)
    median = {name: statistics.median(values) for name, values in seconds.items()}
    return {
        "kmeans_s": round(median["kmeans"], 3),
        "faiss_s": round(median["faiss"], 3),
        "vs_faiss": round(median["faiss"] / median["kmeans"], 2),
        "inertia_over_faiss": [round(a / b - 1, 5) for a, b in zip(inertia["kmeans"], inertia["faiss"], strict=True)],
    }


if __name__ == "__main__":
    main()
