"""Everything worth knowing on a CUDA machine, in one call of a few minutes: GPU tests, CPU/GPU agreement, throughput.

python -m benchmarks.gpu_check [--out gpu_check.json]

Runs the tests marked `gpu` (they compare CPU and GPU), then benchmarks.augment, .step and .stage on the device, each in
a process of its own with a time limit. Writes one JSON file and prints it as its last line; a part that fails or runs
out of time is recorded as such, and the exit status says so.
"""

import argparse
import json
import subprocess
import sys
import time

import torch

from pipeline.record import surroundings, write_json

PARTS = {
    "tests": ([sys.executable, "-m", "pytest", "-q", "-m", "gpu", "tests/methods"], 120),
    "augment": (
        [sys.executable, "-m", "benchmarks.augment", "--device", "cuda", "--images", "4096", "--repeats", "3"],
        90,
    ),
    "step": ([sys.executable, "-m", "benchmarks.step", "--device", "cuda", "--repeats", "20"], 60),
    "stage": ([sys.executable, "-m", "benchmarks.stage", "--device", "cuda", "--steps", "40"], 60),
    "stage_resnet18": (
        [
            *(sys.executable, "-m", "benchmarks.stage", "--device", "cuda", "--network", "resnet18_32"),
            *("--no-lightly", "--steps", "40"),
        ],
        30,
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="gpu_check.json")
    given = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("error: no CUDA device here; this check is for machines that have one")
    report = {"device": torch.cuda.get_device_name(), "cuda": torch.version.cuda, **surroundings()}
    for name, (command, limit) in PARTS.items():
        begun = time.perf_counter()
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
            lines = done.stdout.strip().splitlines() or [""]
            result = {"status": "ok" if done.returncode == 0 else "failed", "said": lines[-1]}
            if lines[-1].startswith("{"):
                result = {"status": result["status"], **json.loads(lines[-1])}
            if done.returncode:
                result["errors"] = (done.stdout + done.stderr)[-1500:]
        except subprocess.TimeoutExpired:
            result = {"status": f"out of time ({limit} s)"}
        report[name] = {**result, "seconds": round(time.perf_counter() - begun, 1)}
        write_json(given.out, report)  # what there is so far survives an abort
    print(json.dumps(report))
    sys.exit(any(report[name]["status"] != "ok" for name in PARTS))


if __name__ == "__main__":
    main()
