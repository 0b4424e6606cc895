"""Stage `assign`: features.npz -> clusters/{assigner}.npz (rows, clusters; seen_rows, seen) and its record.

python -m evaluation.assign --data results/data/digits --features some/folder/features.npz --assigner kmeans \\
    --protocol full --seed 0 --out some/folder/clusters/kmeans.npz
"""

import argparse
from pathlib import Path

import numpy as np

from evaluation.assigners import ALGORITHMS, NonFinite
from pipeline.catalogue import entry_or_json
from pipeline.record import Record, read_json, run_stage, whole, write_json
from preparation.prepared import open_prepared


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="prepared folder")
    parser.add_argument("--features", required=True, help="features.npz; features.json lies beside it")
    parser.add_argument("--assigner", required=True, help="name in config/assigners.yaml, or its JSON")
    parser.add_argument("--protocol", required=True, help="name in config/protocols.yaml, or its JSON")
    parser.add_argument("--seed", required=True, type=int)
    parser.add_argument("--out", required=True, help="clusters/{assigner}.npz")
    given = parser.parse_args()
    records = read_json(Path(given.features).with_suffix(".json"))["records"]
    data = open_prepared(given.data, verify=False)
    name, settings = entry_or_json("assigner", given.assigner)
    protocol_name, protocol = entry_or_json("protocol", given.protocol)
    splits = {"name": protocol_name, "fit": protocol["fit"], "score": protocol["score"]}
    if "seen" in protocol:
        splits["seen"] = protocol["seen"]
    record = Record(
        "assign",
        ("evaluation.assign",),
        {"assigner": {"name": name, **settings}, "protocol": splits},
        {"features": records["embed"]["fingerprint"]},
        given.seed,
    )
    fit_rows, score_rows = data.rows(protocol["fit"]), data.rows(protocol["score"])
    status, facts = records["train"]["status"], {}
    seen_rows = data.rows(protocol["seen"]) if "seen" in protocol else score_rows[:0]
    clusters, seen = (np.full(len(rows), -1, dtype=np.int64) for rows in (score_rows, seen_rows))
    if status == "ok":
        with np.load(given.features) as stored:
            # Arrays of augmented views have rows of their own; nothing is clustered there.
            features = {key: stored[key] for key in stored.files if not key.startswith("view")}
        assigner = ALGORITHMS[settings["algorithm"]](settings, data.card["classes"])
        try:
            assigner.fit({key: value[fit_rows] for key, value in features.items()}, given.seed)
            clusters = assigner.predict({key: value[score_rows] for key, value in features.items()})
            if len(seen_rows):
                seen = assigner.predict({key: value[seen_rows] for key, value in features.items()})
            facts = assigner.facts()
        except NonFinite as problem:
            status, facts = "non_finite", {"reason": str(problem)}
    out = Path(given.out)
    with whole(out) as file:
        np.savez(file, rows=score_rows, clusters=clusters, seen_rows=seen_rows, seen=seen)
    facts |= {"fitted_on": len(fit_rows), "scored_on": len(score_rows)}
    write_json(out.with_suffix(".json"), {"records": {**records, f"assign/{name}": record.finish(status, **facts)}})
    print(f"{name}: {status}, {len(np.unique(clusters))} clusters in {len(clusters)} rows")


if __name__ == "__main__":
    run_stage(main)
