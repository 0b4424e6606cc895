"""New rows are prepared as a data set's own were, or refused in one line that says what was expected."""

import json
import sys

import numpy as np
import pytest
from PIL import Image

from preparation import new_rows
from preparation.prepared import DataError, open_prepared, write_prepared
from preparation.readers import read
from preparation.statistics import differences
from tests.preparation.own import LINES, Record, X, Y, vectors

SCALED = {"standardise": {"mean": [0.1, 0.2, 0.3], "std": [1.0, 2.0, 4.0]}, "scale": 2}


def data_set(folder, spec, name="own"):
    """The prepared folder of a data set, with its settings in the record as stage prepare writes them."""
    raw = read(spec, folder, False)
    record = Record("prepare", ("preparation.prepare",), {"name": name, **spec}, {})
    write_prepared(folder / "like", name, spec, raw.images, raw.labels, raw.splits, raw.source, record, raw.notes,
                   raw.root, raw.class_names)  # fmt: skip
    return open_prepared(folder / "like")


def prepared(folder, new, monkeypatch):
    """The folder that the stage makes of new rows."""
    monkeypatch.setattr(sys, "argv", ["stage", *f"--like {folder}/like --new {new} --out {folder}/out".split()])
    new_rows.main()
    return open_prepared(folder / "out")


def of_vectors(folder, text="x,y,z,species\n" + LINES, **more):
    (folder / "own.csv").write_text(text)
    named = {"files": {"train": "own.csv"}, "label": "species", "header": True}
    return data_set(folder, vectors(**(named | more)))


VALUES = np.array([[1.5, 2, 3], [2, 3, 4]], np.float32)
FORMS = {
    "values alone": "1.5,2,3\n2,3,4\n",
    "a header": "x,y,z\n1.5,2,3\n2,3,4\n",
    "labels, read by no one": "x,y,z,species\n1.5,2,3,\n2,3,4,what?\n",
    "semicolons": "x;y;z\n1.5;2;3\n2;3;4\n",
    "as pandas writes it": ",x,y,z\n0,1.5,2,3\n1,2,3,4\n",
    "row numbers and labels": ",x,y,z,species\n0,1.5,2,3,a\n1,2,3,4,b\n",
    "labels in another place": "species,x,y,z\na,1.5,2,3\nb,2,3,4\n",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("scaled", [{}, SCALED], ids=["plain", "scaled"])
def test_columns_that_are_no_values_are_left_out_and_values_scaled_as_the_sets_own(tmp_path, monkeypatch, form, scaled):
    of_vectors(tmp_path, **scaled)
    (tmp_path / "new.csv").write_text(FORMS[form])
    found = prepared(tmp_path, tmp_path / "new.csv", monkeypatch)
    wanted = (VALUES * 2 - [0.1, 0.2, 0.3]) / [1, 2, 4] if scaled else VALUES
    np.testing.assert_allclose(found.images[:, 0, :, 0], wanted, rtol=1e-6)
    assert found.labels.tolist() == [-1, -1]
    assert found.card["splits"] == {"unlabeled": [0, 2]}


def test_the_sets_own_columns_to_leave_out_are_left_out(tmp_path, monkeypatch, capsys):
    text = "id,x,y,z,species\n" + "".join(f"{7 * n},{line}\n" for n, line in enumerate(LINES.split()))
    of_vectors(tmp_path, text, drop=["id"])
    for header, line in (("id,x,y,z,species", "9,1,2,3,a"), ("id,x,y,z", "9,1,2,3"), ("x,y,z,species", "1,2,3,a")):
        (tmp_path / "new.csv").write_text(f"{header}\n{line}\n")
        assert prepared(tmp_path, tmp_path / "new.csv", monkeypatch).images.ravel().tolist() == [1, 2, 3]
    assert "note: left out: column 'id', 'species'" in capsys.readouterr().out
    (tmp_path / "new.csv").write_text("id,x,y,z,w\n9,1,2,3,4\n")
    with pytest.raises(DataError, match=r"5 columns found, .* rows of 3 numbers \(and beside them, .*'id', label"):
        prepared(tmp_path, tmp_path / "new.csv", monkeypatch)


def test_arrays_are_taken_by_their_shape(tmp_path, monkeypatch, capsys):
    np.savez(tmp_path / "x.npz", x=X, y=Y)
    data_set(tmp_path, vectors(**SCALED))
    np.savez(tmp_path / "new.npz", x=X[:3], y=np.array(["any", "text", ""]))
    np.save(tmp_path / "new.npy", X[:3])
    wanted = open_prepared(tmp_path / "like").images[:3]
    for name in ("new.npz", "new.npy"):
        np.testing.assert_array_equal(prepared(tmp_path, tmp_path / name, monkeypatch).images, wanted)
    assert "note: array y is not looked at" in capsys.readouterr().out
    (tmp_path / "new.csv").write_text("a,b,c,label\n1,2,3,0\n")  # a set of arrays has no label column: its name says it
    assert prepared(tmp_path, tmp_path / "new.csv", monkeypatch).images.shape == (1, 1, 3, 1)
    for x, message in (
        (X[:, :2], r"values of shape \[4, 2\] found, the run was trained on \[N, 3\]"),
        (X[:0], "holds no rows"),
        (X.astype(str), "numbers expected"),
        (np.full((2, 3), np.nan), "NaN or infinity in 2 rows"),
    ):
        np.savez(tmp_path / "bad.npz", x=x)
        with pytest.raises(DataError, match=message):
            prepared(tmp_path, tmp_path / "bad.npz", monkeypatch)
    np.savez(tmp_path / "bad.npz", z=X)
    with pytest.raises(DataError, match=r"arrays z found, x .* expected"):
        prepared(tmp_path, tmp_path / "bad.npz", monkeypatch)
    (tmp_path / "bad.npz").write_bytes(b"PK no archive")
    with pytest.raises(DataError, match=r"bad.npz: cannot be read as a .npz file"):
        prepared(tmp_path, tmp_path / "bad.npz", monkeypatch)
    (tmp_path / "new.csv").write_text("0,1,2\n4,5,6\n")
    assert len(prepared(tmp_path, tmp_path / "new.csv", monkeypatch).images) == 1
    assert "note: the first line (0, 1, 2) is taken for numbers of columns" in capsys.readouterr().out
    (tmp_path / "bad.csv").write_text("1,2,3,4\n")
    with pytest.raises(DataError, match="4 columns found, the run was trained on rows of 3 numbers; leave out"):
        prepared(tmp_path, tmp_path / "bad.csv", monkeypatch)
    with pytest.raises(DataError, match="images found, but the run was trained on vectors of 3 numbers"):
        prepared(tmp_path, tmp_path, monkeypatch)


def test_documents_are_weighted_as_the_sets_own(tmp_path, monkeypatch):
    np.save(tmp_path / "docs.npy", {"data": X, "label": Y // 9})
    data_set(tmp_path, vectors(source="reuters", files={"train": "docs.npy"}))
    np.savez(tmp_path / "new.npz", x=X)
    found = prepared(tmp_path, tmp_path / "new.npz", monkeypatch)
    np.testing.assert_array_equal(found.images, open_prepared(tmp_path / "like").images)


PIXELS = np.random.default_rng(0).integers(0, 256, (6, 8, 8, 3), dtype=np.uint8)
IMAGES = {"shape": [8, 8, 3], "normalisation": {"mean": [0.5] * 3, "std": [0.29] * 3}, "splits": {"train": 6}}


def test_image_files_must_have_the_shape_and_channels_of_arrays(tmp_path, monkeypatch):
    np.savez(tmp_path / "x.npz", x=PIXELS, y=np.arange(6) % 2)
    data_set(tmp_path, vectors(**IMAGES))
    (tmp_path / "new").mkdir()
    Image.fromarray(PIXELS[0]).save(tmp_path / "new" / "a.png")
    np.testing.assert_array_equal(prepared(tmp_path, tmp_path / "new", monkeypatch).images, PIXELS[:1])
    assert np.load(tmp_path / "out" / "names.npy").tolist() == ["a.png"]
    Image.fromarray(PIXELS[0][:7]).save(tmp_path / "new" / "b.png")
    with pytest.raises(DataError, match=r"b.png: 7 x 8 RGB found, but the run was trained on arrays of 8 x 8 RGB"):
        prepared(tmp_path, tmp_path / "new", monkeypatch)
    (tmp_path / "new" / "b.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"b.png: cannot be decoded \(of no known format\)"):
        prepared(tmp_path, tmp_path / "new", monkeypatch)
    for x, message in (
        (
            PIXELS.transpose(0, 3, 1, 2),
            r"trained on \[N, 8, 8, 3\]; transpose\(0, 2, 3, 1\) brings channels to the end",
        ),
        (PIXELS.astype(float), r"pixels of 0..255 found, .* store them so \(x.astype\('uint8'\), or x / 255\)"),
    ):
        np.savez(tmp_path / "bad.npz", x=x)
        with pytest.raises(DataError, match=message):
            prepared(tmp_path, tmp_path / "bad.npz", monkeypatch)


def test_colours_are_no_rows_of_a_grey_run(tmp_path, monkeypatch):
    np.savez(tmp_path / "x.npz", x=PIXELS[..., :1], y=np.arange(6) % 2)
    grey = {"shape": [8, 8, 1], "normalisation": {"mean": [0.5], "std": [0.29]}}
    data_set(tmp_path, vectors(**{**IMAGES, **grey}))
    Image.fromarray(np.repeat(PIXELS[0, :, :, :1], 3, axis=2)).save(tmp_path / "same.png")
    assert (prepared(tmp_path, tmp_path / "same.png", monkeypatch).images == PIXELS[:1, :, :, :1]).all()
    Image.fromarray(PIXELS[0]).save(tmp_path / "colour.png")
    with pytest.raises(DataError, match="8 x 8 RGB found, but the run was trained on arrays of 8 x 8 grey"):
        prepared(tmp_path, tmp_path / "colour.png", monkeypatch)


@pytest.mark.parametrize("decode", [{"decode": True}, {}], ids=["decoded", "files"])
def test_image_files_go_the_way_of_the_sets_own(tmp_path, monkeypatch, capsys, decode):
    for number, pixels in enumerate(PIXELS):
        file = tmp_path / "mine" / "train" / "ab"[number % 2] / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).resize((20, 12)).save(file)
    own = vectors(source="folder", folder="mine", **decode, **{**IMAGES, "splits": {"train": 6}})
    del own["files"]
    like = data_set(tmp_path, own)
    found = prepared(tmp_path, tmp_path / "mine" / "train", monkeypatch)
    assert "folders are named as classes (a, ...)" in capsys.readouterr().out
    if decode:
        np.testing.assert_array_equal(found.images, like.images)
        assert json.loads((tmp_path / "out/card.json").read_text())["root"] is None
    else:
        assert [f"train/{name}" for name in found.images] == like.images.tolist()
        assert found.root == tmp_path / "mine" / "train"
        monkeypatch.setenv("BENCH_DATA_ROOT", str(tmp_path))  # new rows lie where they lie
        assert found.root == tmp_path / "mine" / "train"
    np.savez(tmp_path / "new.npz", x=PIXELS)
    if not decode:
        with pytest.raises(DataError, match="a file of numbers found, but the run was trained on image files"):
            prepared(tmp_path, tmp_path / "new.npz", monkeypatch)


def rows(folder, x):
    """A prepared folder of vectors [N, d] or images."""
    shape = [1, x.shape[1], 1] if x.ndim == 2 else list(x.shape[1:])
    spec = {"classes": 2, "shape": shape, "splits": {"unlabeled": len(x)}, "normalisation": {"mean": [0], "std": [1]}}
    record = Record("prepare", ("preparation.prepare",), {}, {})
    write_prepared(folder, "x", spec, x.reshape(-1, *shape), np.full(len(x), -1), spec["splits"], "made", record)
    return open_prepared(folder)


def test_rows_that_are_unlike_the_sets_own_are_told_and_few_are_forgiven(tmp_path):
    generator = np.random.default_rng(0)
    x = (generator.normal(size=(400, 5)) * [1, 10, 100, 1, 1]).astype(np.float32)
    like, same = rows(tmp_path / "like", x[:200]), rows(tmp_path / "same", x[200:])
    assert list(differences(same, like)) == []
    assert list(differences(rows(tmp_path / "one", x[200:201]), like)) == []
    moved = x[200:] + np.array([0, 0, 0, 3, 0], np.float32)
    (said,) = differences(rows(tmp_path / "moved", moved), like)
    assert "in column 3 where they have" in said
    assert "(1 of 5 columns differ by more than 0.78 deviations)" in said
    for factor in (5, 0.2):
        (said,) = differences(rows(tmp_path / "scaled", x[200:] * np.float32(factor)), like)
        assert "columns deviate by" in said
        assert "more than a factor of 1.8" in said
    pale, kept = PIXELS // 8 + 112, rows(tmp_path / "kept", PIXELS)
    assert list(differences(kept, kept)) == []
    many = rows(tmp_path / "many", np.repeat(PIXELS, 30, axis=0))
    (said,) = differences(rows(tmp_path / "pale", np.repeat(pale, 30, axis=0)), many)
    assert "pixels deviate by 0.037, those of the run by 0.296 " in said
