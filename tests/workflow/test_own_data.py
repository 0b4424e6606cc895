"""A user's own data: replaced under the same name they are other data. In folders whose names have to be quoted."""

import csv
import json
import os
import re
import shutil

import numpy as np
import pytest
import torch
import yaml

from tests.conftest import SMOKE, Project, copy_project

DATASET = {
    "title": "own", "family": "grey16", "source": "vectors", "files": {"train": "x y's.npz", "test": "test.npz"},
    "classes": 3, "shape": [16, 16, 1], "normalisation": {"mean": [0.5], "std": [0.25]},
    "splits": {"train": 60, "test": 30},
}  # fmt: skip
TABLE = {
    "title": "Own", "metrics": ["ACC"],
    "rows": [{"label": "pixels", "recipe": "pixels", "assigner": "kmeans_raw"},
             {"label": "linear", "recipe": "pixels", "probe": "logistic"}],
}  # fmt: skip


class Own(Project):
    """A project with a data set of files under `data`, and a table of it."""

    @property
    def data(self):
        return self.root.parent / "my $DATA & more"

    @property
    def table(self):
        return self.root.parent / "thesis final's" / "$results" / "own.csv"

    def write(self, seed=0, signal=1.0):
        """Images of three classes that differ, or noise; equally many bytes either way."""
        generator = np.random.default_rng(seed)
        self.data.mkdir(exist_ok=True)
        for name, rows in ((DATASET["files"]["train"], 60), (DATASET["files"]["test"], 30)):
            labels = np.arange(rows) % 3
            x = generator.random((rows, 256)) * 0.2
            x[np.arange(256) // 80 == labels[:, None]] += 0.6 * signal
            np.savez(self.data / name, x=x.astype(np.float32), y=labels)

    def make(self, *words):
        config = [f"results={self.table.parent}", "datasets=[own]", "tables=[own]", "seeds=[0]"]
        config += [f"data_root={self.data}", "track=false"]
        done = self.snakemake(str(self.table), *words, "--config", *config)
        return done.returncode, done.stdout + done.stderr

    def cells(self):
        with open(self.table, newline="") as file:
            return {row["method"]: (row["own ACC"], row["notes"]) for row in csv.DictReader(file)}


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    project = copy_project(tmp_path_factory.mktemp("it's a $HOME dir") / "the project")
    (project.root / "config/datasets/own.yaml").write_text(yaml.safe_dump(DATASET))
    (project.root / "config/tables/own.yaml").write_text(yaml.safe_dump(TABLE))
    suite = yaml.safe_load((project.root / SMOKE).read_text())
    overrides = {"pixels": {"network": {"weights": "w.pt"}}}  # of no network, so that any file will do
    (project.root / SMOKE).write_text(yaml.safe_dump(suite | {"overrides": overrides}))
    torch.save({}, project.root / "w.pt")
    own = Own(project.root)
    own.write()
    code, said = own.make()
    assert code == 0, said
    return own


def test_folders_with_blanks_quotes_and_dollars(own):
    assert own.cells()["pixels"][0] == "100.00"
    folder = own.root.parent
    assert {path.name for path in folder.iterdir()} == {"the project", "my $DATA & more", "thesis final's"}
    assert {path.name for path in (folder / "thesis final's").iterdir()} == {"$results"}


def test_replaced_data_are_prepared_trained_and_scored_again(own):
    code, said = own.make()
    assert (code, "Nothing to be done" in said) == (0, True)
    own.write(seed=0, signal=0.0)
    code, said = own.make("--dry-run")
    jobs = re.findall(r"rule (\w+):", said)
    assert (code, sorted(jobs)) == (
        0,
        ["assign", "embed", "evaluate", "prepare", "tabulate_own", "train", "write_plan"],
    )


def test_replaced_weights_are_trained_from_again(own):
    """The data are as they were: what is not made of the weights stays."""
    own.write()
    weights = own.root / "w.pt"
    before, times = weights.read_bytes(), weights.stat()
    torch.save({"another": torch.ones(1)}, weights)
    code, said = own.make("--dry-run")
    jobs = set(re.findall(r"rule (\w+):", said))
    assert (code, jobs) == (0, {"train", "embed", "assign", "evaluate", "write_plan", "tabulate_own"}), said
    weights.write_bytes(before)
    os.utime(weights, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert "Nothing to be done" in own.make("--dry-run")[1]
    own.write(signal=0.0)


def test_replaced_data_are_named_and_mended_where_snakemake_has_lost_its_notes(own):
    """The table stage itself knows which data its numbers are of, and prints what mends it."""
    card = own.table.parent / "data" / "own" / "card.json"
    before = json.loads(card.read_text())["record"]
    shutil.rmtree(own.root / ".snakemake" / "metadata")
    code, said = own.make()
    assert code == 0, said
    assert "own/full/pixels/seed0: stale, stage prepare ran with other settings, seed or inputs" in said
    assert own.cells()["pixels"][0] == ""
    command = re.search(r"make what is stale or missing anew:\n(.*--forcerun .*)", said)[1]
    done = own.run("bash", "-c", command)
    assert done.returncode == 0, done.stdout + done.stderr
    assert float(own.cells()["pixels"][0]) < 80
    assert own.cells()["pixels"][1] == ""
    assert json.loads(card.read_text())["record"]["content"] != before["content"]


def test_files_that_are_gone_make_nothing_stale(own):
    aside = own.data.with_name("aside")
    own.data.rename(aside)
    try:
        code, said = own.make()
    finally:
        aside.rename(own.data)
    assert (code, "Nothing to be done" in said) == (0, True), said


def test_a_dry_run_writes_nothing_and_no_run_reads_anothers_plan(own):
    def files():
        folder = own.table.parent
        return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}

    before = files()
    code, said = own.make("--dry-run", "--forceall")
    assert code == 0, said
    done = own.snakemake(str(own.table), "--dry-run", "--config", f"results={own.table.parent}", "datasets=[own]",
                         "tables=[own]", "seeds=[0,1]", f"data_root={own.data}")  # fmt: skip
    assert done.returncode == 0
    assert "seed1" in done.stdout + done.stderr
    assert files() == before
