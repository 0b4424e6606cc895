"""Run folders as the stages leave them, and plans of tables over them."""

import csv
import io
import json

from pipeline.provenance import fingerprint as hashed
from report.layouts import to_csv

ACC = {"title": "ACC", "scale": 100, "digits": 1, "better": "higher"}


def run(folder, seed, acc, fingerprint="f", train=None, protocol="full", **result):
    """A run folder as the stages leave it, and its entry in a plan."""
    records = {
        "train": {"fingerprint": fingerprint, "code": "c", "status": "ok", "training_seconds": 7.5, **(train or {})},
        "assign/kmeans": {"fingerprint": "a", "code": "c", "settings": {"protocol": {"fit": ["test"]}}},
        "score/kmeans": {"fingerprint": "s", "code": "c"},
    }
    result = {"status": "ok", "ACC": acc, "occupied_clusters": 3, "degenerate": acc < 0.2, **result}
    store(folder, "clustering/kmeans", result, records)
    store(folder, "", {}, {"train": records["train"]}, folder / "train.json")
    score = "metrics/clustering/kmeans.json"
    sources = [
        ("model.pt", "train.json", "train", "f", "train.log"),
        ("metrics.json", score, "score/kmeans", "s", "evaluate.log"),
    ]
    keys = ("output", "record", "stage", "fingerprint", "log")
    for output in ("model.pt", "metrics.json"):
        (folder / output).touch()
    return {
        "folder": str(folder),
        "dataset": "d",
        "protocol": protocol,
        "recipe": "r",
        "seed": seed,
        "expected": {"train": ["f", "c"], "assign/kmeans": ["a", "c"], "score/kmeans": ["s", "c"]},
        "sources": [
            dict(zip(keys, (f"{folder}/{output}", f"{folder}/{record}", stage, of, f"{folder}/{log}"), strict=True))
            for output, record, stage, of, log in sources
        ],
    }


def store(folder, key, result, records, path=None):
    path = path or folder / "metrics" / f"{key}.json"
    own = f"score/{key.removeprefix('clustering/')}" if key.startswith("clustering/") else f"probe/{key}"
    if own in records:
        records = records | {own: records[own] | {"result": hashed(result=result)}}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"result": result, "records": records}))


def probed(folder, seed, acc, **result):
    """The same with the record of a probe."""
    entry = run(folder, seed, 0.3)
    records = {
        "train": {"fingerprint": "f", "code": "c", "status": "ok", "training_seconds": 7.5},
        "probe/probe": {"fingerprint": "p", "code": "c", "settings": {"protocol": {"probe": {"train": ["train"]}}}},
    }
    store(folder, "probe", {"status": "ok", "ACC": acc, **result}, records)
    return entry | {"expected": {"train": ["f", "c"], "probe/probe": ["p", "c"]}}


def plan(rows, **more):
    return {
        "name": "t", "title": "A table", "note": "", "reported": [], "suite": "s", "metrics": {"ACC": ACC},
        "datasets": {"d": "Data"}, "protocols": {"full": "train+test / test", "split": "train / test"}, "rows": rows,
        **more,
    }  # fmt: skip


def row(label, runs, **more):
    return {"label": label, "recipe": "r", "assigner": "kmeans", "runs": runs, **more}


def read(table):
    return list(csv.DictReader(io.StringIO(to_csv(table))))


def reported(method, mean, **more):
    return {
        "method": method, "setting": "", "dataset": "CIFAR10", "metric": "ACC", "mean": mean, "std": "0.2",
        "unit": "percent", "source": "s", "note": "", **more,
    }  # fmt: skip
