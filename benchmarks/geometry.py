"""Geometry metrics, streamed, beside the bare cost of the two distance matrices and scikit-learn's trustworthiness.

python -m benchmarks.geometry [--rows 10000] [--large 70000]

784-d inputs against a 10-d projection. The last line is one JSON object: `vs_distance_matrices` (our time over that of
both distance matrices block by block), `vs_sklearn_trustworthiness` (its time, one k, over ours, five k and everything
else), `peak_gib_70000` (highest resident memory of the whole process at the large size) and its seconds.
"""

import argparse
import json
import resource
import statistics
import time

import numpy as np
import torch
from sklearn.manifold import trustworthiness

from evaluation import geometry as module
from evaluation.geometry import geometry


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--large", type=int, default=0, help="also one run at this size")
    parser.add_argument("--images", help="images.npy of a prepared data set to take rows from; default: made data")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    report = {"rows": given.rows, "threads": torch.get_num_threads()}
    if given.large:
        x, z = data(given.large, given.images)
        begun = time.perf_counter()
        found = geometry(x, z)
        report[f"seconds_{given.large}"] = round(time.perf_counter() - begun, 1)
        report[f"peak_gib_{given.large}"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)
        report["Trust"] = round(found["Trust"], 4)
        print(report, flush=True)
    x, z = data(given.rows, given.images)
    runs = {"ours": lambda: geometry(x, z), "matrices": lambda: matrices(x, z)}
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(given.repeats):
        for name, run in runs.items():
            begun = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - begun)
    begun = time.perf_counter()
    trustworthiness(x, z, n_neighbors=5)
    reference = time.perf_counter() - begun
    median = {name: statistics.median(values) for name, values in seconds.items()}
    report["vs_distance_matrices"] = round(median["ours"] / median["matrices"], 2)
    report["vs_sklearn_trustworthiness"] = round(reference / median["ours"], 2)
    report["seconds"] = {**{name: round(value, 2) for name, value in median.items()}, "sklearn": round(reference, 2)}
    print(json.dumps(report))


def data(rows: int, images: str | None) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    if images:
        x = np.load(images, mmap_mode="r")[:rows].reshape(rows, -1).astype(np.float32) / 255
    else:
        x = generator.random((rows, 784), dtype=np.float32)
    return x, x @ generator.normal(size=(x.shape[1], 10)).astype(np.float32) / 28


def matrices(x: np.ndarray, z: np.ndarray) -> None:
    """Both distance matrices, block by block, and nothing else."""
    spaces = [module._Space(points, "points") for points in (x, z)]
    step = max(1, module.BLOCK_NUMBERS // len(x))
    for start in range(0, len(x), step):
        rows = torch.arange(start, min(start + step, len(x)))
        for space in spaces:
            space.distances(rows).sqrt_()


if __name__ == "__main__":
    main()
