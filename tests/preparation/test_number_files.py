"""Readers of files of numbers: own vectors, USPS, Pendigits, REUTERS."""

import gzip

import numpy as np
import pytest
from PIL import Image

from pipeline import catalogue
from preparation.prepared import DataError
from preparation.readers import read
from tests.preparation.own import LINES, X, Y, prepare, vectors


def test_own_vectors_in_every_form(tmp_path):
    np.savez(tmp_path / "x.npz", x=X, y=Y)
    np.save(tmp_path / "x.npy", np.column_stack([X, Y]))
    np.savetxt(tmp_path / "x.csv", np.column_stack([X, Y]), delimiter=",")
    for name in ("x.npz", "x.npy", "x.csv"):
        raw = read(vectors(files={"train": name}, scale=2.0), tmp_path, False)
        assert raw.images.shape == (4, 1, 3, 1)
        np.testing.assert_allclose(raw.images.reshape(4, 3), 2 * X, rtol=1e-6)
        assert raw.labels.tolist() == [0, 1, 0, 1]  # labels become 0, 1, ...
        assert raw.class_names == ["5", "9"]


def test_wrong_vectors_are_named(tmp_path):
    np.savez(tmp_path / "x.npz", a=X, y=Y)
    with pytest.raises(DataError, match=r"x.npz: arrays a, y found, x \[N, d\] and y \[N\] expected"):
        read(vectors(), tmp_path, False)
    np.savez(tmp_path / "x.npz", x=X[:, :2], y=Y)
    with pytest.raises(DataError, match=r"\[4, 2\] values and 4 labels found, \[N, 3\] and N expected"):
        read(vectors(), tmp_path, False)
    with pytest.raises(DataError, match=r"nowhere\.csv: not found; put the official file of Own there"):
        read(vectors(files={"train": "nowhere.csv"}), tmp_path, False)
    (tmp_path / "bad.csv").write_text("1,2,3,0\n1,2,0\n")
    with pytest.raises(DataError, match=r"bad.csv: line 2 has 3 values, line 1 has 4; all lines must"):
        read(vectors(files={"train": "bad.csv"}), tmp_path, False)
    (tmp_path / "bad.csv").write_text("1,x,3,0\n")
    with pytest.raises(DataError, match=r"bad.csv: line 1: 'x' is no number"):
        read(vectors(files={"train": "bad.csv"}), tmp_path, False)
    with pytest.raises(DataError, match="set BENCH_DATA_ROOT"):
        read(vectors(), None, False)


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

    from preparation.number_files import reuters_10k

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


PIXELS = np.random.default_rng(0).integers(0, 256, (4, 2, 3, 1), dtype=np.uint8)


def images(tmp_path, x, **more):
    np.savez(tmp_path / "x.npz", x=x, y=Y)
    return prepare(tmp_path, vectors(**{"shape": [2, 3, 1], **more})).images


def test_pixels_are_in_0_to_1_or_the_bytes_that_they_are(tmp_path):
    stored = images(tmp_path, PIXELS)
    assert stored.dtype == np.uint8
    np.testing.assert_array_equal(stored, PIXELS)
    for x in (PIXELS.reshape(4, 6).astype(np.float64), PIXELS.astype(np.int64)):
        with pytest.raises(DataError, match=r"own: pixels of \d+\..\d+ found, .* set `scale` in .*0.00392157 for"):
            images(tmp_path, x)
        np.testing.assert_allclose(images(tmp_path, x, scale=0.00392157), PIXELS / 255, atol=1e-5)
    with pytest.raises(DataError, match=r"pixels of -0.5..0.5 found"):
        images(tmp_path, np.linspace(-0.5, 0.5, 24).reshape(4, 6))
    for dark in (PIXELS // 16, PIXELS // 128):  # the old digits, a mask
        with pytest.raises(DataError, match=r"bytes of 0..\d+ found, but pixels in bytes are 0..255; set `scale`"):
            images(tmp_path, dark)
        assert images(tmp_path, dark, scale=1 / dark.max()).max() == pytest.approx(1)
    assert images(tmp_path, X * 100, shape=[1, 3, 1]).max() > 100  # vectors are free


def test_the_place_of_channels_is_not_guessed(tmp_path):
    colour, plain = np.random.default_rng(0).random((4, 2, 3, 3)), {"mean": [0] * 3, "std": [1] * 3}
    stored = images(tmp_path, colour, shape=[2, 3, 3], normalisation=plain)
    np.testing.assert_allclose(stored, colour, rtol=1e-6)
    with pytest.raises(DataError, match=r"\[4, 18\] values found, .* first or last; store them as \[N, 2, 3, 3\]"):
        images(tmp_path, colour.reshape(4, 18), shape=[2, 3, 3], normalisation=plain)
    with pytest.raises(DataError, match=r"values of type complex128 found, numbers expected"):
        images(tmp_path, PIXELS * 1j)


def test_damaged_files_are_one_line_with_the_cure(tmp_path):
    np.savez(tmp_path / "x.npz", x=X, y=Y)
    np.save(tmp_path / "x.npy", np.column_stack([X, Y]))
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(LINES.encode()))
    for name, asked in (("x.npz", "x.npz"), ("x.npy", "x.npy"), ("x.csv.gz", "x.csv")):
        content = (tmp_path / name).read_bytes()
        for damaged in (content[: len(content) // 2], content[:-9], b"", b"no such file", b"\x93NUMPY\x01"):
            (tmp_path / name).write_bytes(damaged)
            with pytest.raises(
                DataError, match=rf"{name}: (cannot be read as .*: copy or write|holds no rows)"
            ) as caught:
                read(vectors(files={"train": asked}), tmp_path, False)
            assert "\n" not in str(caught.value)
    np.save(tmp_path / "x.npy", np.arange(4.0))
    with pytest.raises(DataError, match=r"x\.npy: an array \[4\] found, \[N, d \+ 1\] expected, the label last"):
        read(vectors(files={"train": "x.npy"}), tmp_path, False)


def test_pickles_are_loaded_from_the_official_file_of_reuters_alone(tmp_path):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("code of a data file was run",))

    for name in ("x.npz", "x.npy"):
        content = np.array([Trap()] * 4, dtype=object)
        np.savez(tmp_path / name, x=X, y=content) if name == "x.npz" else np.save(tmp_path / name, content)
        with pytest.raises(DataError, match=rf"{name}: holds Python objects, which are never loaded"):
            read(vectors(files={"train": name}), tmp_path, False)
    own = {"source": "reuters", "files": {"train": "r.npy"}, "shape": [1, 4, 1], "splits": {"train": 8}}
    for content in (np.arange(8), np.array({"data": X}, dtype=object)):
        np.save(tmp_path / "r.npy", content, allow_pickle=True)
        with pytest.raises(DataError, match=r"r\.npy: a dictionary of `data` and `label` expected"):
            read(catalogue.entry("data set", "reuters10k") | own, tmp_path, False)
    (tmp_path / "r.npy").write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"r\.npy: cannot be read as a \.npy file"):
        read(catalogue.entry("data set", "reuters10k") | own, tmp_path, False)


@pytest.mark.parametrize("broken", ["numpy.load", "pathlib.Path.is_file", "PIL.Image.open", "os.listdir"])
def test_what_may_not_be_read_is_named_with_the_cure(tmp_path, monkeypatch, broken):
    """Whoever runs tests as root may read everything: the right is taken away by hand."""
    np.savez(tmp_path / "x.npz", x=X, y=Y)
    spec, name = vectors(), "x.npz"
    if broken in ("PIL.Image.open", "os.listdir"):
        (tmp_path / "own" / "train" / "a").mkdir(parents=True)
        Image.new("RGB", (4, 4)).save(tmp_path / "own" / "train" / "a" / "x.png")
        spec |= {"source": "folder", "folder": "own", "shape": [4, 4, 3], "splits": {"train": 1}, "classes": 1}
        name = "train/a/x.png" if broken == "PIL.Image.open" else "own/train"

    def refuse(path, *_, **__):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(broken, refuse)
    with pytest.raises(DataError, match=rf"/{name}: Permission denied; see that .* you have the right to read it"):
        read(spec, tmp_path, False)
