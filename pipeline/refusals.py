"""What would fail as soon as jobs run, told before: no GPU, no data files, a results folder that cannot be written."""

import os
from collections.abc import Iterable
from pathlib import Path

from pipeline import catalogue, gpus
from pipeline.naming import ConfigError
from pipeline.plan import Plan
from pipeline.runs import Run


def refuse_early(plan: Plan, runs: Iterable[Run], here: bool) -> None:
    """Raise StageError for what the first jobs would fail of. `here`: whether they run on this machine."""
    if here:
        gpus.refuse_without(plan.config["device"])
    _refuse_unwritable(Path(plan.results))
    if not plan.config["download"]:
        for dataset in dict.fromkeys(run.dataset for run in runs):
            _refuse_without_files(plan, dataset)


def _refuse_unwritable(results: Path) -> None:
    existing = next(path for path in (results.absolute(), *results.absolute().parents) if path.exists())
    if not existing.is_dir():
        raise ConfigError(f"results={results}: {existing} is no folder; give another: results=FOLDER")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise ConfigError(f"results={results}: {existing} may not be written; change that, or give results=FOLDER")


def _refuse_without_files(plan: Plan, dataset: str) -> None:
    """A data set that is not prepared yet needs its files."""
    files = plan.sources.files
    lacking = files.lacking(catalogue.entry("data set", dataset))
    if lacking is None or Path(plan.results, "data", dataset, "card.json").is_file():
        return
    cure = f"put them there (docs/data.md), or leave {dataset} out with --data"
    if files.root is None:
        raise ConfigError(
            f"data set {dataset!r} needs files, and no data root is given; set BENCH_DATA_ROOT or data_root=FOLDER"
        )
    if not files.root.is_dir():
        raise ConfigError(f"data root {files.root}: no such folder; set BENCH_DATA_ROOT or data_root=FOLDER")
    raise ConfigError(f"data set {dataset!r}: no files in {lacking}; {cure}")


FETCHED = ("torchvision", "reuters")  # sources whose readers can download their files


def missing_files(plan: Plan) -> list[str]:
    """A line for each data set of the plan that is not prepared and whose files are not there: where they belong and
    what would fetch them.
    """
    found = []
    for dataset in dict.fromkeys(run.dataset for run in plan.runs.all()):
        spec = catalogue.entry("data set", dataset)
        empty = plan.sources.files.empty_places(spec)
        prepared = Path(plan.results, "data", dataset, "card.json")
        if not empty or prepared.is_file():
            continue
        fetched = spec["source"] in FETCHED
        if fetched and plan.config["download"]:
            cure = "its job `prepare` will download them"
        elif fetched:
            cure = "--config download=true fetches them"
        else:
            cure = "nothing fetches them, see docs/data.md"
        found.append(f"data set {dataset!r}: no files in {', '.join(map(str, empty))}; {cure}")
    return found
