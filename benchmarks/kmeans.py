"""K-means with 50 restarts beside scikit-learn and faiss on unit-norm features with cluster structure.

python -m benchmarks.kmeans [--sizes 8000x512x10 10000x512x20 10000x512x100] [--repeats 1]

Side by side in one process, all on the same threads. The last line is one JSON object: per size `vs_sklearn`,
`vs_faiss`, `inertia_excess` over scikit-learn (share), and `of_gemm_floor`: our time over that of the matrix products
of plain Lloyd, every restart at full width for as many iterations as scikit-learn's mean.
"""

import argparse
import json
import statistics
import time

import faiss
import numpy as np
import torch
from sklearn.cluster import KMeans

from methods.blocks.kmeans import kmeans


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="*", default=["8000x512x10", "10000x512x20", "10000x512x100"])
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--n-init", type=int, default=50)
    given = parser.parse_args()
    report = {}
    for size in given.sizes:
        rows, width, clusters = map(int, size.split("x"))
        x = features(rows, width, clusters)
        runs = {
            "ours": lambda seed, x=x, k=clusters: ours(x, k, given.n_init, seed),
            "sklearn": lambda seed, x=x, k=clusters: by_sklearn(x, k, given.n_init, seed),
            "faiss": lambda seed, x=x, k=clusters: by_faiss(x, k, given.n_init, seed),
        }
        seconds: dict[str, list[float]] = {name: [] for name in runs}
        inertia: dict[str, list[float]] = {name: [] for name in runs}
        for seed in range(given.repeats):
            for name, run in runs.items():
                begun = time.perf_counter()
                inertia[name].append(exact_inertia(x, run(seed)))
                seconds[name].append(time.perf_counter() - begun)
        floor = gemm_floor(x, clusters, given.n_init)
        median = {name: statistics.median(values) for name, values in seconds.items()}
        mean = {name: statistics.fmean(values) for name, values in inertia.items()}
        report[size] = {
            "vs_sklearn": round(median["sklearn"] / median["ours"], 2),
            "vs_faiss": round(median["faiss"] / median["ours"], 2),
            "inertia_excess": round(mean["ours"] / mean["sklearn"] - 1, 6),
            "faiss_inertia_excess": round(mean["faiss"] / mean["sklearn"] - 1, 6),
            "of_gemm_floor": round(median["ours"] / floor, 2),
            "seconds": {name: round(value, 2) for name, value in median.items()},
        }
        print(size, report[size], flush=True)
    print(json.dumps(report))


def features(rows: int, width: int, clusters: int) -> np.ndarray:
    """Unit-norm features as an encoder gives them: overlapping clusters on 32 latent directions behind a ReLU."""
    generator = np.random.default_rng(0)
    latent = generator.normal(size=(clusters, 32))[generator.integers(0, clusters, rows)]
    latent += 2.0 * generator.normal(size=latent.shape)
    x = np.maximum(latent @ generator.normal(size=(32, width)) / np.sqrt(32), 0)
    x += 0.1 * np.abs(generator.normal(size=x.shape))
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


def exact_inertia(x: np.ndarray, centres: np.ndarray) -> float:
    """Sum of squared distances to the nearest centre, in float64."""
    x, centres = x.astype(np.float64), centres.astype(np.float64)
    scores = (centres**2).sum(1) - 2 * x @ centres.T
    return float((x**2).sum() + scores.min(1).sum())


def gemm_floor(x: np.ndarray, clusters: int, n_init: int) -> float:
    """Seconds for the matrix products of plain Lloyd, with scikit-learn's mean number of iterations of five starts."""
    starts = [KMeans(clusters, init="random", n_init=1, random_state=seed).fit(x) for seed in range(5)]
    rows, centres = torch.from_numpy(x), torch.from_numpy(np.tile(starts[0].cluster_centers_, (n_init, 1)))
    seconds = []
    for _ in range(3):
        begun = time.perf_counter()
        for part in rows.split(1000):
            centres @ part.T
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds) * statistics.fmean(start.n_iter_ for start in starts)


def ours(x: np.ndarray, clusters: int, n_init: int, seed: int) -> np.ndarray:
    return kmeans(torch.from_numpy(x), clusters, n_init=n_init, seed=seed).centres.numpy()


def by_sklearn(x: np.ndarray, clusters: int, n_init: int, seed: int) -> np.ndarray:
    return KMeans(clusters, init="random", n_init=n_init, random_state=seed).fit(x).cluster_centers_


def by_faiss(x: np.ndarray, clusters: int, n_init: int, seed: int) -> np.ndarray:
    model = faiss.Kmeans(x.shape[1], clusters, niter=25, nredo=n_init, seed=seed, max_points_per_centroid=10**9)
    model.train(x)
    return model.centroids


if __name__ == "__main__":
    main()
