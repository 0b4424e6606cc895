"""New rows through a finished run: as the run's own stages treated its own rows, or one line that says why not."""

import csv
import importlib
import itertools
import re
import shutil
import sys
import unittest.mock
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pipeline import predict
from pipeline.record import StageError, read_json, write_json
from tests.conftest import ROOT
from tests.finished import DATASET, MIXEM, NAMES, PLAIN, finish, images


def inside(module, *words, quiet=False):
    """A stage in this process."""
    with unittest.mock.patch.object(sys, "argv", ["stage", *map(str, words)]):
        importlib.import_module(module).main()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    finish(folder)
    return folder


@pytest.fixture
def here(made, tmp_path, monkeypatch):
    """A copy of that folder to work in, with a file of new rows; stages run in this process."""
    shutil.copytree(made / "results", tmp_path / "results")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(predict, "stage", inside)
    monkeypatch.setenv("BENCH_DEVICE", "cpu")
    np.savez("new.npz", x=images(21, 9)[0])
    return tmp_path


def read(path="predictions.csv"):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def clusters(rows):
    return np.array([int(row["cluster"]) for row in rows])


def own_rows(made, split):
    return np.load(made / DATASET["files"][split])["x"]


@pytest.mark.parametrize(("run", "assigner"), [(MIXEM, "argmax"), (MIXEM, "kmeans"), (PLAIN, "kmeans"), (PLAIN, "gmm")])
def test_rows_of_the_run_get_the_very_clusters_and_features_they_have(made, here, capsys, run, assigner):
    np.savez("own.npz", x=own_rows(made, "test"))
    predict.main([run, "own.npz", "--assigner", assigner, "--classes", "--out", "to/p.csv", "--features", "f.npz"])
    rows, folder = read("to/p.csv"), Path("results/runs", run)
    stored = np.load(folder / f"clusters/{assigner}.npz")
    assert stored["rows"].tolist() == list(range(60, 90))
    np.testing.assert_array_equal(clusters(rows), stored["clusters"])
    assert list(rows[0]) == ["row", "cluster", "confidence", "class"]
    assert [row["row"] for row in rows] == [str(number) for number in range(30)]
    with np.load("f.npz") as found, np.load(folder / "features.npz") as kept:
        assert set(found.files) == {name for name in kept.files if not name.startswith("view")}
        for name in found.files:
            np.testing.assert_array_equal(found[name], kept[name][60:90])
    kinds = (np.arange(30) + 1) % 3  # other than those of the first 30 rows
    best = max(  # the one-to-one matching, by trying all
        itertools.permutations(range(3)), key=lambda order: (np.array(order)[stored["clusters"]] == kinds).sum()
    )
    classes = np.array([NAMES.index(row["class"]) if row["class"] else -1 for row in rows])
    assert (classes == kinds).sum() == (np.array(best)[stored["clusters"]] == kinds).sum()
    if assigner == "argmax":
        p = np.load("f.npz")["p"]
        np.testing.assert_allclose([float(row["confidence"]) for row in rows], p.max(1), atol=1e-6)
    said = capsys.readouterr().out
    assert f"30 rows in {len(set(stored['clusters']))} clusters by {assigner}" in said
    assert "written: to/p.csv" in said
    assert "differ from the run's" not in said


def test_image_files_are_rows_by_their_paths(here, capsys):
    x, _ = images(6, 9)
    for number, picture in enumerate(x[:, :, :, 0]):
        file = here / "new" / "ab"[number % 2] / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).convert("RGB" if number == 3 else "L").save(file)  # grey, stored as colours
    (here / "new" / "notes.txt").write_text("no image")
    predict.main([PLAIN, "new", "--assigner", "kmeans", "--features", "f.npz", "--out", "p.csv"])
    order = [0, 2, 4, 1, 3, 5]
    paths = [f"{'ab'[number % 2]}/{number}.png" for number in order]
    assert [row["path"] for row in read("p.csv")] == paths
    assert np.load("f.npz", allow_pickle=False)["path"].tolist() == paths
    np.savez("same.npz", x=x[order])
    predict.main([PLAIN, "same.npz", "--assigner", "kmeans", "--out", "same.csv"])
    np.testing.assert_array_equal(clusters(read("p.csv")), clusters(read("same.csv")))
    predict.main([PLAIN, "new/b/3.png", "--assigner", "kmeans"])  # one image, and the file that is written by default
    assert read() == [row | {"path": "3.png"} for row in read("p.csv") if row["path"] == "b/3.png"]


def test_rows_that_are_unlike_the_runs_are_told(here, capsys):
    np.savez("dark.npz", x=images(21, 9)[0] // 16)
    predict.main([PLAIN, "dark.npz", "--features", "f.npz"])
    assert "note: the new rows differ from the run's: pixels deviate by 0.01" in capsys.readouterr().out
    assert not Path("predictions.csv").exists()  # features alone were asked for


def damage(path, change):
    stored = read_json(path)
    change(stored["records"])
    write_json(path, stored)


TRAIN, KMEANS = f"results/runs/{PLAIN}/train.json", f"results/runs/{PLAIN}/clusters/kmeans.json"
WRONG = {
    "no such run": ([], "mine/split/untraind/seed0", r"no finished run; did you mean 'mine/split/untrained/seed0'\?"),
    "folder of no run": ([], "results/runs/mine/split/untrained", r"did you mean 'mine/split/untrained/seed0'\?"),
    "no rows": (["--assigner", "kmeans"], "none.npz", "none.npz: no such folder or file; give a folder of images"),
    "empty folder": (["--assigner", "kmeans"], "empty", r"no image files in it or below it \(1 other files\)"),
    "several assigners": ([], None, r"several assigners \(gmm, kmeans, spectral\); choose one with --assigner"),
    "unknown assigner": (
        ["--assigner", "kmean"],
        None,
        "no assigner 'kmean' was asked of this run; .*: gmm, kmeans, spectral",
    ),
    "folder to write": (["--out", "empty"], None, "empty: is a folder; name the file to write"),
    "over the new rows": (["--out", "new.npz"], None, "are the new data themselves"),
    "one file twice": (["--out", "a", "--features", "./a"], None, "both --out and --features; give two names"),
    "below a file": (["--out", "new.npz/a"], None, "new.npz/a: cannot be written, .*new.npz is no folder"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_words_are_refused_in_one_line(here, what):
    words, place, message = WRONG[what]
    (here / "empty").mkdir()
    (here / "empty" / "a.txt").touch()
    run, new = (place, "new.npz") if place and "mine" in place else (PLAIN, place or "new.npz")
    with pytest.raises(StageError, match=message) as refused:
        predict.main([run, new, *words])
    assert "\n" not in str(refused.value)
    assert not Path("predictions.csv").exists()


def other_code(records):
    records["train"]["code"] = "0123456789ab"


def diverged(records):
    records["train"] |= {"status": "diverged", "diverged": {"epoch": 3, "term": "total"}}


def other_features(records):
    records["assign/kmeans"]["inputs"]["features"] = "of another"


def not_possible(records):
    records["assign/kmeans"] |= {"status": "not_possible", "reason": "4 clusters asked of 3 rows"}


STALE = {
    "code": (TRAIN, other_code, "stale, stage train ran with code 0123456789ab, here is .*run its suite again"),
    "diverged": (TRAIN, diverged, "its training diverged in epoch 3, term total.*take another seed"),
    "features": (KMEANS, other_features, r"stale, stage assign/kmeans was made from features of another"),
    "no clusters": (KMEANS, not_possible, "kmeans.json: not possible: 4 clusters asked of 3 rows"),
}


@pytest.mark.parametrize("what", STALE)
def test_a_run_that_is_no_result_is_refused_before_anything_is_computed(here, monkeypatch, what):
    path, change, message = STALE[what]
    damage(path, change)
    monkeypatch.setattr(predict, "stage", None)
    with pytest.raises(StageError, match=message):
        predict.main([PLAIN, "new.npz", "--assigner", "kmeans"])


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("model.pt", r"model.pt: not found"),
        ("clusters/kmeans.fit.npz", r"kmeans.fit.npz: not found"),
        ("clusters/kmeans.npz", r"kmeans.npz: not found"),
        ("clusters/kmeans.json", r"no assigner 'kmeans' was asked of this run; there are: gmm, spectral"),
        ("../../../../../data/mine/card.json", r"data/mine: not found; a run is used with the prepared data"),
    ],
)  # fmt: skip
def test_files_of_a_run_that_are_missing_or_damaged_are_named(here, file, message):
    path = here / "results/runs" / PLAIN / file
    words = [PLAIN, "new.npz", "--assigner", "kmeans", "--classes"]
    content = path.read_bytes()
    path.unlink()
    with pytest.raises(StageError, match=message):
        predict.main(words)
    path.write_bytes(content[:-20] + bytes(20))
    with pytest.raises(StageError, match=re.escape(path.name)):
        predict.main(words)
    assert not Path("predictions.csv").exists()


def test_a_state_that_is_not_what_was_stored_is_refused(here):
    np.savez(KMEANS.replace(".json", ".fit.npz"), centres=np.zeros((3, 4), np.float32))
    with pytest.raises(StageError, match=r"kmeans.fit.npz: sha256 .* found, .* in the record of its stage"):
        predict.main([PLAIN, "new.npz", "--assigner", "kmeans"])


def test_clusters_of_another_model_are_refused(here):
    shutil.copy(f"results/runs/{MIXEM}/clusters/kmeans.json", KMEANS)
    with pytest.raises(StageError, match=r"kmeans.json: made with another model than is here now"):
        predict.main([PLAIN, "new.npz", "--assigner", "kmeans"])


def test_what_knows_only_its_own_rows_refuses_others_and_features_remain(here):
    with pytest.raises(StageError, match=r"'spectral': new rows cannot be assigned: .*features alone"):
        predict.main(["mine/clusters/untrained/seed0", "new.npz", "--assigner", "spectral"])
    predict.main([MIXEM, "new.npz"])  # of several argmax, if it is there
    assert len(read()) == 21
    shutil.rmtree(f"results/runs/{MIXEM}/clusters")
    with pytest.raises(StageError, match="no assigner was asked of this run; ask for features alone"):
        predict.main([MIXEM, "new.npz"])
    predict.main([MIXEM, "new.npz", "--features", "f.npz"])
    assert len(np.load("f.npz")["p"]) == 21


def test_data_without_labels_have_clusters_but_no_classes(here, monkeypatch):
    run = "results/runs/mine/clusters/untrained/seed0/"
    predict.main([run, "new.npz", "--assigner", "kmeans"])
    assert list(read()[0]) == ["row", "cluster", "confidence"]
    monkeypatch.setattr(predict, "stage", None)
    with pytest.raises(
        StageError, match="scored rows have no labels, so clusters match no classes: leave out --classes"
    ):
        predict.main([run, "new.npz", "--assigner", "kmeans", "--classes"])


def test_a_run_of_two_suites_is_asked_for_by_its_folder(here):
    shutil.copytree("results/runs", "results/other/runs")
    shutil.copytree("results/data", "results/other/data")
    with pytest.raises(StageError, match=r"2 runs of that name .*give the folder"):
        predict.main([PLAIN, "new.npz", "--assigner", "kmeans"])
    predict.main([f"results/other/runs/{PLAIN}", "new.npz", "--assigner", "kmeans"])
    shutil.copytree(f"results/runs/{PLAIN}", "/".join([str(here), "alone"]))
    with pytest.raises(StageError, match="copy that folder whole"):
        predict.main(["alone", "new.npz", "--assigner", "kmeans"])


def test_a_stage_is_a_process_that_says_its_error_in_one_line(here, monkeypatch, capfd):
    monkeypatch.undo()
    with pytest.raises(StageError, match=r"^none/card.json: not found"):
        predict.stage("preparation.new_rows", "--like", "none", "--new", "new.npz", "--out", "rows")
    assert capfd.readouterr() == ("", "")
    data = here / "results/data/mine"
    predict.stage("preparation.new_rows", "--like", data, "--new", here / "new.npz", "--out", here / "rows")
    assert (here / "rows/images.npy").is_file()


def test_the_example_of_the_docs_runs(made, here, capsys):
    text = (ROOT / "docs/predict.md").read_text()
    (command,) = re.findall(r"^\./run python -m pipeline\.predict (.*)$", text, re.MULTILINE)
    words = command.split()
    assert words[0] == "digits/full/mixem/seed0"
    Path(words[1]).mkdir()
    for number, picture in enumerate(images(4, 9)[0][:, :, :, 0]):
        Image.fromarray(picture).save(Path(words[1], f"{number}.png"))
    predict.main([MIXEM, *words[1:]])
    header = re.search(r"```text\n(path.*)\n", text)[1]
    assert ",".join(read(words[words.index("--out") + 1])[0]) == header


@pytest.mark.parametrize(
    ("words", "message"),
    [([], "arguments are required: run, new"), ([PLAIN, "new.npz", "--clases"], "did you mean '--classes'")],
)
def test_a_wrong_command_line_is_one_line(words, message):
    with pytest.raises(StageError, match=message):
        predict.main(words)
