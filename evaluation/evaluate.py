"""Stage `evaluate`: features and clusters of one run -> one record per assigner and per probe, and their index.

python -m evaluation.evaluate --data results/data/digits --features some/folder/features.npz \\
    --clusters some/folder/clusters/kmeans.npz --probes knn linear --protocol full --seed 0 \\
    --out some/folder/metrics.json

Writes some/folder/metrics/clustering/kmeans.json, metrics/knn.json, metrics/linear.json. Those that are valid already
are kept, those not asked for are left alone; what cannot be done costs its own record only.
"""

import json
import math
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.features import NonFinite
from evaluation.metric import clustering_metrics
from evaluation.probe import Task, load, settings_of
from pipeline.catalogue import entry_or_json
from pipeline.options import Parser
from pipeline.provenance import fingerprint
from pipeline.record import EVALUABLE, Damaged, Record, StageError, read_json, read_records, run_stage, write_json
from pipeline.wings import wing_modules
from preparation.arrays import read_arrays
from preparation.prepared import Prepared, check_made_from, open_prepared


@dataclass(frozen=True)
class Evaluation:
    """One record to be made: `key` is its path below metrics/, `stage` the name of its own record among `before`."""

    key: str
    stage: str
    record: Record
    before: Mapping[str, Any]  # records of the stages it stands on
    compute: Callable[[], dict[str, Any]]


def main() -> None:
    parser = Parser(description=__doc__)
    parser.add_argument("--data", required=True, help="prepared folder")
    parser.add_argument("--features", required=True, help="features.npz; features.json lies beside it")
    parser.add_argument("--clusters", nargs="*", default=[], help="clusters/{assigner}.npz files to score")
    parser.add_argument("--probes", nargs="*", default=[], help="names in config/probes.yaml, or their JSON")
    parser.add_argument("--protocol", required=True, help="name in config/protocols.yaml, or its JSON")
    parser.add_argument("--seed", required=True, type=int, help="that of the run")
    parser.add_argument("--out", required=True, help="the index, metrics.json; the records go into metrics/ beside it")
    arguments = parser.parse_args()
    records = read_records(Path(arguments.features).with_suffix(".json"), "train", "embed")
    data = open_prepared(arguments.data)
    check_made_from(data, records, arguments.features)
    protocol_name, protocol = entry_or_json("protocol", arguments.protocol)
    named = {"name": protocol_name, **protocol}
    if arguments.probes and "probe" not in protocol:
        raise StageError(f"protocol {protocol_name!r} has no splits for probes: leave them out, or choose another")
    probes = dict(entry_or_json("probe", text) for text in arguments.probes)
    clusters = {path: _records_of_clusters(path, records, arguments.features) for path in map(Path, arguments.clusters)}
    folder, index, failed = Path(arguments.out).with_suffix(""), {}, []
    asked = [
        *_scores(clusters, data, named),
        *_probes(probes, arguments.features, records, data, named, arguments.seed),
    ]
    for make in asked:
        evaluation = make()
        path = folder / f"{evaluation.key}.json"
        stored, kept = _stored(path, evaluation), " (kept)"
        if stored is None:
            result, kept = _result(evaluation), ""
            reason = {"reason": result["reason"]} if "reason" in result else {}
            record = evaluation.record.finish(result["status"], result=fingerprint(result=result), **reason)
            stored = {"result": result, "records": {**evaluation.before, evaluation.stage: record}}
            write_json(path, stored)
        result = stored["result"]
        index[evaluation.key] = evaluation.record.facts["fingerprint"]
        failed += [evaluation.key] if result["status"] == "failed" else []
        said = ("status", "ACC", "NMI", "ARI", "occupied_clusters")
        shown = ", ".join(f"{name} {result[name]}" for name in said if name in result)
        print(f"{evaluation.key}: {shown}{kept}")
    write_json(arguments.out, {"evaluations": index})
    if failed:
        raise StageError(f"{', '.join(failed)}: failed with an unexpected error (above); everything else is written")


def _records_of_clusters(path: Path, records: Mapping[str, Any], features: str) -> dict[str, Any]:
    """The run's records and the one of the clusters at `path`, if they were made of these features."""
    of_clusters = read_records(path.with_suffix(".json"), "embed", f"assign/{path.stem}")
    made, held = ([of[fact] for fact in ("fingerprint", "files")] for of in (of_clusters["embed"], records["embed"]))
    if made != held:
        raise StageError(f"{path} was made from features {made[0]}, {features} is {held[0]}: assign again")
    return {**records, f"assign/{path.stem}": of_clusters[f"assign/{path.stem}"]}


def _scores(
    clusters: Mapping[Path, Mapping[str, Any]], data: Prepared, protocol: Mapping[str, Any]
) -> Iterator[Callable[[], Evaluation]]:
    """The evaluations of clusters. Each is made when its turn comes: its record times it alone."""
    splits = {key: protocol[key] for key in ("name", "score", "seen") if key in protocol}
    roots = ("evaluation.evaluate", *wing_modules("metric"))
    for path, before in clusters.items():
        assigned = before[f"assign/{path.stem}"]

        def make(
            path: Path = path, before: Mapping[str, Any] = before, assigned: Mapping[str, Any] = assigned
        ) -> Evaluation:
            record = Record("score", roots, {"protocol": splits}, {"clusters": assigned["fingerprint"]})
            compute = lambda: _score(path, assigned, data)  # noqa: E731
            return Evaluation(f"clustering/{path.stem}", f"score/{path.stem}", record, before, compute)

        yield make


def _score(path: Path, assigned: Mapping[str, Any], data: Prepared) -> dict[str, Any]:
    """Metrics of the scored rows (without labels, the sizes of their clusters), and under `seen` of the rows the model
    was fitted on, where the protocol has them.
    """
    if assigned["status"] != "ok":
        return {key: assigned[key] for key in ("status", "reason") if key in assigned}
    stored = read_arrays(path, assigned)
    asked = data.card["classes"]
    metrics = clustering_metrics(data.labels[stored["rows"]], stored["clusters"], asked)
    if len(stored["seen_rows"]):
        metrics["seen"] = clustering_metrics(data.labels[stored["seen_rows"]], stored["seen"], asked)
    return metrics


def _probes(
    probes: Mapping[str, Mapping[str, Any]],
    features: str,
    records: Mapping[str, Any],
    data: Prepared,
    protocol: Mapping[str, Any],
    seed: int,
) -> Iterator[Callable[[], Evaluation]]:
    splits = {key: protocol[key] for key in ("name", "score", "probe") if key in protocol}
    arrays: dict[str, np.ndarray] = {}  # read once, when the first probe is computed

    def compute(entry: Mapping[str, Any]) -> dict[str, Any]:
        if records["train"]["status"] not in EVALUABLE:
            return {"status": records["train"]["status"]}
        if not arrays:
            arrays.update(read_arrays(features, records["embed"]))
        train, test = (data.rows(protocol["probe"][part]) for part in ("train", "test"))
        task = Task(arrays, data.labels, data, train, test, data.rows(protocol["score"]), settings_of(entry), seed)
        return {**load(entry["algorithm"]).PROBE(task), **entry}

    for name, entry in probes.items():

        def make(name: str = name, entry: Mapping[str, Any] = entry) -> Evaluation:
            roots = ("evaluation.evaluate", f"evaluation.probes.{entry['algorithm']}")
            inputs = {"features": records["embed"]["fingerprint"]}
            record = Record("probe", roots, {"probe": {"name": name, **entry}, "protocol": splits}, inputs, seed)
            return Evaluation(name, f"probe/{name}", record, records, lambda: compute(entry))

        yield make


def _stored(path: Path, evaluation: Evaluation) -> dict[str, Any] | None:
    """What stands at `path`, if this call would record the same: made by the same code, settings and seed from the very
    features and clusters that are here now. A failure is tried again.
    """
    try:
        stored = read_json(path)
        records, result = dict(stored["records"]), stored["result"]
        made, status = records.pop(evaluation.stage), result.get("status")
        written = made["fingerprint"], made["result"]
    except (StageError, KeyError, TypeError, ValueError, AttributeError):
        return None  # not there, or not a record: made anew
    same = written == (evaluation.record.facts["fingerprint"], fingerprint(result=result))
    return stored if same and records == dict(evaluation.before) and status not in (None, "failed") else None


def _result(evaluation: Evaluation) -> dict[str, Any]:
    """{"status": "ok", ...}, or what kept the evaluation from being done: that must not cost any other its result."""
    try:
        result = {"status": "ok", **_finite(evaluation.compute())}
        json.dumps(result, allow_nan=False)
    except Damaged:
        raise
    except NonFinite as problem:
        return {"status": "non_finite", "reason": str(problem)}
    except (StageError, ValueError) as problem:
        return {"status": "not_possible", "reason": " ".join(str(problem).split())}
    except Exception as problem:
        traceback.print_exc(file=sys.stderr)
        return {"status": "failed", "reason": " ".join(f"{type(problem).__name__}: {problem}".split())}
    return result


def _finite(result: Mapping[str, Any]) -> dict[str, Any]:
    """Without numbers that are not finite, which no table can show; `undefined` names them."""
    undefined = [key for key, value in result.items() if isinstance(value, float) and not math.isfinite(value)]
    kept = {key: value for key, value in result.items() if key not in undefined}
    return kept | ({"undefined": undefined} if undefined else {})


if __name__ == "__main__":
    run_stage(main)
