"""Stage `assign`: features.npz -> clusters/{assigner}.npz (rows, clusters; seen_rows, seen), what the assigner learnt
(clusters/{assigner}.fit.npz, with which other rows can be assigned later: evaluation/new_rows.py), and its record.

python -m evaluation.assign --data results/data/digits --features some/folder/features.npz --assigner kmeans \\
    --protocol full --seed 0 --out some/folder/clusters/kmeans.npz
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.assigner import build
from evaluation.features import Features, NonFinite
from pipeline.catalogue import entry_or_json
from pipeline.options import Parser
from pipeline.record import EVALUABLE, Damaged, Record, StageError, hashes, read_records, run_stage, whole, write_json
from preparation.arrays import read_arrays
from preparation.prepared import check_made_from, open_prepared

RARELY = 0.05  # share of the scored rows whose confidence counts as low
PARTS = ("fit", "score", "seen")  # of a protocol: rows that are learnt from, that are scored, that are scored besides


def main() -> None:
    parser = Parser(description=__doc__)
    parser.add_argument("--data", required=True, help="prepared folder")
    parser.add_argument("--features", required=True, help="features.npz; features.json lies beside it")
    parser.add_argument("--assigner", required=True, help="name in config/assigners.yaml, or its JSON")
    parser.add_argument("--protocol", required=True, help="name in config/protocols.yaml, or its JSON")
    parser.add_argument("--seed", required=True, type=int, help="that of the run")
    parser.add_argument("--out", required=True, help="clusters/{assigner}.npz")
    arguments = parser.parse_args()
    records = read_records(Path(arguments.features).with_suffix(".json"), "train", "embed")
    data = open_prepared(arguments.data)
    check_made_from(data, records, arguments.features)
    name, entry = entry_or_json("assigner", arguments.assigner)
    protocol_name, protocol = entry_or_json("protocol", arguments.protocol)
    splits = {"name": protocol_name, "fit": protocol["fit"], "score": protocol["score"]}
    if "seen" in protocol:
        splits["seen"] = protocol["seen"]
    record = Record(
        "assign",
        ("evaluation.assign", f"evaluation.assigners.{entry['algorithm']}"),
        {"assigner": {"name": name, **entry}, "protocol": splits},
        {"features": records["embed"]["fingerprint"]},
        arguments.seed,
    )
    rows = {part: data.rows(splits[part]) if part in splits else np.empty(0, np.int64) for part in PARTS}
    clusters = {part: np.full(len(rows[part]), -1, dtype=np.int64) for part in ("score", "seen")}
    status, facts, state = records["train"]["status"], dict[str, Any](), dict[str, Any]()
    if status in EVALUABLE:
        status = "ok"
        try:
            stored = read_arrays(arguments.features, records["embed"])
            # Arrays of augmented views have rows of their own; nothing is clustered there.
            features = {key: values for key, values in stored.items() if not key.startswith("view")}
            facts, state = _assign(features, entry, data.card["classes"], rows, clusters, arguments.seed)
        except Damaged:
            raise
        except NonFinite as problem:
            status, facts = "non_finite", {"reason": str(problem)}
        except StageError as problem:
            status, facts = "not_possible", {"reason": str(problem)}
    out = Path(arguments.out)
    with whole(out) as file:
        np.savez(file, rows=rows["score"], clusters=clusters["score"], seen_rows=rows["seen"], seen=clusters["seen"])
    fitted = state_path(out)
    with whole(fitted) as file:
        np.savez(file, **state)
    facts |= {"files": hashes(out, fitted), "fitted_on": len(rows["fit"]), "scored_on": len(rows["score"])}
    write_json(out.with_suffix(".json"), {"records": {**records, f"assign/{name}": record.finish(status, **facts)}})
    print(f"{name}: {status}, {len(np.unique(clusters['score']))} clusters in {len(clusters['score'])} rows")


def state_path(clusters: Path) -> Path:
    """Where the state of the assigner lies that made the clusters at a path."""
    return clusters.with_suffix(".fit.npz")


def _assign(
    features: Features,
    entry: Mapping[str, Any],
    classes: int,
    rows: Mapping[str, np.ndarray],
    clusters: dict[str, np.ndarray],
    seed: int,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Fit on rows["fit"], put the ids of the other rows into `clusters`, return the facts of the fit and its state."""
    assigner = build(entry, classes)
    assigner.fit({key: value[rows["fit"]] for key, value in features.items()}, seed)
    ids = {
        part: assigner.predict({key: value[rows[part]] for key, value in features.items()})
        for part in clusters
        if len(rows[part])
    }
    clusters |= ids  # all or nothing: a refused part leaves no ids of the other
    facts = assigner.facts()
    if assigner.refuses_new_rows:
        return {**facts, "refuses_new_rows": assigner.refuses_new_rows}, {}
    sure = assigner.confidence({key: value[rows["score"]] for key, value in features.items()})
    low, median = np.quantile(sure, [RARELY, 0.5])
    return {**facts, "confidence": {"low": float(low), "median": float(median)}}, assigner.state()


if __name__ == "__main__":
    run_stage(main)
