import gzip
import hashlib
import json

import numpy as np
import pytest
import torchvision.datasets

from preparation import catalogue
from preparation.prepared import DataError, open_prepared, write_prepared
from preparation.readers import read
from rules.record import Record

RECORD = Record("prepare", ("preparation.prepare",), {}, {})


def test_digits_split_is_fixed_and_stratified():
    spec = catalogue.entry("data set", "digits")
    raw, again = read(spec, None, False), read(spec, None, False)
    np.testing.assert_array_equal(raw.images, again.images)
    assert raw.images.shape == (1797, 8, 8, 1)
    assert raw.images.dtype == np.uint8
    assert raw.images.max() == 255
    train, test = np.bincount(raw.labels[:1437]), np.bincount(raw.labels[1437:])
    assert np.abs(train / 1437 - test / 360).max() < 0.002
    assert sorted(raw.notes["source_rows"]) == list(range(1797))


def test_subset_is_stratified():
    raw = read(catalogue.entry("data set", "digits_200"), None, False)
    assert raw.splits == {"train": 160, "test": 40}
    assert np.bincount(raw.labels[:160]).tolist() == [16] * 10


@pytest.fixture
def mnist_files(tmp_path, monkeypatch):
    """Small files in MNIST's official format, with the md5 sums that torchvision checks set to theirs."""
    folder = tmp_path / "MNIST" / "raw"
    folder.mkdir(parents=True)
    generator = np.random.default_rng(0)
    arrays, resources = {}, []
    for name, count in (("train", 30), ("t10k", 20)):
        arrays[name] = (
            generator.integers(0, 256, (count, 28, 28), dtype=np.uint8),
            np.arange(count, dtype=np.uint8) % 10,
        )
        for kind, array, magic in (("images-idx3", arrays[name][0], 2051), ("labels-idx1", arrays[name][1], 2049)):
            head = b"".join(int(v).to_bytes(4, "big") for v in (magic, *array.shape))
            content = gzip.compress(head + array.tobytes())
            file = f"{name}-{kind}-ubyte.gz"
            (folder / file).write_bytes(content)
            resources.append((file, hashlib.md5(content).hexdigest()))
    monkeypatch.setattr(torchvision.datasets.MNIST, "resources", resources)
    return tmp_path, arrays


def spec(**splits):
    return catalogue.entry("data set", "mnist") | {"splits": splits}


def test_mnist_from_official_archives(mnist_files):
    root, arrays = mnist_files
    raw = read(spec(train=30, test=20), root, False)
    np.testing.assert_array_equal(raw.images[:30, :, :, 0], arrays["train"][0])
    np.testing.assert_array_equal(raw.labels[30:], arrays["t10k"][1])
    only_test = read(spec(test=20), root, False)
    assert only_test.splits == {"test": 20}


def test_damaged_archive_and_missing_folder_are_named(mnist_files, tmp_path, monkeypatch):
    root, _ = mnist_files
    file = root / "MNIST" / "raw" / "train-images-idx3-ubyte.gz"
    file.write_bytes(file.read_bytes()[:-3] + b"abc")
    monkeypatch.setattr(torchvision.datasets.MNIST, "mirrors", [])
    with pytest.raises(DataError, match="found no usable files"):
        read(spec(train=30, test=20), root, False)
    with pytest.raises(DataError, match="put the official files into"):
        read(spec(train=30, test=20), tmp_path / "nowhere", False)
    with pytest.raises(DataError, match="set BENCH_DATA_ROOT"):
        read(spec(train=30, test=20), None, False)


IMAGES = np.zeros((6, 2, 2, 1), dtype=np.uint8)
LABELS = np.array([0, 1, 0, 1, 0, 1])
SMALL = {
    "classes": 2,
    "shape": [2, 2, 1],
    "splits": {"train": 4, "test": 2},
    "normalisation": {"mean": [0], "std": [1]},
}


def write(folder, images=IMAGES, labels=LABELS, splits=None, spec_splits=None):
    return write_prepared(
        folder,
        "small",
        SMALL | ({"splits": spec_splits} if spec_splits else {}),
        images,
        labels,
        splits or SMALL["splits"],
        "made",
        RECORD,
    )


def test_prepared_round_trip(tmp_path):
    card = write(tmp_path)
    data = open_prepared(tmp_path)
    np.testing.assert_array_equal(data.images, IMAGES)
    assert isinstance(data.images, np.memmap)
    assert data.rows(["test"]).tolist() == [4, 5]
    assert data.rows(["test", "train"]).tolist() == [4, 5, 0, 1, 2, 3]
    assert data.rows(["all"]).tolist() == list(range(6))
    assert card["counts"] == {"train": [2, 2], "test": [1, 1]}
    assert json.loads((tmp_path / "card.json").read_text()) == card
    assert not list(tmp_path.glob(".*.part"))


def test_unlabelled_rows_are_counted_apart(tmp_path):
    labels = np.array([0, 1, 0, 1, -1, -1])
    splits = {"train": 4, "unlabeled": 2}
    card = write(tmp_path, labels=labels, splits=splits, spec_splits=splits)
    assert card["counts"]["unlabeled"] == [0, 0]
    assert open_prepared(tmp_path).rows(["all"]).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"images": IMAGES.astype(float)}, "must be uint8"),
        ({"images": np.zeros((6, 3, 2, 1), np.uint8)}, r"\[3, 2, 1\] found"),
        ({"labels": np.zeros(6, int)}, r"labels \[0\] found, expected exactly 0..1; an image folder"),
        ({"labels": np.array([0, 2, 0, 2, 0, 2])}, "expected exactly 0..1"),
        ({"splits": {"train": 5, "test": 1}}, "splits .* found"),
        ({"labels": LABELS[:5]}, "6 images, 5 labels"),
    ],
)
def test_what_does_not_fit_its_description_is_refused(tmp_path, changes, message):
    with pytest.raises(DataError, match=message):
        write(tmp_path, **changes)
    assert not (tmp_path / "card.json").exists()


def test_damage_and_unknown_splits_are_named(tmp_path):
    write(tmp_path)
    with pytest.raises(DataError, match="has no split 'valid'; it has train, test"):
        open_prepared(tmp_path).rows(["valid"])
    (tmp_path / "labels.npy").write_bytes(b"")
    with pytest.raises(DataError, match=r"labels\.npy: sha256 .* expected by card.json"):
        open_prepared(tmp_path)
    (tmp_path / "images.npy").unlink()
    with pytest.raises(DataError, match=r"images\.npy: not found"):
        open_prepared(tmp_path)
