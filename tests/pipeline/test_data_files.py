"""The hash of the files behind a data set: content and names count, times do not, and nothing is hashed twice."""

import json
import os
from types import SimpleNamespace

import pytest

from pipeline import catalogue, data_files
from pipeline.data_files import MISSING, DataFiles, Sources, named_files
from pipeline.plan import Plan
from pipeline.provenance import canonical_json
from pipeline.runs import Run, Runs
from pipeline.stages import Stages

VECTORS = {"source": "vectors", "files": {"train": "a.npz", "test": "b.csv"}, "splits": {"train": 1, "test": 1}}
FOLDER = {
    "source": "folder", "folder": "birds", "class_list": "classes.txt", "splits": {"train": 1, "test": 1},
    "split_folders": {"test": "val"},
}  # fmt: skip
VOC = {"source": "voc", "folder": "VOC2007", "splits": {"train": 1}}
MNIST = {"source": "torchvision", "class": "MNIST", "splits": {"train": 1}}
CIFAR = {"source": "torchvision", "class": "CIFAR10", "splits": {"train": 1}}
FILES = {
    "vectors": (VECTORS, ["a.npz", "b.csv"]),
    "folder": (FOLDER, ["classes.txt", "birds/train/crow/1.png", "birds/train/owl/1.png", "birds/val/crow/2.png"]),
    "voc": (VOC, ["VOC2007/ImageSets/Main/cat_train.txt", "VOC2007/JPEGImages/1.jpg"]),
    "mnist": (MNIST, ["MNIST/raw/train-images-idx3-ubyte"]),
    "cifar": (CIFAR, ["cifar-10-batches-py/data_batch_1"]),
}


@pytest.fixture(params=FILES)
def made(request, tmp_path):
    spec, names = FILES[request.param]
    for name in names:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("crow\nowl the bird\n" if name == "classes.txt" else f"content of {name}")
    return SimpleNamespace(root=tmp_path, spec=spec, paths=[tmp_path / name for name in names])


def test_a_stage_finds_the_hash_that_the_plan_found(made):
    """The plan reads the splits in the order of their file, a stage from JSON with sorted keys."""
    received = json.loads(canonical_json(made.spec))
    assert DataFiles(made.root).hash(received) == DataFiles(made.root).hash(made.spec)


def test_the_content_of_every_file_counts_and_nothing_else(made):
    def hashed():
        return DataFiles(made.root).hash(made.spec)

    before = hashed()
    assert len(before) == 16
    (made.root / "other").write_text("not of this data set")
    for path in made.paths:
        written = path.read_text()
        path.touch()
        assert hashed() == before
        path.write_text(written.upper())
        assert hashed() != before
        path.write_text(written)
        assert hashed() == before
        os.rename(path, path.with_name(f"{path.name}x"))
        assert hashed() != before
        os.rename(path.with_name(f"{path.name}x"), path)
    assert hashed() == before


def test_a_file_that_is_not_there_is_missing(made):
    assert DataFiles(None).hash(made.spec) == MISSING
    assert DataFiles(made.root / "elsewhere").hash(made.spec) == MISSING
    assert DataFiles(made.root).file(made.root / "nowhere") == MISSING
    assert DataFiles(None).hash(catalogue.entry("data set", "digits")) is None


def test_files_that_no_reader_takes_make_nothing_stale(tmp_path):
    """A file manager's notes, thumbnails, a README, and classes that the class list leaves out."""
    spec = FOLDER | {"splits": {"train": 1, "unlabeled": 1}}
    for name in ("train/crow/1.png", "train/owl/1.JPEG", "train/magpie/1.png", "unlabeled/deep/2.png"):
        (tmp_path / "birds" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "birds" / name).write_text(name)
    (tmp_path / "classes.txt").write_text("crow\nowl the bird\n")
    before = DataFiles(tmp_path).hash(spec)
    for name in (
        "train/.DS_Store", "train/crow/.DS_Store", "train/crow/README.txt", "train/list.png", "train/magpie/2.png",
        "train/.cache/3.png", "train/crow/.cache/3.png", "unlabeled/__MACOSX/2.png", "unlabeled/deep/._2.png",
    ):  # fmt: skip
        (tmp_path / "birds" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "birds" / name).write_text(name)
        assert DataFiles(tmp_path).hash(spec) == before, name
    for name in ("train/crow/deep/2.tiff", "unlabeled/3.png", "unlabeled/deep/4.png"):
        (tmp_path / "birds" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "birds" / name).write_text(name)
        assert DataFiles(tmp_path).hash(spec) != before, name
        (tmp_path / "birds" / name).unlink()
    del spec["class_list"]
    every = DataFiles(tmp_path).hash(spec)
    (tmp_path / "birds/train/magpie/3.png").write_text("one more")
    assert DataFiles(tmp_path).hash(spec) != every
    assert DataFiles(tmp_path).hash(VOC | {"folder": "birds"}) == MISSING  # its folders are not there


def test_images_are_what_torchvision_takes_for_one():
    from torchvision.datasets.folder import IMG_EXTENSIONS

    assert set(data_files.IMAGES) == set(IMG_EXTENSIONS)


def test_a_new_file_and_one_in_another_class_count(tmp_path):
    for name in ("crow/1.png", "owl/1.png"):
        (tmp_path / "birds/train" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "birds/train" / name).write_text(name)
    (tmp_path / "birds/val/owl").mkdir(parents=True)
    (tmp_path / "birds/val/owl/1.png").write_text("")
    spec = {key: value for key, value in FOLDER.items() if key != "class_list"}
    before = DataFiles(tmp_path).hash(spec)
    (tmp_path / "birds/train/owl/2.png").write_text("new")
    added = DataFiles(tmp_path).hash(spec)
    os.rename(tmp_path / "birds/train/owl/2.png", tmp_path / "birds/train/crow/2.png")
    moved = DataFiles(tmp_path).hash(spec)
    os.rename(tmp_path / "birds/train/crow", tmp_path / "birds/train/crane")  # still the first
    assert len({before, added, moved, DataFiles(tmp_path).hash(spec)}) == 4


def test_a_link_to_nothing_hides_no_other_file(tmp_path):
    for name in ("train/crow/1.png", "val/crow/1.png"):
        (tmp_path / "birds" / name).parent.mkdir(parents=True)
        (tmp_path / "birds" / name).write_text(name)
    (tmp_path / "birds/train/crow/.#1.png").symlink_to("nowhere")
    spec = {key: value for key, value in FOLDER.items() if key != "class_list"}
    before = DataFiles(tmp_path).hash(spec)
    (tmp_path / "birds/train/crow/1.png").write_text("noise")
    assert MISSING != before != DataFiles(tmp_path).hash(spec)


def test_only_what_changed_is_hashed_again(made, monkeypatch):
    hashed, real = [], data_files.sha256
    monkeypatch.setattr(data_files, "sha256", lambda path: hashed.append(path) or real(path))
    cache = made.root / ".sources.json"
    first = DataFiles(made.root, cache)
    before = first.hash(made.spec)
    assert not cache.exists()  # nothing is written before it is asked for
    first.save()
    assert set(hashed) == set(made.paths)
    hashed.clear()
    assert DataFiles(made.root, cache).hash(made.spec) == before
    assert hashed == []
    # Another content of the same size, its time moved back: the system's own time of the change tells.
    path, times = made.paths[-1], made.paths[-1].stat()
    path.write_text(path.read_text().upper())
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert DataFiles(made.root, cache).hash(made.spec) != before
    assert hashed == [path]
    cache.write_text("{cut off")
    assert len(DataFiles(made.root, cache).hash(made.spec)) == 16


@pytest.mark.parametrize(
    ("found", "card", "expected"),
    [
        ("aaa", None, "aaa"),  # never prepared
        ("bbb", {"inputs": {"sources": "aaa"}, "sources": "aaa"}, "bbb"),  # prepared from other files
        ("aaa", {"inputs": {"sources": "aaa"}, "sources": "aaa"}, "aaa"),
        (MISSING, {"inputs": {"sources": "aaa"}, "sources": "aaa"}, "aaa"),  # the files are gone, what they gave is not
        ("aaa", {"inputs": {"sources": MISSING}, "sources": "aaa"}, MISSING),  # downloaded by the job itself
        ("bbb", {"inputs": {"sources": MISSING}, "sources": "aaa"}, "bbb"),
        (MISSING, None, MISSING),
        (None, None, None),  # a data set without files
        ("aaa", {}, "aaa"),  # not a record
    ],
)
def test_what_a_prepared_data_set_must_have_been_made_from(found, card, expected, tmp_path):
    if card is not None:
        path = tmp_path / "data" / "usps" / "card.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"record": card}))
    assert Sources(SimpleNamespace(hash=lambda spec: found), str(tmp_path)).of_dataset("usps") == expected


def test_files_of_data_sets_and_recipes_are_inputs_of_what_they_make(tmp_path):
    """One file, one changed fingerprint of the stage that reads it, and of all that follow."""
    weights = {"network": {"weights": "r50.pt"}}
    config = {"seeds": [0], "overrides": {"untrained": weights}}
    run = Run("usps", "full", "untrained", 0)

    def fingerprints(data, other):
        known = {tmp_path / "r50.pt": other}
        files = SimpleNamespace(hash=lambda spec: data, file=lambda path: known.get(path, "?"), root=None)
        stages = Stages(Runs(config, {}), Sources(files, str(tmp_path), tmp_path))
        return stages.prepare("usps").fingerprint, stages.train(run).fingerprint, stages.embed(run).fingerprint

    one = fingerprints("a", "w")
    assert one == fingerprints("a", "w")
    assert not set(one) & set(fingerprints("b", "w"))
    prepared, trained, embedded = fingerprints("a", "v")
    assert prepared == one[0]
    assert (trained == one[1], embedded == one[2]) == (False, False)


def test_files_that_a_recipe_names(monkeypatch):
    monkeypatch.setenv("BENCH_WEIGHTS_ROOT", "/another")  # whoever calls says where, whatever the environment is yet
    monkeypatch.setenv("BENCH_DATA_ROOT", "/another")
    recipe = {"network": {"weights": "r50.pt"}, "labels": {"list": "1percent.txt"}}
    found = named_files(recipe, "/d", "/w")
    assert {use: str(path) for use, path in found.items()} == {"weights": "/w/r50.pt", "labels": "/d/1percent.txt"}
    below = named_files(recipe, None, None)
    assert {use: str(path) for use, path in below.items()} == {"weights": "r50.pt", "labels": "1percent.txt"}
    assert named_files({"network": {}, "labels": {"fraction": 0.1}}, "/d", "/w") == {}


def test_a_plan_looks_for_named_files_where_the_stages_will(tmp_path, monkeypatch):
    """Whether the root is the configuration's or the environment's, and before the plan has set any."""
    monkeypatch.delenv("BENCH_DATA_ROOT", raising=False)
    monkeypatch.setenv("BENCH_WEIGHTS_ROOT", str(tmp_path / "w"))
    for folder, file in (("d", "list.txt"), ("e", "list.txt"), ("w", "r50.pt")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / file).write_text(folder)
    recipe = {"network": {"weights": "r50.pt"}, "labels": {"list": "list.txt"}}
    default = catalogue.read_yaml(catalogue.CONFIG / "config.yaml")

    def found():
        return Plan(default | {"data_root": str(tmp_path / "d")}).sources.of_recipe(recipe)

    of_suite = found()
    assert MISSING not in of_suite.values()
    monkeypatch.setenv("BENCH_DATA_ROOT", str(tmp_path / "e"))
    of_environment = found()
    assert of_environment["weights"] == of_suite["weights"]
    assert of_environment["labels"] not in (of_suite["labels"], MISSING)
