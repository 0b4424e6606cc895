"""New images or vectors -> clusters and features, by a finished run.

./run python -m pipeline.predict results/runs/digits/full/mixem/seed0 my_images --out predictions.csv --classes
./run python -m pipeline.predict digits/full/simclr/seed0 new.npz --features features.npz

The run is a folder, or its data set, protocol, recipe and seed, which is looked for below results/. The new rows are a
folder of images, one image, or a file: .npz with x, .npy or .csv. They go the way of the run's own data: prepared as
its data set was, embedded by its model, assigned by what its assigner learnt. Nothing is fitted again, no label read.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.naming import ConfigError, suggestion
from pipeline.options import Parser
from pipeline.processes import ends_on_sigterm, of_this_process
from pipeline.provenance import ROOT, code_version
from pipeline.record import EVALUABLE, StageError, read_records, run_stage, whole

DEFAULT = "predictions.csv"
# stage of a run -> what its record says it was made from
MADE_FROM = {"train": ("data", "prepare"), "embed": ("model", "train"), "assign": ("features", "embed")}


def main(words: list[str] | None = None) -> None:
    """`words`: the command line without the program; by default sys.argv."""
    parser = Parser(prog="predict", description=__doc__)
    parser.add_argument("run", help="folder of a run, or DATASET/PROTOCOL/RECIPE/seedN")
    parser.add_argument("new", help="folder of images, an image, or a file .npz, .npy or .csv")
    parser.add_argument("--assigner", help="which assigner of the run; default: its only one, or argmax")
    parser.add_argument(
        "--out", help=f"file of path or row, cluster and confidence; default: {DEFAULT}, none with --features alone"
    )
    parser.add_argument("--features", help="file .npz to write the features into, in the same order; default: none")
    parser.add_argument("--classes", action="store_true", help="add the class that each cluster was matched to")
    device = os.environ.get("BENCH_DEVICE", "auto")
    parser.add_argument("--device", default=device, help="auto, cpu or cuda; default: %(default)s")
    arguments = parser.parse_args(words)
    if not arguments.out and not (arguments.features and not (arguments.assigner or arguments.classes)):
        arguments.out = DEFAULT
    outputs = [Path(path) for path in (arguments.out, arguments.features) if path]
    new = Path(arguments.new)
    check_places(new, outputs)
    run = find_run(arguments.run)
    records = read_run(run)
    name = choose_assigner(run, arguments.assigner) if arguments.out else None
    if name:
        check_assigner(run, name, records, arguments.classes)
    with ends_on_sigterm(), tempfile.TemporaryDirectory(prefix="predict-") as folder:
        predict(run, new.absolute(), name, arguments, Path(folder))


def predict(run: Path, new: Path, name: str | None, arguments: argparse.Namespace, folder: Path) -> None:
    """Run the stages on `new` in a temporary folder, then put what was asked for where it was asked for."""
    data, rows, features = data_of(run), folder / "rows", folder / "features.npz"
    print(f"{run}: preparing and embedding {new}", flush=True)
    stage("preparation.new_rows", "--like", data, "--new", new, "--out", rows)
    words = ["--data", data, "--model", run / "model.pt", "--new", rows, "--out", folder]
    stage("training.embed", *words, "--devices", 1, "--device", arguments.device, quiet=True)
    names = rows / "names.npy"
    if name:
        words = ["--features", features, "--fitted", run / "clusters" / f"{name}.npz", "--out", folder / DEFAULT]
        words += ["--names", names] if names.is_file() else []
        words += ["--classes", data] if arguments.classes else []
        stage("evaluation.new_rows", *words)
    if arguments.features:
        if names.is_file():
            with zipfile.ZipFile(features, "a") as stored:
                stored.write(names, "path.npy")
        deliver(features, arguments.features)
    if name:
        deliver(folder / DEFAULT, arguments.out)


def stage(module: str, *words: Any, quiet: bool = False) -> None:
    """Run a stage as a process of its own, and pass on what it says. Raises StageError with its error."""
    command = [sys.executable, "-m", module, *map(str, words)]
    done = subprocess.run(command, env=os.environ | of_this_process(), capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"ended with status {done.returncode}"]
        if not said[-1].startswith("error: "):
            print(done.stderr, file=sys.stderr)
        raise StageError(said[-1].removeprefix("error: "))
    if not quiet:
        print(done.stdout, end="")


def deliver(made: Path, wanted: str) -> None:
    """Copy a file to where the user wants it: it appears whole or not at all."""
    with whole(wanted) as file, made.open("rb") as content:
        shutil.copyfileobj(content, file)
    print(f"written: {wanted}")


# ---- what is refused before anything is computed


def check_places(new: Path, outputs: list[Path]) -> None:
    """Outputs that are folders, the new data themselves or one another, and those that cannot be written."""
    for path in outputs:
        above = next(folder for folder in path.absolute().parents if folder.exists())
        if not above.is_dir() or not os.access(above, os.W_OK):
            raise StageError(
                f"{path}: cannot be written, {above} is no folder that you may write to; name another file"
            )
        if path.is_dir():
            raise StageError(f"{path}: is a folder; name the file to write")
        if path.absolute() == new.absolute():
            raise StageError(f"{path}: are the new data themselves; write to another file")
    if len(outputs) == 2 and outputs[0].absolute() == outputs[1].absolute():
        raise StageError(f"{outputs[0]}: both --out and --features; give two names")


def find_run(wanted: str) -> Path:
    """The folder of a run, as it is or below results/. Raises ConfigError, naming the nearest, where there is none."""
    places = [Path(wanted), *(folder / wanted for folder in _run_folders())]
    found = list(dict.fromkeys(path.resolve() for path in places if (path / "train.json").is_file()))
    if len(found) == 1:
        return found[0]
    if found:
        raise ConfigError(f"{wanted}: {len(found)} runs of that name ({', '.join(map(str, found))}); give the folder")
    known = {
        str(path.parent.relative_to(folder)) for folder in _run_folders() for path in folder.glob("*/*/*/*/train.json")
    }
    short = wanted.rstrip("/").rpartition("runs/")[2]
    raise ConfigError(f"{wanted}: no finished run; {suggestion(short, known)}")


def _run_folders() -> list[Path]:
    """The folders `runs` of the results here, those of other suites below them."""
    bases = dict.fromkeys([Path("results").resolve(), ROOT / "results"])
    return [folder for base in bases for folder in (base / "runs", *sorted(base.glob("*/runs"))) if folder.is_dir()]


def data_of(run: Path) -> Path:
    """The prepared data that a run was trained on: in its results folder."""
    name = read_records(run / "train.json", "prepare")["prepare"]["settings"]["name"]
    above = run.parents
    data = (above[4] if len(above) > 4 else run) / "data" / name
    if not (data / "card.json").is_file():
        raise StageError(
            f"{data}: not found; a run is used with the prepared data of its results folder: copy that folder whole, "
            "or run the suite again"
        )
    return data


def read_run(run: Path) -> dict[str, Any]:
    """The records of a run's model. Raises StageError for one that diverged, or was made by other code than is here."""
    records = read_records(run / "train.json", "prepare", "train")
    train = records["train"]
    if train["status"] not in EVALUABLE:
        where = train.get("diverged") or {}
        at = f" in epoch {where['epoch']}, term {where['term']}" if where else ""
        raise StageError(f"{run}: its training {train['status']}{at}, so its model is worth nothing; take another seed")
    method = train["settings"]["recipe"]["method"]
    _check_current(run, "prepare", records["prepare"], "preparation.prepare")
    _check_current(run, "train", train, "training.train", f"methods.{method}")
    _check_chain(run / "train.json", records, "train")
    data_of(run)
    return records


def choose_assigner(run: Path, wanted: str | None) -> str:
    """The assigner asked for, the run's only one, or argmax. Raises ConfigError, naming those there are."""
    there = sorted(path.stem for path in run.glob("clusters/*.json"))
    if not there:
        raise ConfigError(
            f"{run}: no assigner was asked of this run; ask for features alone (--features FILE without --out), or add "
            "a row with an assigner to a table of its suite"
        )
    if wanted and wanted not in there:
        raise ConfigError(f"{run}: no assigner {wanted!r} was asked of this run; there are: {', '.join(there)}")
    if wanted:
        return wanted
    if len(there) > 1 and "argmax" not in there:
        raise ConfigError(f"{run}: several assigners ({', '.join(there)}); choose one with --assigner")
    return there[0] if len(there) == 1 else "argmax"


def check_assigner(run: Path, name: str, trained: Mapping[str, Any], classes: bool) -> None:
    """Clusters that are no result, were made by other code, from another model, or by what cannot assign new rows; or
    that match no classes where these are asked for.
    """
    path, stage = run / "clusters" / f"{name}.json", f"assign/{name}"
    records = read_records(path, "prepare", "train", "embed", stage)
    made = records[stage]
    if made["status"] != "ok":
        reason = f": {made['reason']}" if made.get("reason") else ""
        raise StageError(f"{path}: {made['status'].replace('_', ' ')}{reason}; choose another assigner or run")
    if records["train"]["fingerprint"] != trained["train"]["fingerprint"]:
        raise StageError(f"{path}: made with another model than is here now: run the suite of {run} again")
    method, algorithm = trained["train"]["settings"]["recipe"]["method"], made["settings"]["assigner"]["algorithm"]
    _check_current(run, "embed", records["embed"], "training.embed", f"methods.{method}")
    _check_current(run, stage, made, "evaluation.assign", f"evaluation.assigners.{algorithm}")
    _check_chain(path, records, "train", "embed", stage)
    if reason := made.get("refuses_new_rows"):
        raise StageError(
            f"{run}: assigner {name!r}: new rows cannot be assigned: {reason}; choose another assigner, or ask for "
            "features alone (--features FILE without --out)"
        )
    if classes and "unlabeled" in made["settings"]["protocol"]["score"]:
        raise StageError(f"{run}: its scored rows have no labels, so clusters match no classes: leave out --classes")


def _check_current(run: Path, stage: str, record: Mapping[str, Any], *roots: str) -> None:
    """Raise StageError for a stage that other code ran than is here: this code need not read its files as that did."""
    try:
        code = code_version(*roots)
    except ValueError:  # a file that is gone
        code = "missing"
    if record["code"] != code:
        commit = (record.get("git") or {}).get("commit")
        back = f", or use the code that made it (commit {commit[:12]})" if commit else ""
        raise StageError(
            f"{run}: stale, stage {stage} ran with code {record['code']}, here is {code}: run its suite again{back}"
        )


def _check_chain(path: Path, records: Mapping[str, Any], *stages: str) -> None:
    """Raise StageError for a record that says it was made from something else than the record before it."""
    for stage in stages:
        use, before = MADE_FROM[stage.partition("/")[0]]
        made, held = records[stage]["inputs"].get(use), records[before]["fingerprint"]
        if made != held:
            raise StageError(
                f"{path}: stale, stage {stage} was made from {use} {made}, not {held}: run its suite again"
            )


def interrupted() -> None:
    """`main`, ended by Ctrl-C without a traceback."""
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    run_stage(interrupted)
