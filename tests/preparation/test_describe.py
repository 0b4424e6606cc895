"""Own data in one command: what is found in folders and files, and files of configuration that hold."""

import numpy as np
import pytest

from pipeline import catalogue
from preparation.described.text import flow
from tests.preparation import described
from tests.preparation.described import KINDS, picture, pictures, table

FILES = ["datasets/birds.yaml", "suites/birds.yaml", "suites/birds_quick.yaml", "tables/birds.yaml"]
METHODS = ["supervised", "pixels", "untrained", "simclr_base", "simclr", "mixem", "mixem", "scan"]


@pytest.fixture
def describe(monkeypatch, capsys, tmp_path):
    return lambda *words, **how: described.run(monkeypatch, capsys, tmp_path, *words, **how)


def recipes(found):
    return [row["recipe"] for row in found.file("tables/birds")["rows"]]


def test_folders_of_classes_are_cut_into_train_and_test(describe, tmp_path):
    pictures(tmp_path / "Birds")
    found = describe(tmp_path / "Birds")
    spec = found.file("datasets/birds")
    assert found.files() == FILES
    assert (spec["source"], spec["folder"], spec["split_folders"]) == ("folder", "Birds", {"train": "."})
    assert (spec["classes"], spec["shape"], spec["family"], spec["decode"]) == (2, [10, 12, 3], "cifar", True)
    assert (spec["test_share"], sum(spec["splits"].values()), list(spec["splits"])) == (0.2, 30, ["train", "test"])
    data = found.prepared("birds", tmp_path / "out")
    pixels = data.images[data.rows(["train"])] / 255
    np.testing.assert_allclose(spec["normalisation"]["mean"], pixels.mean((0, 1, 2)), atol=1e-4)
    np.testing.assert_allclose(spec["normalisation"]["std"], pixels.std((0, 1, 2)), atol=1e-4)
    assert data.card["class_names"] == list(KINDS)
    assert (recipes(found), found.file("suites/birds")["protocols"]) == (METHODS, ["full"])
    for line in ("2: crow 15, owl 15", "10 x 12 pixels", "(cut by hash)", "config/families/cifar.yaml"):
        assert line in found.screen


def test_the_suites_hold_and_the_commands_are_printed(describe, tmp_path):
    pictures(tmp_path / "my birds")
    found = describe(tmp_path / "my birds", "--name", "birds", "--title", "Birds: of mine, # 1")
    for name, seeds in (("birds", [0, 1, 2]), ("birds_quick", [0])):
        suite, plan = found.file(f"suites/{name}"), found.plan(name)
        assert (suite["suite"], suite["results"], suite["seeds"]) == (name, f"results/{name}", seeds)
        assert (suite["data_root"], suite["tables"]) == (str(tmp_path), ["birds"])
        assert plan.table_path("birds") == f"results/{name}/table"
        assert {run.seed for run in plan.runs.all()} == set(seeds)
        own = catalogue.short(found.own / "suites" / f"{name}.yaml")
        assert f"  ./run snakemake results/{name}/table.csv --cores all --configfile {own}\n" in found.screen
    assert found.screen.index("birds_quick/table.csv") < found.screen.index("results/birds/table.csv")
    assert catalogue.entry("data set", "birds")["title"] == "Birds: of mine, # 1"


def test_train_and_test_with_a_folder_a_class(describe, tmp_path):
    pictures(tmp_path / "birds" / "Train", count=20)
    pictures(tmp_path / "birds" / "valid", count=5)
    picture(tmp_path / "birds" / "unlabelled" / "x.png")
    found = describe(tmp_path / "birds")
    spec = found.file("datasets/birds")
    assert spec["splits"] == {"train": 40, "test": 10, "unlabeled": 1}
    assert spec["split_folders"] == {"train": "Train", "test": "valid", "unlabeled": "unlabelled"}
    assert "test_share" not in spec
    assert found.file("suites/birds")["protocols"] == ["unlabeled"]
    found.plan("birds")
    assert found.prepared("birds", tmp_path / "out").labels.tolist() == [0] * 20 + [1] * 20 + [0] * 5 + [1] * 5 + [-1]


@pytest.mark.parametrize("place", ["{}.png", "a/deep/{}.png", "train/{}.png"])
def test_images_without_classes(describe, tmp_path, place):
    for number in range(30):
        picture(tmp_path / "birds" / place.format(number), number, mode="L")
    words = ["--no-labels"] if "deep" in place else []
    found = describe(tmp_path / "birds", "--clusters", 3, *words)
    spec = found.file("datasets/birds")
    assert (spec["splits"], spec["classes"], spec["shape"]) == ({"unlabeled": 30}, 3, [10, 12, 1])
    assert spec["family"] == "digits"
    assert found.file("suites/birds")["protocols"] == ["clusters"]
    assert recipes(found) == [name for name in METHODS if name != "supervised"]
    assert "ACC" not in found.file("tables/birds")["metrics"]
    for name in ("birds", "birds_quick"):
        assert {run.protocol for run in found.plan(name).runs.all()} == {"clusters"}
    assert found.prepared("birds", tmp_path / "out").labels.tolist() == [-1] * 30


def test_files_of_many_sizes_are_brought_to_one(describe, tmp_path):
    pictures(tmp_path / "birds", size=(80, 70))
    picture(tmp_path / "birds" / "owl" / "z.png", size=(30, 200))
    found = describe(tmp_path / "birds")
    assert found.file("datasets/birds")["shape"] == [64, 64, 3]
    assert "70 x 80 pixels (median of the files); --size for another; prepared as 64 x 64 RGB" in found.screen
    found = describe(tmp_path / "birds", "--size", 20, 24, "--force")
    assert found.file("datasets/birds")["shape"] == [20, 24, 3]
    assert found.prepared("birds", tmp_path / "out").images.shape == (31, 20, 24, 3)


@pytest.mark.parametrize("shape", [(8, 9), (8, 9, 1), (8, 9, 3)])
def test_images_in_an_array(describe, tmp_path, shape):
    x = np.random.default_rng(0).integers(0, 256, (40, *shape), dtype=np.uint8)
    np.savez(tmp_path / "birds.npz", x=x, y=np.repeat(KINDS, 20))
    found = describe(tmp_path / "birds.npz")
    spec = found.file("datasets/birds")
    assert (spec["shape"], spec["files"]) == ([8, 9, (*shape, 1)[2]], {"train": "birds.npz"})
    assert "scale" not in spec
    found.plan("birds_quick")
    data = found.prepared("birds", tmp_path / "out")
    rows = data.card["notes"]["source_rows"]
    np.testing.assert_array_equal(data.images, x.reshape(40, 8, 9, -1)[rows])
    assert data.labels.tolist() == [row // 20 for row in rows]


def test_pixels_are_scaled_and_rows_may_hold_them(describe, tmp_path):
    x = np.random.default_rng(0).integers(0, 17, (40, 64))
    np.savez(tmp_path / "birds.npz", x=x)
    found = describe(tmp_path / "birds.npz", "--clusters", 2, "--size", 8)
    spec = found.file("datasets/birds")
    assert (spec["shape"], spec["scale"], spec["labels"]) == ([8, 8, 1], 0.0625, False)
    np.testing.assert_allclose(found.prepared("birds", tmp_path / "out").images.reshape(40, 64), x / 16)


def test_vectors_get_the_methods_for_vectors(describe, tmp_path):
    x = np.random.default_rng(0).normal(size=(60, 5)) * [1, 1, 1, 1, 500] + [0, 0, 0, 0, 70]
    np.savez(tmp_path / "birds.npz", x=x, y=np.arange(60) % 3)
    found = describe(tmp_path / "birds.npz")
    spec = found.file("datasets/birds")
    assert (spec["shape"], spec["family"], spec["classes"]) == ([1, 5, 1], "vectors", 3)
    assert recipes(found) == ["pixels", "autoencoder", "autoencoder", "dec", "idec", "dcrl"]
    assert found.file("suites/birds")["protocols"] == ["all"]
    data = found.prepared("birds", tmp_path / "out")
    train = data.images[data.rows(["train"])].reshape(-1, 5)
    np.testing.assert_allclose(train.std(0), np.ones(5), rtol=0.2)
    plain = describe(tmp_path / "birds.npz", "--force", "--no-standardise").file("datasets/birds")
    assert "standardise" not in plain
    assert plain["scale"] == pytest.approx(1 / np.sqrt((x**2).mean()), rel=0.2)
    found.plan("birds_quick")


@pytest.mark.parametrize(("separator", "header"), [(",", False), (";", True), ("\t", True)])
def test_a_table_of_text(describe, tmp_path, separator, header):
    values = table(tmp_path / "birds.csv", separator, header)
    found = describe(tmp_path / "birds.csv")
    spec = found.file("datasets/birds")
    assert (spec.get("delimiter", ","), spec.get("header", False)) == (separator, header)
    assert spec["label"] == ("kind" if header else 2)
    assert spec["splits"].keys() == {"train", "test"}
    data = found.prepared("birds", tmp_path / "out")
    rows = data.card["notes"]["source_rows"]
    np.testing.assert_allclose(data.images.reshape(40, 2), values[rows], atol=1e-4)
    assert data.card["class_names"] == list(KINDS)
    assert data.labels.tolist() == [row % 2 for row in rows]
    found.plan("birds")


def test_columns_that_are_no_values_are_left_out(describe, tmp_path):
    rows = "".join(f"{row},{row / 7},{row % 3 / 2},x{row},{row % 2}\n" for row in range(30))
    (tmp_path / "birds.csv").write_text("id,wing,beak,ring,class\n" + rows)
    found = describe(tmp_path / "birds.csv", "--drop", "ring")
    assert found.file("datasets/birds")["drop"] == ["ring", "id"]
    assert found.file("datasets/birds")["label"] == "class"
    assert found.prepared("birds", tmp_path / "out").images.shape == (30, 1, 2, 1)


def test_files_named_as_splits(describe, tmp_path):
    (tmp_path / "birds").mkdir()
    for name, rows in (("train", 30), ("test", 12)):
        table(tmp_path / "birds" / f"{name}.csv", rows=rows)
    spec = describe(tmp_path / "birds").file("datasets/birds")
    assert (spec["files"], spec["splits"]) == ({"train": "train.csv", "test": "test.csv"}, {"train": 30, "test": 12})


def test_an_array_of_vectors_without_labels(describe, tmp_path):
    np.save(tmp_path / "birds.npy", np.random.default_rng(0).normal(size=(50, 6)))
    found = describe(tmp_path / "birds.npy", "--clusters", 4)
    spec = found.file("datasets/birds")
    assert (spec["splits"], spec["labels"], spec["shape"]) == ({"unlabeled": 50}, False, [1, 6, 1])
    assert {run.protocol for run in found.plan("birds").runs.all()} == {"clusters"}
    assert "accuracy" not in found.screen


def test_an_earlier_description_is_replaced_whole(describe, tmp_path):
    table(tmp_path / "birds.csv", rows=2000)
    slow = describe(tmp_path / "birds.csv", rate=20)
    assert "datasets/birds_quick.yaml" in slow.files()
    quick = slow.file("datasets/birds_quick")
    assert sum(quick["splits"].values()) == quick["subset"] < 2000
    assert slow.plan("birds_quick").config["datasets"] == ["birds_quick"]
    assert describe(tmp_path / "birds.csv", "--force").files() == FILES


def test_values_are_written_as_they_are_read():
    for value in ("a: b # c", "1", True, [1, "x"], {"train": "a b.npz"}, "\t", "ü", 1e-3, None):
        path = f"key: {flow(value)}"
        assert catalogue.yaml.safe_load(path) == {"key": value}


def test_a_train_folder_alone_is_cut(monkeypatch, capsys, tmp_path):
    """Without a folder for it, `test` comes from what is in train."""
    pictures(tmp_path / "birds" / "train")
    found = described.run(monkeypatch, capsys, tmp_path, tmp_path / "birds")
    spec = found.file("datasets/birds")
    assert spec["test_share"] == 0.2
    assert list(spec["splits"]) == ["train", "test"]
    assert sum(spec["splits"].values()) == 30
