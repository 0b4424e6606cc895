"""Stage `evaluate`: features and clusters of one run -> metrics.json. All evaluations of a run share one process.

python -m evaluation.evaluate --data results/data/digits --features some/folder/features.npz \\
    --clusters some/folder/clusters/kmeans.npz --evaluations knn linear --protocol full --seed 0 --out metrics.json
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.assigners import Features, NonFinite, fit_kmeans, predict_kmeans, prepare
from evaluation.clustering import clustering_metrics
from pipeline.catalogue import entry_or_json
from pipeline.record import Record, StageError, read_json, run_stage, write_json
from preparation.prepared import Prepared, open_prepared


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="prepared folder")
    parser.add_argument("--features", required=True, help="features.npz; features.json lies beside it")
    parser.add_argument("--clusters", nargs="*", default=[], help="clusters/{assigner}.npz files to score")
    parser.add_argument("--evaluations", nargs="*", default=[], help="names in config/evaluations.yaml, or their JSON")
    parser.add_argument("--protocol", required=True, help="name in config/protocols.yaml, or its JSON")
    parser.add_argument("--seed", required=True, type=int)
    parser.add_argument("--out", required=True, help="metrics.json")
    given = parser.parse_args()
    records = read_json(Path(given.features).with_suffix(".json"))["records"]
    data = open_prepared(given.data, verify=False)
    if given.clusters and data.labels.ndim > 1:
        raise StageError(f"{given.data}: its images have several labels: clusters cannot be scored, only SVMs can")
    protocol_name, protocol = entry_or_json("protocol", given.protocol)
    evaluations = dict(entry_or_json("evaluation", text) for text in given.evaluations)
    inputs = {"features": records["embed"]["fingerprint"]}
    for path in map(Path, given.clusters):
        own = read_json(path.with_suffix(".json"))["records"]
        stage = f"assign/{path.stem}"
        if own["embed"]["fingerprint"] != inputs["features"]:
            raise StageError(
                f"{path} was made from features {own['embed']['fingerprint']}, {given.features} is "
                f"{inputs['features']}: assign again"
            )
        records[stage] = own[stage]
        inputs[stage] = own[stage]["fingerprint"]
    splits = {"name": protocol_name, "score": protocol["score"], "probe": protocol["probe"]}
    record = Record(
        "evaluate", ("evaluation.evaluate",), {"evaluations": evaluations, "protocol": splits}, inputs, given.seed
    )
    status = records["train"]["status"]
    results: dict[str, dict[str, Any]] = {}
    for path in map(Path, given.clusters):
        assign_status = records[f"assign/{path.stem}"]["status"]
        if assign_status != "ok":
            results[f"clustering/{path.stem}"] = {"status": assign_status}
            continue
        with np.load(path) as stored:
            found = clustering_metrics(data.labels[stored["rows"]], stored["clusters"])
            if len(stored["seen_rows"]):  # rows the model was fitted on, under a name of their own
                seen = clustering_metrics(data.labels[stored["seen_rows"]], stored["seen"])
                results[f"clustering/{path.stem}@seen"] = {"status": "ok", **seen}
        results[f"clustering/{path.stem}"] = {"status": "ok", **found}
    if evaluations:
        results |= _of_features(given.features, data, protocol, evaluations, given.seed, status)
    write_json(given.out, {"results": results, "records": {**records, "evaluate": record.finish(status)}})
    for name, found in results.items():
        print(f"{name}: " + ", ".join(f"{key} {found[key]}" for key in ("status", "ACC", "NMI", "ARI") if key in found))


def _of_features(
    features_path: str, data: Prepared, protocol: dict[str, Any], evaluations: dict[str, Any], seed: int, status: str
) -> dict[str, dict[str, Any]]:
    if status != "ok":
        return {name: {"status": status} for name in evaluations}
    with np.load(features_path) as stored:
        features = {key: stored[key] for key in stored.files}
    train, test = (data.rows(protocol["probe"][part]) for part in ("train", "test"))
    score = data.rows(protocol["score"])
    results = {}
    for name, settings in evaluations.items():
        try:
            if settings["algorithm"] in OF_SCORED_ROWS:
                found = OF_SCORED_ROWS[settings["algorithm"]](features, data, score, settings, seed)
            else:
                from evaluation.probes import probe  # torch: only where it is needed

                found = probe(features, data.labels, train, test, settings, seed)
            results[name] = {"status": "ok", **found, **settings}
        except NonFinite as problem:
            results[name] = {"status": "non_finite", "reason": str(problem)}
    return results


def _geometry(
    features: Features, data: Prepared, rows: np.ndarray, settings: Mapping[str, Any], seed: int
) -> dict[str, Any]:
    from evaluation.geometry import GeometryError, centre_rank_agreement, geometry

    x, z = data.vectors(rows), prepare(features, settings)[rows]
    found = geometry(x, z)
    if "centres" not in settings:
        return found
    classes = data.card["classes"]
    if settings["centres"] == "argmax":
        clusters = prepare(features, {"features": "p"})[rows].argmax(1)
    else:
        clusters = predict_kmeans(fit_kmeans(z, classes, seed, {"n_init": 20, "init": "k-means++"}), z)
    try:
        return found | {"CRA": centre_rank_agreement(x, z, clusters, classes)}
    except GeometryError as problem:
        return found | {"CRA_reason": str(problem)}  # an empty cluster has no centre: no number then


def _spread(
    features: Features, data: Prepared, rows: np.ndarray, settings: Mapping[str, Any], seed: int
) -> dict[str, Any]:
    from evaluation.similarity import rankme, uniformity

    z = prepare(features, settings)[rows]
    return {"uniformity": uniformity(z), "effective_rank": rankme(z)}


def _similarity(
    features: Features, data: Prepared, rows: np.ndarray, settings: Mapping[str, Any], seed: int
) -> dict[str, Any]:
    from evaluation.similarity import alignment, pair_similarity

    views = tuple(prepare(features, {**settings, "features": f"view{v}_{settings['features']}"}) for v in (1, 2))
    found = pair_similarity(prepare(features, settings)[rows], data.labels[rows], views)
    return found | {"alignment": alignment(*views), "pairs_of_views": len(views[0])}


def _downstream(
    features: Features, data: Prepared, rows: np.ndarray, settings: Mapping[str, Any], seed: int
) -> dict[str, Any]:
    from evaluation.downstream import downstream

    return downstream(prepare(features, settings)[rows], data.labels[rows], settings)


OF_SCORED_ROWS = {"geometry": _geometry, "spread": _spread, "similarity": _similarity, "downstream": _downstream}


if __name__ == "__main__":
    run_stage(main)
