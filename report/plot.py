"""Stage `plot`: files of finished runs -> one figure.

python -m report.plot --figure digits_embeddings --data results/data/digits --out results/figures/some.png \\
    --runs "SimCLR=results/runs/digits/full/simclr/seed0"
"""

import argparse
import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pipeline.catalogue import entry_or_json
from pipeline.record import StageError, read_records, run_stage, verified, whole
from pipeline.wings import own_settings
from preparation.prepared import check_made_from, open_prepared
from report.contents import read_checked
from report.figure import Shown, load


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--figure", required=True, help="name in config/figures, or its JSON")
    parser.add_argument("--data", required=True, help="prepared folder")
    parser.add_argument("--runs", required=True, nargs="+", help="label=folder of every run")
    parser.add_argument("--out", required=True, help="the .png to write")
    arguments = parser.parse_args()
    _, entry = entry_or_json("figure", arguments.figure)
    runs = shown(arguments.runs, entry["recipes"])
    data = open_prepared(arguments.data)
    for run in runs.values():
        records = read_checked(run.folder / "train.json", "training")["records"]
        check_made_from(data, records, run.folder)
        for file in ("history.csv", "snapshots.npz"):
            verified(run.folder / file, records["train"])
        verified(run.folder / "features.npz", read_records(run.folder / "features.json", "embed")["embed"])
    kind = load(entry["kind"])
    drawn = kind.FIGURE(runs, data, kind.Settings(**own_settings("figure", entry)))
    figure, numbers = drawn if isinstance(drawn, tuple) else (drawn, [])
    if numbers:
        write_numbers(Path(arguments.out).with_suffix(".csv"), numbers)
    figure.suptitle(f"{entry['title']} ({data.card['name']})")
    with whole(arguments.out) as file:
        figure.savefig(file, format="png", dpi=150)
    print(f"{arguments.out}: {', '.join(runs)}")


def shown(words: Iterable[str], recipes: Mapping[str, Any]) -> dict[str, Shown]:
    """label -> run from words `label=folder`, with the features that the figure's `recipes` ask of it."""
    runs = {}
    for word in words:
        label, _, folder = word.rpartition("=")  # the last "=" divides: a label may be "t = 0.1"
        if not label or not Path(folder).is_dir():
            raise StageError(f"--runs {label}={folder}: no such folder; give label=folder of a finished run")
        recipe = recipes.get(label)
        asked = recipe if isinstance(recipe, Mapping) else {}
        runs[label] = Shown(Path(folder), asked.get("features"), asked.get("assigner"))
    return runs


def write_numbers(path: Path, numbers: Iterable[Mapping[str, Any]]) -> None:
    """The numbers of a figure as CSV; a row may lack columns that others have."""
    columns = list(dict.fromkeys(name for row in numbers for name in row))
    with whole(path, "w") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(numbers)


if __name__ == "__main__":
    run_stage(main)
