"""Folders of image files: one list of classes for all splits, differences refused by name."""

import json
import sys

import numpy as np
import pytest
from PIL import Image

from pipeline.record import Record
from preparation.prepare import main
from preparation.prepared import DataError, open_prepared, write_prepared
from preparation.readers import read


def lay(root, **splits):
    """root/made/{split}/{class}/{0, 1}.png, and what config/datasets would say of it."""
    for split, classes in splits.items():
        for name in classes:
            folder = root / "made" / split / name
            folder.mkdir(parents=True)
            for i in range(2):
                Image.new("RGB", (10, 8), (ord(name), i, 0)).save(folder / f"{i}.png")
    return {
        "title": "made", "source": "folder", "folder": "made", "classes": 3, "shape": [8, 8, 3],
        "splits": {split: 2 * len(classes) for split, classes in splits.items()},
        "normalisation": {"mean": [0.5] * 3, "std": [0.25] * 3},
    }  # fmt: skip


def prepare(root, spec):
    raw = read(spec, root, False)
    record = Record("prepare", ("preparation.prepare",), {}, {})
    write_prepared(root / "out", "made", spec, raw.images, raw.labels, raw.splits, raw.source, record, raw.notes,
                   raw.root, raw.class_names)  # fmt: skip
    return open_prepared(root / "out")


def test_a_label_means_the_same_class_in_every_split_and_the_card_says_which(tmp_path):
    data = prepare(tmp_path, lay(tmp_path, train="cab", test="bca"))
    assert data.card["class_names"] == ["a", "b", "c"]
    for path, label in zip(data.images, data.labels, strict=True):
        assert path.split("/")[1] == data.card["class_names"][label]
    assert data.card["notes"]["orientation"].startswith("as the EXIF tag says")
    assert data.card["notes"]["transparency"] == "shown on white"


def test_the_stage_writes_the_names_of_the_classes(tmp_path, monkeypatch):
    spec = {"name": "made", "family": "cifar", **lay(tmp_path, train="cab", test="bca")}
    words = ["--dataset", json.dumps(spec), "--data-root", str(tmp_path), "--out", str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", ["prepare", *words])
    main()
    assert open_prepared(tmp_path / "out").card["class_names"] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        ({"train": "abc", "test": "bcd"}, "train: split 'train' has no folder of class 'd', which split 'test' has"),
        ({"train": "abc", "test": "bc"}, "test: split 'test' has no folder of class 'a', which split 'train' has;"),
        ({"train": "c", "test": "abc"}, r"split 'train' has no folder of class 'a', .* \(nor of 1 more\); every split"),
        ({"train": "abcd", "test": "abcd"}, r"made: 4 class folders found \(a, b, c, ...\), 3 expected"),
    ],
)
def test_splits_of_other_classes_are_refused_by_class_and_split(tmp_path, splits, message):
    with pytest.raises(DataError, match=message):
        read(lay(tmp_path, **splits), tmp_path, False)


def test_a_class_list_selects_from_splits_that_differ_but_each_must_hold_all_of_it(tmp_path):
    spec = lay(tmp_path, train="abcd", test="bcde") | {"class_list": "list.txt", "splits": {"train": 6, "test": 6}}
    (tmp_path / "list.txt").write_bytes(b"\xef\xbb\xbfd words\nb\n\nc\n")
    data = prepare(tmp_path, spec)
    assert data.card["class_names"] == ["d", "b", "c"]
    assert [path.split("/")[1] for path in data.images[::2]] == ["d", "b", "c"] * 2
    for text, message in [
        ("a\nb\nc\n", "test: split 'test' has no folder of class 'a', which split 'train' has"),
        ("b\nc\nz\n", "train: split 'train' has no folder of class 'z', which the class list names"),
        ("b\nc\nb\n", r"list\.txt: class 'b' stands twice"),
        ("../train/b\nb\nc\n", r"list\.txt: class '../train/b' is no name of a folder"),
        ("\n", r"list\.txt: names no class"),
    ]:
        (tmp_path / "list.txt").write_text(text)
        with pytest.raises(DataError, match=message):
            read(spec, tmp_path, False)
    (tmp_path / "list.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match=r"list\.txt: cannot be read"):
        read(spec, tmp_path, False)


def test_files_that_could_not_be_used_are_named_at_once(tmp_path):
    spec = lay(tmp_path, train="abc", test="abc")
    train = tmp_path / "made" / "train"
    (train / "d").symlink_to("nowhere")
    with pytest.raises(DataError, match="train/d: a link to what does not exist"):
        read(spec, tmp_path, False)
    (train / "d").unlink()
    (train / "b" / "1.png").unlink()
    (train / "b" / "1.png").symlink_to("nowhere.png")
    with pytest.raises(DataError, match=r"train/b/1\.png: a link to what does not exist"):
        read(spec, tmp_path, False)
    (train / "b" / "1.png").unlink()
    Image.fromarray(np.zeros((4, 4), np.float32)).save(train / "b" / "1.tif")
    with pytest.raises(DataError, match=r"train/b/1\.tif: pixels of mode F"):
        read(spec, tmp_path, False)
    (train / "b" / "1.tif").unlink()
    (train / "b" / "0.png").unlink()
    with pytest.raises(DataError, match=r"train: Found no valid file for the classes b.*; put the files of the class"):
        read(spec, tmp_path, False)


def test_a_subset_of_files_keeps_what_they_are(tmp_path):
    spec = lay(tmp_path, train="abc", test="abc") | {"subset": 10, "splits": {"train": 5, "test": 5}}
    data = prepare(tmp_path, spec)
    assert data.card["class_names"] == ["a", "b", "c"]
    assert len(data.images) == 10
    assert all((data.root / path).is_file() for path in data.images)
    with pytest.raises(DataError, match="subset: 20 rows of files under made, which has 12 rows"):
        read(spec | {"subset": 20}, tmp_path, False)
