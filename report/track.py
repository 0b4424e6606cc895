"""Stage `track`: mirror a suite's results into MLflow.

python -m report.track --plan results/.plan/suite.json --out results/mlflow.json

The store is MLFLOW_TRACKING_URI, or SQLite in the results folder. Files are the truth: an unreachable store costs one
warning (an error with --strict), never a table.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.options import Parser
from pipeline.record import StageError, run_stage, write_json
from pipeline.tables import read_plan


def main() -> None:
    parser = Parser(description=__doc__)
    parser.add_argument("--plan", required=True, help="suite.json, written by the pipeline")
    parser.add_argument("--out", required=True, help="index to write: store, experiment, counts")
    parser.add_argument("--strict", action="store_true", help="a store that cannot be reached is an error")
    parser.add_argument("--new", action="store_true", help="do nothing when no table or figure is newer than the index")
    arguments = parser.parse_args()
    plan = read_plan(arguments.plan)
    if arguments.new and not _newer(plan, Path(arguments.out)):
        return
    from report.store import masked, store_uri, without_secrets
    from report.tracking import sync

    uri = store_uri(plan["results"])
    try:
        index = {"status": "ok", **sync(plan)}
    except Exception as problem:  # whatever the store or its client throws, tables must not suffer
        reason = " ".join(without_secrets(str(problem), uri).split())[:300]
        kind = "" if isinstance(problem, StageError) else f"{type(problem).__name__}: "
        message = (
            f"results were not mirrored into MLflow at {masked(uri)} ({kind}{reason}); mend the store "
            "or MLFLOW_TRACKING_URI and run `python -m report.track` again"
        )
        if arguments.strict:
            raise StageError(message) from None
        print(f"warning: {message}", file=sys.stderr)
        index = {"status": "failed", "uri": masked(uri), "reason": reason}
    else:
        print(f"MLflow: {index['added']} added, {index['replaced']} replaced, {index['kept']} kept, at {index['uri']}")
        for line in index["unreadable"]:
            print(f"warning: a run is not mirrored: {line}", file=sys.stderr)
        if index["unreadable"] and arguments.strict:
            raise StageError(f"{len(index['unreadable'])} runs are not mirrored (named above), and strict is set")
    write_json(arguments.out, index)


def _newer(plan: Mapping[str, Any], index: Path) -> bool:
    """Whether any table or figure exists that the index does not cover yet."""
    made = [*(Path(f"{table}.csv") for table in plan["tables"]), *Path(plan["figures"]).rglob("*.png")]
    times = [path.stat().st_mtime for path in made if path.is_file()]
    return bool(times) and (not index.is_file() or index.stat().st_mtime < max(times))


if __name__ == "__main__":
    run_stage(main)
