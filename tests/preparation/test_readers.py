import gzip
import hashlib
import json

import numpy as np
import pytest
import torchvision.datasets

from pipeline import catalogue
from pipeline.record import Record
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


def vectors(tmp_path, **more):
    return {
        "title": "Own", "source": "vectors", "files": {"train": "x.npz"}, "classes": 2, "shape": [1, 3, 1],
        "splits": {"train": 4}, "normalisation": {"mean": [0], "std": [1]}, **more,
    }  # fmt: skip


X = np.arange(12, dtype=np.float64).reshape(4, 3) / 7
Y = np.array([5, 9, 5, 9])


def test_own_vectors_in_every_form(tmp_path):
    np.savez(tmp_path / "x.npz", x=X, y=Y)
    np.save(tmp_path / "x.npy", np.column_stack([X, Y]))
    np.savetxt(tmp_path / "x.csv", np.column_stack([X, Y]), delimiter=",")
    for name in ("x.npz", "x.npy", "x.csv"):
        raw = read(vectors(tmp_path, files={"train": name}, scale=2.0), tmp_path, False)
        assert raw.images.shape == (4, 1, 3, 1)
        np.testing.assert_allclose(raw.images.reshape(4, 3), 2 * X, rtol=1e-6)
        assert raw.labels.tolist() == [0, 1, 0, 1]  # labels become 0, 1, ...
        assert [float(label) for label in raw.notes["labels"]] == [5, 9]


def test_wrong_vectors_are_named(tmp_path):
    np.savez(tmp_path / "x.npz", a=X, y=Y)
    with pytest.raises(DataError, match=r"x.npz: arrays a, y found, x \[N, d\] and y \[N\] expected"):
        read(vectors(tmp_path), tmp_path, False)
    np.savez(tmp_path / "x.npz", x=X[:, :2], y=Y)
    with pytest.raises(DataError, match=r"\[4, 2\] values and 4 labels found, \[N, 3\] and N expected"):
        read(vectors(tmp_path), tmp_path, False)
    with pytest.raises(DataError, match=r"nowhere\.csv: not found; put the official file of Own there"):
        read(vectors(tmp_path, files={"train": "nowhere.csv"}), tmp_path, False)
    (tmp_path / "bad.csv").write_text("1,2,3,0\n1,2,0\n")
    with pytest.raises(DataError, match=r"lines of \[3, 4\] numbers found"):
        read(vectors(tmp_path, files={"train": "bad.csv"}), tmp_path, False)
    (tmp_path / "bad.csv").write_text("1,x,3,0\n")
    with pytest.raises(DataError, match="not a table of numbers"):
        read(vectors(tmp_path, files={"train": "bad.csv"}), tmp_path, False)
    with pytest.raises(DataError, match="set BENCH_DATA_ROOT"):
        read(vectors(tmp_path), None, False)


@pytest.mark.parametrize("packed", [False, True])
def test_usps_in_decs_files(tmp_path, packed):
    generator = np.random.default_rng(0)
    (tmp_path / "usps").mkdir()
    values, labels = {}, {}
    for split, count in (("train", 12), ("test", 6)):
        values[split], labels[split] = np.round(generator.random((count, 256)) * 2, 3), np.arange(count) % 10
        lines = [f"{label} " + " ".join(map(str, row)) for label, row in zip(labels[split], values[split], strict=True)]
        text = "10 256\n" + "\n".join(lines) + "\n-1\n"
        path = tmp_path / "usps" / f"usps_{split}.jf"
        if packed:
            with gzip.open(f"{path}.gz", "wt") as file:
                file.write(text)
        else:
            path.write_text(text)
    raw = read(catalogue.entry("data set", "usps"), tmp_path, False)
    np.testing.assert_allclose(raw.images.reshape(18, 256)[:12], values["train"] / 2, atol=1e-6)  # 0..2 to 0..1
    assert raw.images.dtype == np.float32
    assert raw.labels.tolist() == [*labels["train"], *labels["test"]]
    assert raw.splits == {"train": 12, "test": 6}


def test_pendigits_in_ucis_files(tmp_path):
    (tmp_path / "pendigits").mkdir()
    for ending in ("tra", "tes"):
        rows = "\n".join(f"{', '.join(str(10 * i % 101) for i in range(k, k + 16))}, {k}" for k in range(10))
        (tmp_path / "pendigits" / f"pendigits.{ending}").write_text(rows + "\n")
    raw = read(catalogue.entry("data set", "pendigits"), tmp_path, False)
    assert raw.images.shape == (20, 1, 16, 1)
    assert raw.images.max() == pytest.approx(1.0)
    assert raw.labels.tolist() == [*range(10), *range(10)]


def test_reuters_in_decs_file_and_from_rcv1(tmp_path):
    import scipy.sparse
    from sklearn.utils import Bunch

    from preparation.readers import reuters_10k

    data = np.random.default_rng(0).random((8, 4))
    np.save(tmp_path / "r.npy", {"data": data, "label": np.arange(8) % 4}, allow_pickle=True)
    own = {"source": "reuters", "files": {"train": "r.npy"}, "shape": [1, 4, 1], "splits": {"train": 8}}
    raw = read(catalogue.entry("data set", "reuters10k") | own, tmp_path, False)
    np.testing.assert_allclose(raw.images.reshape(8, 4), data * 2, rtol=1e-6)  # times the root of the width
    with pytest.raises(DataError, match="not found"):
        read(catalogue.entry("data set", "reuters10k") | own, tmp_path / "none", False)
    names = ["C11", "CCAT", "ECAT", "GCAT", "MCAT"]
    member = np.array([[1, 1, 0, 0, 0], [0, 1, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1], [0, 0, 1, 0, 0]])
    terms = np.array([[1, 0, 2, 0], [1, 1, 1, 1], [3, 0, 4, 9], [0, 0, 5, 0], [1, 0, 1, 0]], dtype=float)
    rcv1 = Bunch(data=scipy.sparse.csr_matrix(terms), target=scipy.sparse.csr_matrix(member), target_names=names)
    x, y = reuters_10k(rcv1, width=2, rows=3)
    assert y.tolist() == [0, 2, 3]  # row 1 has two roots
    np.testing.assert_allclose(x[1], np.array([3, 4]) / 5 * np.sqrt(2))  # terms 0 and 2 are the most frequent


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
    with pytest.raises(DataError, match="NaN or infinity in 1 rows"):
        write(tmp_path / "c", images=x)


def test_rows_do_not_depend_on_the_order_of_keys(mnist_files):
    root, arrays = mnist_files
    for splits in ({"train": 30, "test": 20}, {"test": 20, "train": 30}):
        raw = read(spec(**splits), root, False)
        assert list(raw.splits) == ["train", "test"]
        np.testing.assert_array_equal(raw.images[:30, :, :, 0], arrays["train"][0])
    sorted_keys = spec(fit=35, holdout=15) | {"official": {"test": 20, "train": 30}}
    np.testing.assert_array_equal(read(sorted_keys, root, False).images, raw.images)
