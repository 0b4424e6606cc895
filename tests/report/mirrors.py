"""Results folders of two runs, as the stages leave them, to be mirrored into MLflow."""

import json

from pipeline.provenance import fingerprint
from pipeline.record import hashes

PREPARED = {"settings": {"name": "digits"}, "fingerprint": "p", "code": "c"}
TRAINED = {
    "settings": {"recipe": {"name": "r", "mAP@1": 3}, "protocol": {}}, "seed": 0, "status": "ok", "device": "cpu",
    "code": "c", "git": None, "ended": "2026-01-01T00:00:00+00:00", "fingerprint": "t", "training_seconds": 1.5,
}  # fmt: skip
SHOWN = {"knn": ["ACC", "mAP@1"]}


def results(folder, seeds=(0, 1), total="0.5", **result):
    """A results folder with one run per seed, and the plan of its suite; its path is that of every other's copy."""
    for seed in seeds:
        run = folder / f"runs/digits/full/r/seed{seed}"
        (run / "metrics").mkdir(parents=True)
        (run / "history.csv").write_text(f"epoch,total\n1,0.25\n2,{total}\n")
        records = {"prepare": PREPARED, "train": TRAINED | {"seed": seed, "files": hashes(run / "history.csv")}}
        write(run / "train.json", {"records": records})
        found = {"status": "ok", "ACC": 0.5, **result}
        own = {"probe/knn": {"fingerprint": "k", "code": "c", "settings": {"protocol": {"probe": {"train": []}}}}}
        own["probe/knn"]["result"] = fingerprint(result=found)
        write(run / "metrics/knn.json", {"result": found, "records": records | own})
        write(run / "metrics.json", {"evaluations": {"knn": "f"}})
    (folder / "table2.csv").write_text("a\n")
    return plan_of(folder, seeds)


def rewrite(path, text):
    """Another history, with its hash in the record."""
    path.write_text(text)
    stored = json.loads((path.parent / "train.json").read_text())
    stored["records"]["train"]["files"] = hashes(path)
    write(path.parent / "train.json", stored)


def plan_of(folder, seeds=(0, 1)):
    runs = [
        {"folder": f"{folder}/runs/digits/full/r/seed{seed}", "dataset": "digits", "protocol": "full", "recipe": "r",
         "seed": seed, "shown": SHOWN}
        for seed in seeds
    ]  # fmt: skip
    made = {"tables": [f"{folder}/table2"], "figures": f"{folder}/figures"}
    return {"suite": "default", "results": str(folder), "runs": runs, **made}


def write(path, value):
    path.write_text(json.dumps(value))
