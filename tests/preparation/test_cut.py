"""A test split cut by hash, image files without classes or decoded once, columns by name, standardised columns."""

import hashlib

import numpy as np
import pytest
from PIL import Image

from pipeline.data_files import DataFiles
from pipeline.data_set import check_data_set, placed_splits, stays_files
from pipeline.naming import ConfigError
from preparation.cut import cut
from preparation.decoding import fitted
from preparation.prepared import DataError, Raw
from preparation.readers import read
from tests.preparation.own import X, prepare, vectors

FOLDER = {"title": "Own", "source": "folder", "folder": "birds", "classes": 2, "shape": [4, 6, 3],
          "normalisation": {"mean": [0.5] * 3, "std": [0.2] * 3}}  # fmt: skip


def is_test(name, share):
    return int(hashlib.sha256(name.encode()).hexdigest()[:16], 16) / 2**64 < share


def table(tmp_path, rows, **more):
    x = np.arange(rows * 3, dtype=np.float64).reshape(rows, 3)
    np.savez(tmp_path / "x.npz", x=x, y=np.arange(rows) % 2)
    test = [row for row in range(rows) if is_test(str(row), 0.3)]
    splits = {"train": rows - len(test), "test": len(test)}
    return vectors(splits=splits, test_share=0.3, **more), test


def test_rows_are_cut_by_the_hash_of_their_number(tmp_path):
    spec, test = table(tmp_path, 40)
    data = prepare(tmp_path, spec)
    train = [row for row in range(40) if row not in test]
    np.testing.assert_array_equal(data.images[:, 0, 0, 0], 3.0 * np.array(train + test))
    assert data.labels.tolist() == [row % 2 for row in train + test]
    assert data.card["notes"]["source_rows"] == train + test
    assert "SHA-256 of the row number below share 0.3" in data.card["notes"]["split"]


def test_rows_that_are_added_move_no_other(tmp_path):
    few, many = (table(tmp_path, rows)[1] for rows in (40, 90))
    assert [row for row in many if row < 40] == few


def test_files_are_cut_by_the_hash_of_their_path(tmp_path):
    names = [f"{kind}/{number:02}.png" for kind in ("crow", "owl") for number in range(20)]
    for place, name in enumerate(names):
        picture(tmp_path / "birds" / name, (4, 6), place)
    test = [name for name in names if is_test(name, 0.3)]
    spec = FOLDER | {"splits": {"train": 40 - len(test), "test": len(test)}, "test_share": 0.3,
                     "split_folders": {"train": "."}}  # fmt: skip
    raw = read(spec, tmp_path, False)
    assert raw.images.tolist() == [name for name in names if name not in test] + test
    assert raw.labels.tolist() == [int(name.startswith("owl")) for name in raw.images]
    assert raw.class_names == ["crow", "owl"]
    before = DataFiles(tmp_path).hash(spec)
    (tmp_path / "birds" / "owl" / "03.png").unlink()
    assert DataFiles(tmp_path).hash(spec) not in (before, "missing")


def test_rows_without_label_and_splits_with_files_of_their_own(tmp_path):
    raw = Raw(np.arange(12), np.array([0, -1, 1] * 3 + [-1] * 3), {"train": 9, "unlabeled": 3}, "x", {})
    test = [row for row in range(9) if is_test(str(row), 0.5)]
    found = cut(raw, {"splits": {"train": 0, "test": 0, "unlabeled": 0}, "test_share": 0.5})
    train = [row for row in range(9) if row not in test]
    assert found.images.tolist() == [*train, *test, 9, 10, 11]
    alone = raw._replace(images=raw.images[:9], labels=raw.labels[:9], splits={"train": 9})
    found = cut(alone, {"splits": {"train": 0, "test": 0, "unlabeled": 0}, "test_share": 0.5})
    assert found.images[-3:].tolist() == [1, 4, 7]
    assert found.labels[-3:].tolist() == [-1] * 3
    with pytest.raises(DataError, match=r"a test share of 1e-09 leaves no row of 9 to split 'test'; add rows"):
        cut(alone, {"splits": {"train": 9, "test": 0}, "test_share": 1e-9})


def picture(path, size, value, mode="RGB"):
    path.parent.mkdir(parents=True, exist_ok=True)
    colour = value if mode == "L" else (value, 2 * value, 0)
    Image.new(mode, size[::-1], colour).save(path)


def test_image_files_without_classes_lie_in_any_folders(tmp_path):
    for name in ("b.png", "a/z.png", "a/deep/y.png", ".hidden/x.png", "a/.thumb.png", "__MACOSX/w.png"):
        picture(tmp_path / "birds" / name, (4, 6), 3)
    (tmp_path / "birds" / "notes.txt").write_text("not an image")
    spec = FOLDER | {"splits": {"unlabeled": 3}, "split_folders": {"unlabeled": "."}}
    raw = read(spec, tmp_path, False)
    assert raw.images.tolist() == ["a/deep/y.png", "a/z.png", "b.png"]
    assert (raw.labels.tolist(), raw.class_names, raw.splits) == ([-1] * 3, None, {"unlabeled": 3})
    (tmp_path / "birds" / "b.png").write_text("no image")
    with pytest.raises(DataError, match=r"b\.png: cannot be decoded"):
        read(spec, tmp_path, False)


def test_files_are_decoded_once(tmp_path):
    """In order, and those of another size cut to the shape's aspect from the middle."""
    for number, (name, size) in enumerate([("crow/a", (4, 6)), ("crow/b", (8, 12)), ("owl/c", (9, 9))], 1):
        picture(tmp_path / "birds" / "train" / f"{name}.png", size, 10 * number)
    spec = FOLDER | {"splits": {"train": 3}, "decode": True}
    data = prepare(tmp_path, spec)
    assert (data.images.dtype, data.images.shape, data.root) == (np.uint8, (3, 4, 6, 3), None)
    for row in range(3):
        assert (data.images[row] == [10 * (row + 1), 20 * (row + 1), 0]).all()
    assert data.card["notes"]["files"] == ["train/crow/a.png", "train/crow/b.png", "train/owl/c.png"]
    assert not stays_files(spec)
    assert stays_files({**spec, "decode": False})
    pixels = np.zeros((9, 9, 3), np.uint8)
    pixels[:1], pixels[-1:] = 255, 255  # what a box of 6 x 9 in the middle leaves out
    Image.fromarray(pixels).save(tmp_path / "box.png")
    assert fitted(tmp_path / "box.png", (4, 6, 3)).max() == 0
    picture(tmp_path / "grey.png", (8, 8), 7, "L")
    assert (fitted(tmp_path / "grey.png", (4, 6, 1)) == 7).all()


@pytest.mark.parametrize("how", [{"label": "kind"}, {"label": 1}, {"label": -3}])
def test_columns_by_name_or_number(tmp_path, how):
    (tmp_path / "x.csv").write_text("n;kind;a;b\n0;owl;1.5;2\n1;crow;3;4\n2;owl;5;6\n")
    spec = vectors(
        files={"train": "x.csv"}, splits={"train": 3}, shape=[1, 2, 1], header=True, delimiter=";", drop=["n"]
    )
    data = prepare(tmp_path, spec | how)
    np.testing.assert_array_equal(data.images.reshape(3, 2), [[1.5, 2], [3, 4], [5, 6]])
    assert (data.labels.tolist(), data.card["class_names"]) == ([1, 0, 1], ["crow", "owl"])


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"label": "knd"}, r"x\.csv: no column 'knd'; did you mean 'kind'"),
        ({"label": "kind", "header": False}, "no header, so no column 'kind'; give its number from 0"),
        ({"label": 4}, "no column 4, the lines have 4 values; count from 0"),
        ({"label": "kind", "drop": ["m"]}, "no column 'm'"),
    ],
)
def test_columns_that_are_not_there(tmp_path, keys, message):
    (tmp_path / "x.csv").write_text("n,kind,a,b\n0,owl,1,2\n1,crow,3,4\n")
    with pytest.raises(DataError, match=message):
        read(vectors(files={"train": "x.csv"}, header=True) | keys, tmp_path, False)


def test_the_label_of_an_array_may_be_any_column(tmp_path):
    np.save(tmp_path / "x.npy", np.column_stack([[7, 8, 7, 8], X, [0, 1, 2, 3]]))
    data = prepare(tmp_path, vectors(files={"train": "x.npy"}, label=0, drop=[4]))
    np.testing.assert_allclose(data.images.reshape(4, 3), X, rtol=1e-6)
    assert data.labels.tolist() == [0, 1, 0, 1]


def test_columns_are_standardised(tmp_path):
    np.savez(tmp_path / "x.npz", x=X, y=np.array([0, 1, 0, 1]))
    spec = vectors(standardise={"mean": [1, 2, 3], "std": [1, 2, 4]})
    np.testing.assert_allclose(prepare(tmp_path, spec).images.reshape(4, 3), (X - [1, 2, 3]) / [1, 2, 4], rtol=1e-5)
    with pytest.raises(ConfigError, match=r"standardise\.std: 2 values for shape"):
        check_data_set(spec | {"standardise": {"mean": [1, 2, 3], "std": [1, 2]}}, "own.yaml")


def test_grey_images_in_an_array_without_an_axis_of_channels(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (4, 5, 6), dtype=np.uint8)
    np.savez(tmp_path / "x.npz", x=pixels, y=np.array([0, 1, 0, 1]))
    np.testing.assert_array_equal(prepare(tmp_path, vectors(shape=[5, 6, 1])).images[..., 0], pixels)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"splits": {"train": 4}}, "test_share cuts splits train and test; `splits` has no 'test'"),
        ({"files": {"train": "a.npz", "test": "b.npz"}}, "files: a place for split 'test', which test_share cuts"),
        ({"source": "jf"}, "test_share is for sources folder, csv, vectors"),
        ({"test_share": None, "decode": True}, "decode is for source folder"),
    ],
)
def test_keys_that_exclude_each_other(keys, message):
    spec = vectors(splits={"train": 4, "test": 2}, test_share=0.3) | keys
    spec = {key: value for key, value in spec.items() if value is not None}
    if "test_share" not in spec:
        spec["splits"] = {"train": 4}
    with pytest.raises(ConfigError, match=message):
        check_data_set(spec, "own.yaml")


def test_splits_that_have_places_of_their_own():
    spec = vectors(splits={"train": 4, "test": 2, "unlabeled": 3})
    assert list(placed_splits(spec)) == ["train", "test", "unlabeled"]
    assert list(placed_splits(spec | {"test_share": 0.3})) == ["train"]
    apart = {"test_share": 0.3, "files": {"train": "a.npz", "unlabeled": "b.npz"}}
    assert list(placed_splits(spec | apart)) == ["train", "unlabeled"]
