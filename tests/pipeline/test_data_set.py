"""What a data set's file may say: refused when it is read, before any job, with the reason and the cure."""

import json

import pytest
import yaml

from pipeline import catalogue, recipes
from pipeline.naming import ConfigError
from pipeline.plan import Plan

OWN = {
    "title": "Own", "family": "vectors", "source": "vectors", "files": {"train": "x.npz", "test": "t.npz"},
    "classes": 3, "shape": [1, 4, 1], "normalisation": {"mean": [0], "std": [1]}, "splits": {"train": 400, "test": 300},
}  # fmt: skip
PHOTOGRAPHS = {
    "title": "Own", "family": "imagenet", "source": "folder", "folder": "own", "classes": 3, "shape": [32, 32, 3],
    "normalisation": {"mean": [0] * 3, "std": [1] * 3}, "splits": {"train": 400, "test": 300},
}  # fmt: skip


@pytest.mark.parametrize("spec", [OWN, PHOTOGRAPHS, PHOTOGRAPHS | {"shape": [24, 48, 3]}, OWN | {"header": True}])
def test_own_data_that_hang_together_pass(spec):
    assert catalogue.entry_or_json("data set", json.dumps({"name": "own", **spec})) == ("own", spec)


UNLABELLED = OWN | {"files": {"unlabeled": "x.npz"}, "splits": {"unlabeled": 400}, "labels": False}
ONE = {"mean": [0], "std": [1]}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            OWN | {"files": {"train": "../../etc/passwd", "test": "t.npz"}},
            "files: '../../etc/passwd' leaves the data root",
        ),
        (OWN | {"files": {"train": "a/../../x.npz", "test": "t.npz"}}, "files: 'a/../../x.npz' leaves the data root"),
        (OWN | {"files": {"train": "/etc/passwd", "test": "t.npz"}}, "files: '/etc/passwd' leaves the data root"),
        (OWN | {"files": {"train": "~/x.npz", "test": "t.npz"}}, "files: '~/x.npz' leaves the data root"),
        (PHOTOGRAPHS | {"folder": ".."}, r"folder: '\.\.' leaves the data root"),
        (PHOTOGRAPHS | {"class_list": "../list.txt"}, "class_list: '../list.txt' leaves the data root"),
        (PHOTOGRAPHS | {"split_folders": {"test": "/val"}}, "split_folders: '/val' leaves the data root"),
        (OWN | {"files": {"train": "x.npz"}}, "files: no file for split 'test'; the splits are train, test"),
        (OWN | {"files": OWN["files"] | {"val": "v.npz"}}, "files: unknown split 'val'; the splits are train, test"),
        (PHOTOGRAPHS | {"split_folders": {"tset": "val"}}, "split_folders: unknown split 'tset'"),
        ({key: value for key, value in OWN.items() if key != "files"}, "source vectors needs the key 'files'"),
        ({key: value for key, value in PHOTOGRAPHS.items() if key != "folder"}, "source folder needs the key 'folder'"),
        (OWN | {"source": "torchvision"}, "source torchvision needs the key 'class'"),
        (PHOTOGRAPHS | {"normalisation": ONE}, r"normalisation.mean: 1 values, but shape \[32, 32, 3\] has 3 channels"),
        (PHOTOGRAPHS | {"shape": [8, 8, 1]}, "normalisation.mean: 3 values, but shape .* has 1 channels"),
        (
            PHOTOGRAPHS | {"shape": [8, 8, 2], "normalisation": {"mean": [0, 0], "std": [1, 1]}},
            r"shape \[8, 8, 2\]: image files are read with 3 channels \(RGB\) or 1 \(grey\)",
        ),
        (OWN | {"labels": False}, "labels: false is for files of split 'unlabeled' .*; found splits train, test"),
        (UNLABELLED | {"source": "jf"}, "labels: false is for .* sources csv, vectors, folder; found .* source jf"),
    ],
)
def test_what_does_not_hang_together_is_refused(spec, message):
    with pytest.raises(ConfigError, match=f"data set given as JSON: {message}"):
        catalogue.entry_or_json("data set", json.dumps({"name": "own", **spec}))


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A copy of config/ to which data sets can be added."""
    for folder in ("datasets", "tables"):
        (tmp_path / "config" / folder).mkdir(parents=True)
    for path in catalogue.CONFIG.iterdir():
        if path.name not in ("datasets", "tables"):
            (tmp_path / "config" / path.name).symlink_to(path)
    for path in (catalogue.CONFIG / "datasets").iterdir():
        (tmp_path / "config" / "datasets" / path.name).symlink_to(path)
    monkeypatch.setattr(catalogue, "CONFIG", tmp_path / "config")

    def add(name, spec, **more):
        (tmp_path / "config" / "datasets" / f"{name}.yaml").write_text(yaml.safe_dump(spec))
        default = catalogue.read_yaml(catalogue.CONFIG / "config.yaml")
        return default | {"datasets": [name], "tables": ["own"], **more}

    def table(*recipes):
        rows = [{"label": recipe, "recipe": recipe, "assigner": "kmeans"} for recipe in recipes]
        content = {"title": "own", "metrics": ["ACC"], "rows": rows}
        (tmp_path / "config" / "tables" / "own.yaml").write_text(yaml.safe_dump(content))

    table("dec")
    add.table = table
    return add


def test_names_that_results_could_not_be_found_under_are_refused(own):
    message = r"config/datasets/My-Data\.yaml: data set 'My-Data': names are of small .*; rename it, say to 'my_data'"
    with pytest.raises(ConfigError, match=message):
        Plan(own("My-Data", OWN))
    assert Plan(own("my_data", OWN)).runs.all()


def test_a_list_of_labelled_files_lies_below_the_data_root():
    with pytest.raises(ConfigError, match=r"labels\.list: '\.\./list\.txt' leaves the data root"):
        recipes.resolve("supervised", "digits", {"*": {"labels": {"list": "../list.txt"}}})
    assert recipes.resolve("supervised", "digits", {"*": {"labels": {"list": "a/list.txt"}}})


def test_networks_and_views_suit_the_data(own):
    own.table("simclr")
    with pytest.raises(
        ConfigError, match=r"'own': vectors of shape \[1, 4, 1\], but convnet sees images; set `family: vec"
    ):
        Plan(own("own", OWN | {"family": "digits"}))
    own.table("dec")
    flip = {"*": {"augmentation": {"flip": {"probability": 0.5}}}}
    with pytest.raises(
        ConfigError, match=r"vectors of shape \[1, 4, 1\], but augmentation 'flip' is for images; set `aug"
    ):
        Plan(own("own", OWN, overrides=flip))
    with pytest.raises(ConfigError, match=r"vectors of shape \[1, 4, 1\], but network.sobel is for images; set `netw"):
        Plan(own("own", OWN, overrides={"*": {"network": {"sobel": "mean"}}}))
    with pytest.raises(
        ConfigError, match=r"'own': photographs of shape \[32, 32, 3\], but mlp is for vectors and small"
    ):
        Plan(own("own", PHOTOGRAPHS | {"family": "vectors"}))
    own.table("simclr")
    assert Plan(own("own", PHOTOGRAPHS | {"family": "cifar"}, overrides={"*": {"batch_size": 64}})).runs.all()
    crop = {"*": {"batch_size": 64, "augmentation": {"preset": "moco_v2", "crop": {"size": 16}}}}
    with pytest.raises(
        ConfigError, match=r"augmentation\.crop\.size: image files are cut to the shape of the data set"
    ):
        Plan(own("own", PHOTOGRAPHS | {"family": "cifar"}, overrides=crop))
