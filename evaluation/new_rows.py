"""Features of new rows -> clusters, as the assigner of a finished run gives them, with its confidence.

python -m evaluation.new_rows --features some/folder/features.npz --fitted results/runs/.../clusters/kmeans.npz \\
    --out predictions.csv

The assigner is not fitted again: it is restored from what it learnt in the run (clusters/kmeans.fit.npz).
"""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.assign import RARELY, state_path
from evaluation.assigner import Assigner, AssignError, build
from evaluation.confusion import matched_confusion
from pipeline.options import Parser
from pipeline.record import StageError, read_records, run_stage, whole
from preparation.arrays import read_arrays
from preparation.prepared import check_made_from, open_prepared

TELLING = 4  # times as many rows of low confidence as among the run's own scored rows are worth a word


def main() -> None:
    parser = Parser(description=__doc__)
    parser.add_argument("--features", required=True, help="features.npz of the new rows (training.embed --new)")
    parser.add_argument("--fitted", required=True, help="clusters/{assigner}.npz of the run")
    parser.add_argument("--names", help="names.npy of the new rows; without, they are numbered from 0")
    parser.add_argument("--classes", help="prepared folder of the run's data set, whose classes the clusters stand for")
    parser.add_argument("--out", required=True, help="file .csv to write")
    arguments = parser.parse_args()
    clusters = Path(arguments.fitted)
    assigner, records = restored(clusters)
    embedded = read_records(Path(arguments.features).with_suffix(".json"), "train", "embed")
    if embedded["train"]["fingerprint"] != records["train"]["fingerprint"]:
        raise StageError(
            f"{arguments.features}: features of model {embedded['train']['fingerprint']}, {clusters} was made with "
            f"{records['train']['fingerprint']}: embed the new rows with the model of this run"
        )
    features = read_arrays(arguments.features, embedded["embed"])
    columns: dict[str, Sequence[Any]] = {"row": range(len(next(iter(features.values()))))}
    if arguments.names:
        columns = {"path": np.load(arguments.names, allow_pickle=False).tolist()}
    found, sure = assigner.predict(features), assigner.confidence(features)
    columns |= {"cluster": found.tolist(), "confidence": [f"{value:.6f}" for value in sure]}
    if arguments.classes:
        classes = matched_names(clusters, records, arguments.classes)
        columns["class"] = [classes.get(cluster, "") for cluster in columns["cluster"]]
    with whole(arguments.out, "w") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(columns)
        table.writerows(zip(*columns.values(), strict=True))
    usual = records[f"assign/{clusters.stem}"]["confidence"]  # of the run's own scored rows
    print(f"{len(found)} rows in {len(np.unique(found))} clusters by {clusters.stem}")
    print(f"confidence: {assigner.confidence_is}")
    print(f"median {np.median(sure):.3f}, of the run's own scored rows {usual['median']:.3f}")
    if (share := float((sure < usual["low"]).mean())) > TELLING * RARELY:
        print(
            f"note: {share:.0%} of the new rows have a confidence below {usual['low']:.3f}, as {RARELY:.0%} of the "
            "run's own scored rows have; are they of the same kind?"
        )


def restored(clusters: Path) -> tuple[Assigner, dict[str, Any]]:
    """(the assigner that made the clusters at a path, with what it learnt, and the records of the stages up to it).

    Raises AssignError for one that cannot assign new rows, Damaged for a state that is not what was stored.
    """
    stage = f"assign/{clusters.stem}"
    records = read_records(clusters.with_suffix(".json"), "prepare", "train", "embed", stage)
    made = records[stage]
    if made["status"] != "ok":
        raise StageError(f"{clusters}: {made['status'].replace('_', ' ')}, so nothing was learnt; take another run")
    entry = {key: value for key, value in made["settings"]["assigner"].items() if key != "name"}
    assigner = build(entry, records["prepare"]["settings"]["classes"])
    if assigner.refuses_new_rows:
        raise AssignError(
            f"{clusters}: new rows cannot be assigned: {assigner.refuses_new_rows}; take another assigner"
        )
    assigner.restore(read_arrays(state_path(clusters), made))
    return assigner, records


def matched_names(clusters: Path, records: Mapping[str, Any], data: str) -> dict[int, str]:
    """Cluster -> name of the class that the run's own scored rows match it to; without one where they match it to none.

    Raises StageError for data without labels.
    """
    prepared = open_prepared(data)
    check_made_from(prepared, records, clusters)
    stored = read_arrays(clusters, records[f"assign/{clusters.stem}"], "rows", "clusters")
    labels = prepared.labels[stored["rows"]]
    if labels.ndim > 1 or (labels < 0).any():
        what = "several labels an image" if labels.ndim > 1 else "no labels"
        raise StageError(
            f"{prepared.card['name']}: its scored rows have {what}, so clusters match no classes: leave out --classes"
        )
    names = prepared.card.get("class_names") or range(prepared.card["classes"])
    pairs = matched_confusion(labels, stored["clusters"]).pairs
    return {cluster: str(names[number]) for cluster, number in pairs.items()}


if __name__ == "__main__":
    run_stage(main)
