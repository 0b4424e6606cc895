"""docs/extending.md, done to the letter: a method, an assigner, a probe and a metric of one's own, in a table."""

import csv
import json
import textwrap

import pytest
import yaml

from pipeline.catalogue import entry_or_json
from tests.conftest import copy_project
from tests.written import blocks, files, section, write

TEXT = section("extending", "Your own method, assigner, probe and metric")
RUN = "results/small/runs/digits_200/full/align_uniform/seed0"
SMALL = """
results: results/small
datasets: [digits_200]
seeds: [0]
device: cpu
track: false
overrides: {align_uniform: {batch_size: 64, schedule: {epochs: 1}}}
"""


@pytest.fixture(scope="module")
def extended(tmp_path_factory):
    """A copy of the project with the files of the page, and its table of few images and steps."""
    copied = copy_project(tmp_path_factory.mktemp("extended") / "project")
    write(copied.root, TEXT)
    (copied.root / "small.yaml").write_text(SMALL)
    copied.done = copied.run("python", "-m", "tests.workflow.by_hand", "own/suites/mine.yaml", "small.yaml")
    return copied


def test_every_block_names_its_file():
    assert len(files(TEXT)) == len(blocks(TEXT, "python", "yaml")) == 11


def test_the_table_has_a_number_from_each(extended):
    assert extended.done.returncode == 0, extended.done.stdout + extended.done.stderr
    command = blocks(TEXT, "bash")[-1].split()
    assert command[-2:] == ["--configfile", "own/suites/mine.yaml"]
    assert command[-3] == extended.done.stdout.splitlines()[0] == "results/mine/mine.csv"
    with open(extended.root / "results/small/mine.csv", newline="") as file:
        rows = {row["method"]: row for row in csv.DictReader(file)}
    assert list(rows) == ["K-means", "Bisecting K-means", "Nearest class mean"]
    shown = {name: [bool(row[f"digits (200) {metric}"]) for metric in ("ACC", "FMI")] for name, row in rows.items()}
    assert shown == {name: [True, True] for name in rows} | {"Nearest class mean": [True, False]}
    assert {row["notes"] for row in rows.values()} == {""}


def test_the_method_trained_and_the_others_say_what_they_did(extended):
    with open(extended.root / RUN / "history.csv", newline="") as file:
        (epoch,) = csv.DictReader(file)
    assert float(epoch["alignment"]) > 0 > float(epoch["uniformity"])
    record = json.loads((extended.root / RUN / "train.json").read_text())["records"]["train"]
    assert record["settings"]["recipe"]["settings"] == {"embedding": 128, "alpha": 2, "t": 2}
    found = {
        name: json.loads((extended.root / RUN / f"metrics/{name}.json").read_text())["result"]
        for name in ("clustering/bisecting", "nearest_mean")
    }
    assert found["clustering/bisecting"]["occupied_clusters"] == 10
    assert 0 < found["clustering/bisecting"]["FMI"] < 1
    assert found["nearest_mean"]["trained_on"] == 160
    assert found["nearest_mean"]["ACC"] > 0.3


def test_the_projects_tests_run_over_them(extended):
    """The test that the page shows, and those of the contracts, which find the files by themselves."""
    wings = [f"tests/evaluation/{wing}/test_wing.py" for wing in ("assigners", "probes", "metrics")]
    names = "align_uniform or bisecting or nearest_mean or fowlkes_mallows"
    done = extended.run(
        "python", "-m", "pytest", "-q", "-n", "0", "tests/methods/test_align_uniform.py",
        "tests/methods/test_contract.py", *wings, "-k", names,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    passed = int(done.stdout.split(" passed")[0].split()[-1])
    assert passed >= 17, done.stdout


def test_the_figure_of_the_page_is_one():
    text = section("extending", "A figure")
    block = "\n".join(line for line in text.splitlines() if line.startswith("    "))
    figure = yaml.safe_load(textwrap.dedent(block))
    assert entry_or_json("figure", json.dumps({"name": "mine", **figure})) == ("mine", figure)
    assert {"title", "kind", "projection", "recipes", "datasets", "seeds"} == set(figure)
