"""What changes behind a run's back: Snakemake's notes, configuration in mid-run, data under their old times."""

import csv
import os
import re
import shutil
from pathlib import Path

import numpy as np
import yaml

from tests.campaign.case import Case, Outcome, Setting, require
from tests.campaign.site import QUIET, RESULTS, RUNS, TABLE, Site, line
from tests.conftest import SMOKE

MIXEM = "config/recipes/mixem.yaml"
SWAPPED = ("mixem", "cdc")  # nothing starts from these
OLD, NEW = "comp_ent: 2.0 ", "comp_ent: 4.0 "
DATASET = {
    "title": "own", "family": "grey16", "source": "vectors", "files": {"train": "train.npz", "test": "test.npz"},
    "classes": 3, "shape": [16, 16, 1], "normalisation": {"mean": [0.5], "std": [0.25]},
    "splits": {"train": 60, "test": 30},
}  # fmt: skip
PIXELS = {"title": "Own", "metrics": ["ACC"],
          "rows": [{"label": "pixels", "recipe": "pixels", "assigner": "kmeans_raw"}]}  # fmt: skip


def lost_notes(setting: Setting) -> Outcome:
    """All that Snakemake knows is gone: nothing is computed again, nothing is different."""
    expected, site = Site(setting.finished).table(), Site.copy(setting.finished, setting.folder)
    shutil.rmtree(site.root / ".snakemake")
    model = site.results / RUNS / "simclr_base/seed0/model.pt"
    before = model.stat().st_mtime_ns
    site.without_table()
    said = site.made(*QUIET)
    site.require_table(expected)
    require(model.stat().st_mtime_ns == before, "a finished run was trained again")
    outcome = Outcome("the table was made of what there is, nothing was trained again")
    outcome.tell(line(said, r"\d+ of \d+ steps \(100%\)"))
    return outcome


def damaged_notes(setting: Setting) -> Outcome:
    """Snakemake's notes of its jobs are cut off, have flipped bits, and are of other jobs."""
    expected, site = Site(setting.finished).table(), Site.copy(setting.finished, setting.folder)
    notes = sorted(path for path in (site.root / ".snakemake/metadata").rglob("*") if path.is_file())
    for number, path in enumerate(notes):
        content = bytearray(path.read_bytes())
        if number % 3 == 0:
            content = content[: setting.chance.randrange(len(content))]
        elif number % 3 == 1:
            content[setting.chance.randrange(len(content))] ^= 1 << setting.chance.randrange(8)
        else:
            content = bytearray(notes[number - 1].read_bytes())
        path.write_bytes(content)
    status, said = site.make(*QUIET)
    outcome = Outcome(f"{len(notes)} notes damaged: exit status {status}, the same table")
    require(status == 0, f"exit status {status}: {said[-1500:]}")
    site.require_table(expected)
    outcome.tell(line(said, r"\d+ of \d+ steps \(100%\)|Nothing to be done"))
    return outcome


def swapped_runs(setting: Setting) -> Outcome:
    """Two runs change places, records, times and all: no number of one appears as the other's."""
    expected, site = Site(setting.finished).table(), Site.copy(setting.finished, setting.folder)
    one, other = (site.results / RUNS / name for name in SWAPPED)
    one.rename(site.root / "aside")
    other.rename(one)
    (site.root / "aside").rename(other)
    site.without_table()
    said = site.made(*QUIET)
    rows, unbroken = (_rows(root / TABLE) for root in (site.root, setting.finished))
    require(len(rows) == 3, f"{len(rows)} rows of the two runs")
    for label, row in rows.items():
        for column in ("digits (200) ACC", "digits (200) NMI", "digits (200) ARI"):
            said_wrong = f"{label}: {column} is {row[column]}, that of another run"
            require(row[column] in ("", unbroken[label][column]), said_wrong)
    require(any(row["digits (200) ACC"] == "" for row in rows.values()), "no row is empty")
    outcome = Outcome("no cell has another run's value; the command that was printed made the same table")
    outcome.tell(line(said, f"warning: .*/({'|'.join(SWAPPED)})/seed0: stale"))
    command = re.search(r"make what is stale or missing anew:\n(.*--forcerun .*)", said)
    require(command is not None, "no command that mends it was printed")
    outcome.tell(command[1])
    done = site.run("bash", "-c", command[1])
    require(done.returncode == 0, f"that command: exit status {done.returncode}: {done.stderr[-1000:]}")
    site.require_table(expected)
    return outcome


def _rows(table: Path) -> dict[str, dict[str, str]]:
    """Label -> row of the swapped runs in a table."""
    with open(table, encoding="utf-8", newline="") as file:
        return {row["method"]: row for row in csv.DictReader(file) if row["recipe"] in SWAPPED}


def edited_while_running(setting: Setting) -> Outcome:
    """A recipe is edited while its run trains: that table is of the recipe as it was, the next one of the new."""
    site = Site.copy(setting.finished, setting.folder)
    before, recipe = site.table(), site.root / MIXEM
    site.without("mixem")
    running = site.start(*QUIET)
    running.until(r"rule train|rule embed")
    text = recipe.read_text(encoding="utf-8")
    require(text.count(OLD) == 1, f"{OLD!r} does not stand once in {MIXEM}")
    recipe.write_text(text.replace(OLD, NEW), encoding="utf-8")
    said = running.wait()
    require(running.process.returncode == 0, f"exit status {running.process.returncode}: {said[-1500:]}")
    site.require_table(before)
    said = site.made(*QUIET)
    after = site.table()
    require(after != before, "the edited recipe changed nothing, so the case shows nothing")
    site.without("mixem")
    site.made(*QUIET)
    site.require_table(after)
    outcome = Outcome("first the table of the recipe as it was, then without a word more that of the new one")
    outcome.tell(line(said, "reason: .*(Params|params) have changed"))
    return outcome


def moved_back(setting: Setting) -> Outcome:
    """Data of the same size under the old name, with the old times: they are other data all the same."""
    site = Site.copy(setting.finished, setting.folder, results=False)
    data, table = setting.folder / "data", f"{RESULTS}/own/own.csv"
    data.mkdir()
    (site.root / "config/datasets/own.yaml").write_text(yaml.safe_dump(DATASET), encoding="utf-8")
    (site.root / "config/tables/own.yaml").write_text(yaml.safe_dump(PIXELS), encoding="utf-8")
    suite = yaml.safe_load((site.root / SMOKE).read_text(encoding="utf-8")) | {"overrides": {}}
    (site.root / SMOKE).write_text(yaml.safe_dump(suite), encoding="utf-8")
    words = ("--config", "datasets=[own]", "tables=[own]", f"data_root={data}", "track=false")
    generator = np.random.default_rng(0)

    def write(signal: float) -> None:
        for name, rows in (("train", 60), ("test", 30)):
            labels, x = np.arange(rows) % 3, generator.random((rows, 256)) * 0.2
            x[np.arange(256) // 86 == labels[:, None]] += 0.6 * signal
            np.savez(data / f"{name}.npz", x=x.astype(np.float32), y=labels)

    write(1.0)
    site.made(*words, target=table)
    first = (site.root / table).read_text(encoding="utf-8")
    times = {path: path.stat() for path in data.iterdir()}
    write(0.0)
    for path, stat in times.items():
        require(path.stat().st_size == stat.st_size, f"{path} has another size, so the case shows nothing")
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    said = site.made(*words, target=table)
    second = (site.root / table).read_text(encoding="utf-8")
    require(",100.00," in first, f"classes that differ were not found: {first}")
    require(",100.00," not in second, "noise under the old times has the accuracy of the data before")
    outcome = Outcome("noise in files of the old size and times: prepared and scored again")
    outcome.tell(line(said, "reason: .*(Params|params) have changed"))
    return outcome


CASES = [
    Case("notes-lost", "rm -r .snakemake, and the table is missing", lost_notes),
    Case("notes-damaged", ".snakemake/metadata: cut off, flipped bits, of other jobs", damaged_notes),
    Case("runs-swapped", "the folders of two runs change places, and the table is missing", swapped_runs),
    Case("edited-in-mid-run", f"{MIXEM} is edited while it trains", edited_while_running),
    Case("times-moved-back", "own data replaced, then os.utime with the times before", moved_back),
]
