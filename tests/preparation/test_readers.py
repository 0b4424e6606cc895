import gzip
import hashlib
import json
import sys

import numpy as np
import pytest
import torchvision.datasets

from pipeline import catalogue
from pipeline.data_files import DataFiles, Sources
from pipeline.record import Damaged, Record, read_json
from preparation import prepare
from preparation.prepared import DataError, open_prepared, write_prepared
from preparation.readers import read

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


def test_archives_that_are_unpacked_in_preparing_are_no_other_data_afterwards(mnist_files, tmp_path, monkeypatch):
    """torchvision unpacks them beside themselves: the next run must find the files that this one recorded."""
    root, _ = mnist_files
    given = spec(train=30, test=20)
    words = [
        "prepare",
        "--dataset",
        json.dumps({"name": "mnist", **given}),
        "--out",
        str(tmp_path / "results/data/mnist"),
    ]
    monkeypatch.setattr(sys, "argv", [*words, "--data-root", str(root)])
    before = DataFiles(root).hash(given)
    prepare.main()
    found = Sources(DataFiles(root), str(tmp_path / "results"))
    monkeypatch.setattr(catalogue, "entry", lambda kind, name: given)
    assert DataFiles(root).hash(given) != before  # they were unpacked
    assert found.of_dataset("mnist") == before  # as the record has it


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
    assert read_json(tmp_path / "card.json") == card
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
        ({"labels": np.array([0, 1, 0.5, 1, 0, 1])}, "labels of type float64 found, whole numbers expected"),
        ({"labels": np.array([0, 1, -2, 1, 0, 1])}, r"label -2 in row 2 \(counted from 0\); 0..1, or -1 for none"),
        (
            {"labels": np.array([0, 1, 0, 1, -1, 1])},
            "1 rows of split 'test' have no label .*, first row 0 of the split",
        ),
        ({"images": np.full((6, 2, 2, 1), 1.01, np.float32)}, r"pixels of 1.01..1.01 found, .* float32 are in 0..1"),
        ({"images": np.full((6, 2, 2, 1), -0.1, np.float32)}, "pixels of -0.1..-0.1 found"),
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
    labels, images = (tmp_path / f"{name}.npy" for name in ("labels", "images"))
    written = labels.read_bytes()
    labels.write_bytes(written[:-1] + bytes([written[-1] ^ 1]))
    with pytest.raises(Damaged, match=r"labels\.npy: sha256 .* expected by card.json"):
        open_prepared(tmp_path)
    labels.write_bytes(written)
    data, written = open_prepared(tmp_path), images.read_bytes()
    images.write_bytes(written[:-1] + bytes([written[-1] ^ 1]))
    with pytest.raises(Damaged, match=r"images\.npy: sha256 .* expected by card.json"):
        data.images  # noqa: B018 - that it is asked for is what is tested
    (tmp_path / "images.npy").unlink()
    with pytest.raises(DataError, match=r"images\.npy: not found"):
        open_prepared(tmp_path)


def test_splits_can_be_cut_anew(mnist_files):
    root, arrays = mnist_files
    given = spec(fit=35, holdout=15) | {"official": {"train": 30, "test": 20}}
    raw = read(given, root, False)
    assert raw.splits == {"fit": 35, "holdout": 15}
    np.testing.assert_array_equal(raw.images[30:, :, :, 0], arrays["t10k"][0])


@pytest.fixture
def cifar_files(tmp_path, monkeypatch):
    """Small files in CIFAR-100's official format, with the md5 sums that torchvision checks set to theirs."""
    import pickle

    folder = tmp_path / "cifar-100-python"
    folder.mkdir()
    generator, sums = np.random.default_rng(0), {}
    coarse = np.arange(100) // 5
    for split in ("train", "test"):
        content = {
            "data": generator.integers(0, 256, (100, 3072), dtype=np.uint8),
            "fine_labels": list(range(100)),
            "coarse_labels": coarse.tolist(),
        }
        (folder / split).write_bytes(pickle.dumps(content))
        sums[split] = hashlib.md5((folder / split).read_bytes()).hexdigest()
    (folder / "meta").write_bytes(pickle.dumps({"fine_label_names": [str(i) for i in range(100)]}))
    kind = torchvision.datasets.CIFAR100
    monkeypatch.setattr(kind, "train_list", [["train", sums["train"]]])
    monkeypatch.setattr(kind, "test_list", [["test", sums["test"]]])
    meta = hashlib.md5((folder / "meta").read_bytes()).hexdigest()
    monkeypatch.setattr(kind, "meta", {"filename": "meta", "key": "fine_label_names", "md5": meta})
    return tmp_path


def test_cifar_with_its_superclasses(cifar_files):
    given = catalogue.entry("data set", "cifar100_20") | {"splits": {"train": 100, "test": 100}}
    raw = read(given, cifar_files, False)
    assert raw.images.shape == (200, 32, 32, 3)
    assert raw.labels[:100].tolist() == [i // 5 for i in range(100)]
    fine = read(given | {"coarse": False}, cifar_files, False)
    assert fine.labels[:100].tolist() == list(range(100))


def test_stl10_with_unlabelled_images(tmp_path, monkeypatch):
    folder = tmp_path / "stl10_binary"
    folder.mkdir()
    generator = np.random.default_rng(0)
    images = {part: generator.integers(0, 256, (count, 3, 96, 96), dtype=np.uint8)
              for part, count in (("train", 4), ("test", 3), ("unlabeled", 2))}  # fmt: skip
    for part, array in images.items():
        (folder / f"{part}_X.bin").write_bytes(array.transpose(0, 1, 3, 2).tobytes())
    (folder / "train_y.bin").write_bytes(bytes([1, 2, 10, 4]))
    (folder / "test_y.bin").write_bytes(bytes([3, 5, 1]))
    (folder / "class_names.txt").write_text("\n".join("abcdefghij"))
    monkeypatch.setattr(torchvision.datasets.STL10, "_check_integrity", lambda self: True)
    given = catalogue.entry("data set", "stl10") | {"splits": {"train": 4, "test": 3, "unlabeled": 2}}
    raw = read(given, tmp_path, False)
    assert raw.labels.tolist() == [0, 1, 9, 3, 2, 4, 0, -1, -1]
    np.testing.assert_array_equal(raw.images[4], images["test"][0].transpose(1, 2, 0))


def test_float_images_are_kept_and_must_be_finite(tmp_path):
    x = np.linspace(0, 1, 24, dtype=np.float32).reshape(6, 2, 2, 1)
    write(tmp_path / "a", images=x)
    data = open_prepared(tmp_path / "a")
    np.testing.assert_array_equal(data.vectors(np.array([1, 2])), x[1:3].reshape(2, 4))
    write(tmp_path / "b", images=(x * 255).astype(np.uint8))
    assert open_prepared(tmp_path / "b").vectors(np.arange(6)).max() == 1
    x[2, 0, 0, 0] = np.nan
    with pytest.raises(DataError, match="NaN or infinity in 1 rows, first in row 2"):
        write(tmp_path / "c", images=x)


def test_rows_do_not_depend_on_the_order_of_keys(mnist_files):
    root, arrays = mnist_files
    for splits in ({"train": 30, "test": 20}, {"test": 20, "train": 30}):
        raw = read(spec(**splits), root, False)
        assert list(raw.splits) == ["train", "test"]
        np.testing.assert_array_equal(raw.images[:30, :, :, 0], arrays["train"][0])
    sorted_keys = spec(fit=35, holdout=15) | {"official": {"test": 20, "train": 30}}
    np.testing.assert_array_equal(read(sorted_keys, root, False).images, raw.images)
