"""Stage `plot`: files of finished runs -> one figure, as .png and .pdf.

python -m report.plot --figure digits_embeddings --data results/data/digits --out results/figures/some.png \\
    --runs "SimCLR=results/runs/digits/full/simclr/seed0"
python -m report.plot --figure ranking --table results/.plan/table2-0123456789abcdef.json --out results/figures/some.png
"""

import argparse
import csv
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from pipeline import figures
from pipeline.catalogue import entry_or_json
from pipeline.record import StageError, read_records, run_stage, verified, whole
from pipeline.tables import read_plan
from pipeline.wings import own_settings
from preparation.prepared import Prepared, check_made_from, open_prepared
from report.contents import read_checked
from report.figure import Shown, by_data, load
from report.style import PDF, PNG, check_text, plain, set_title


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--figure", required=True, help="name of a figure (config/figures, or {kind}-{recipe}-{assigner}), or its JSON"
    )
    parser.add_argument("--data", nargs="+", default=[], help="prepared folder of every data set that is shown")
    parser.add_argument("--runs", nargs="+", default=[], help="label=folder of every run; seeds of a label repeat it")
    parser.add_argument("--table", help="plan file of the table, for a figure that compares rows of a table")
    parser.add_argument("--out", required=True, help="the .png to write; a .pdf appears beside it")
    arguments = parser.parse_args()
    text = arguments.figure
    name, entry = entry_or_json("figure", text) if text.startswith("{") else (text, figures.entry(text))
    check_text(entry["title"], f"figure {name!r}: title")
    kind = load(entry["kind"])
    settings = kind.Settings(**own_settings("figure", entry))
    if "table" in entry:
        if not arguments.table:
            raise StageError(f"figure {name!r} compares rows of table {entry['table']!r}; give its plan with --table")
        drawn, title = kind.FIGURE(read_plan(arguments.table), settings), entry["title"]
        said = entry["table"]
    else:
        runs = shown(name, arguments.runs, entry["recipes"], arguments.data)
        runs, left = showable(name, runs, getattr(kind, "LACKS", None))
        drawn = kind.FIGURE(runs, next(iter(runs.values())).data, settings)
        title, said = f"{entry['title']} ({', '.join(by_data(runs))}{left})", ", ".join(runs)
    figure, numbers = drawn if isinstance(drawn, tuple) else (drawn, [])
    if numbers:
        write_numbers(Path(arguments.out).with_suffix(".csv"), numbers)
    set_title(figure, title)
    save(figure, Path(arguments.out))
    print(f"{arguments.out}: {said}")


def save(figure: Figure, out: Path) -> None:
    """Write `out`, a .png, and the .pdf beside it; the same figure gives the same bytes."""
    for path, how in ((out, {"format": "png", **PNG}), (out.with_suffix(".pdf"), {"format": "pdf", **PDF})):
        with whole(path) as file:
            figure.savefig(file, **how)


def showable(
    figure: str, runs: Mapping[str, Shown], lacks: Callable[[Shown], str | None] | None
) -> tuple[dict[str, Shown], str]:
    """The runs that have what a kind shows, and words for its title of those that do not: a failed seed costs itself.

    Raises StageError where nothing is left.
    """
    missing = {name: why for name, run in runs.items() if lacks is not None and (why := lacks(run))}
    said = "; ".join(f"{plain(name)}: {why}" for name, why in missing.items())
    if len(missing) == len(runs):
        raise StageError(f"figure {figure!r}: nothing to show; {said}")
    left = f"; left out: {said}" if said else ""
    return {name: run for name, run in runs.items() if name not in missing}, left


def shown(
    figure: str, words: Iterable[str], recipes: Mapping[str, Any], folders: Iterable[str | Path]
) -> dict[str, Shown]:
    """name -> run from words `label=folder`, each checked against its records, with the features that the figure's
    `recipes` ask of it. A name is the label, with the data set and the seed where labels show several.
    """
    data = {found.card["name"]: found for found in map(open_prepared, folders)}
    words = list(words)
    if not data or not words:
        raise StageError(f"figure {figure!r} shows runs; give them with --runs and their data with --data")
    runs = {str(number): _run(figure, word, recipes, data) for number, word in enumerate(words)}
    sets, seeds = by_data(runs), {run.seed for run in runs.values()}
    found: dict[str, Shown] = {}
    for title, group in sets.items():
        for run in group.values():
            more = [title] * (len(sets) > 1) + [f"seed {run.seed}"] * (len(seeds) > 1)
            name = ", ".join([run.label, *more])
            if name in found:
                raise StageError(f"--runs: {name} stands twice, of {found[name].folder} and {run.folder}; name it once")
            found[name] = run
    return found


def _run(figure: str, word: str, recipes: Mapping[str, Any], data: Mapping[str, Prepared]) -> Shown:
    """The run that a word `label=folder` names, if its files are what its records say and it is of one of the data."""
    label, _, folder = word.rpartition("=")  # the last "=" divides: a label may be "t = 0.1"
    if not label or not Path(folder).is_dir():
        raise StageError(f"--runs {label}={folder}: no such folder; give label=folder of a finished run")
    check_text(label, f"figure {figure!r}: label")
    path = Path(folder)
    records = read_checked(path / "train.json", "training")["records"]
    dataset = records["prepare"]["settings"]["name"]
    own = data.get(dataset) or next(iter(data.values()))
    check_made_from(own, records, path)  # which refuses a run on data that were not given, too
    for file in ("history.csv", "snapshots.npz"):
        verified(path / file, records["train"])
    verified(path / "features.npz", read_records(path / "features.json", "embed")["embed"])
    recipe = recipes.get(label)
    asked = recipe if isinstance(recipe, Mapping) else {}
    trained = records["train"]
    return Shown(path, asked.get("features"), own, label, trained["seed"], asked.get("assigner"), trained["status"])


def write_numbers(path: Path, numbers: Iterable[Mapping[str, Any]]) -> None:
    """The numbers of a figure as CSV; a row may lack columns that others have."""
    columns = list(dict.fromkeys(name for row in numbers for name in row))
    with whole(path, "w") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(numbers)


if __name__ == "__main__":
    run_stage(main)
