"""What the files of one finished run say, as a tracking store mirrors it."""

import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.catalogue import check
from pipeline.provenance import fingerprint
from pipeline.record import StageError, read_json, verified
from report.history import read_history


@dataclass(frozen=True)
class Contents:
    """Records of all stages, result of every evaluation that the index names, one row of history per epoch."""

    folder: Path
    records: dict[str, Any]
    results: dict[str, dict[str, Any]]
    history: list[dict[str, float]]
    ended: datetime.datetime

    @property
    def state(self) -> str:
        """A hash of all of it, wherever the folder lies."""
        return fingerprint(records=repr(self.records), results=repr(self.results), history=repr(self.history))


def read_contents(folder: Path) -> Contents:
    """Raises StageError that names the file, where one of a run's files is missing, damaged or of another kind."""
    records, index = dict(read_checked(folder / "train.json", "training")["records"]), folder / "metrics.json"
    trained = records["train"]
    results: dict[str, Any] = {}
    for key in read_checked(index, "evaluations")["evaluations"] if index.is_file() else ():
        stored = read_result_file(folder, key)
        records |= stored["records"]
        results[key] = stored["result"]
        if "seen" in stored["result"]:
            results[f"{key}/seen"] = stored["result"]["seen"]
    try:
        ended = datetime.datetime.fromisoformat(records["train"]["ended"])
    except ValueError as problem:
        raise StageError(f"{folder / 'train.json'}: ended: {problem}; delete it and run stage train again") from None
    history = read_history(verified(folder / "history.csv", trained))
    return Contents(folder, records, results, history, ended)


def read_result_file(folder: str | Path, key: str) -> Any:
    """metrics/{key}.json of a run, if its result is the one that its own record speaks of; else StageError."""
    path = Path(folder, "metrics", f"{key}.json")
    stored = read_checked(path, "result")
    kind, name = ("score", key.removeprefix("clustering/")) if key.startswith("clustering/") else ("probe", key)
    record = stored["records"].get(f"{kind}/{name}", {})
    if record.get("result") != fingerprint(result=stored["result"]):
        raise StageError(f"{path}: its result is not the one that was recorded; delete it and run its stage again")
    return stored


def read_checked(path: Path, schema: str) -> Any:
    """The JSON file of a run, if it is what config/schemas/{schema}.yaml says; else StageError that names it."""
    stored = read_json(path)
    try:
        check(stored, schema, str(path))
    except StageError as problem:
        raise StageError(f"{problem}; delete it and run its stage again") from None
    return stored
