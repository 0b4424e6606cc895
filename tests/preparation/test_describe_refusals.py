"""What cannot be described: one line with the file or option and the cure, and nothing written."""

import re

import numpy as np
import pytest

from pipeline.record import StageError
from preparation import describe as module
from tests.preparation import described
from tests.preparation.described import picture, pictures, table


@pytest.fixture
def refused(monkeypatch, capsys, tmp_path):
    """Describe and return the one line that is said; nothing is left below own/."""

    def refuse(*words):
        with pytest.raises(SystemExit) as stopped:
            described.run(monkeypatch, capsys, tmp_path, *words)
        assert stopped.value.code
        assert not (tmp_path / "own").exists()
        said = capsys.readouterr().err
        assert "Traceback" not in said
        return said.strip().splitlines()[-1]

    return refuse


def _empty(place):
    place.mkdir()


def _text_alone(place):
    place.mkdir()
    (place / "notes.txt").write_text("none")


def _one_class(place):
    pictures(place, classes=["owl"])


def _level_too_many(place):
    pictures(place / "images")


def _unreadable(place):
    pictures(place)
    (place / "owl" / "00.png").write_text("no image")


def _empty_class(place):
    pictures(place)
    (place / "wren").mkdir()


def _files_beside_classes(place):
    pictures(place)
    picture(place / "more.png")


def _class_beside_splits(place):
    pictures(place / "train")
    pictures(place / "wren")


def _other_classes(place):
    pictures(place / "train")
    pictures(place / "test", classes=["owl"])


def _tiny(place):
    pictures(place, size=(2, 2))


def _one_colour(place):
    from PIL import Image

    for name in ("crow", "owl"):
        for number in range(15):
            (place / name).mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (8, 8)).save(place / name / f"{number}.png")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda place: None, "birds: no such file or folder"),
        (_empty, r"birds: no images \(jpg, png, .* it is empty; describe the folder or file"),
        (_text_alone, "only notes.txt; describe the folder"),
        (_one_class, r"one class only \('owl'\), two or more expected; with --no-labels"),
        (_level_too_many, r"one folder 'images' alone, with the folders crow, owl in it; describe .*birds/images"),
        (_unreadable, r"owl/00\.png: cannot be decoded \(of no known format\)"),
        (_empty_class, "birds/wren: no image file in it"),
        (_files_beside_classes, "1 image files lie beside the folders crow, owl; move them .* or say --no-labels"),
        (_class_beside_splits, "folder 'wren' lies beside the splits train"),
        (_other_classes, "split 'test' has no folder of class 'crow'"),
        (_tiny, "images of 2 x 2 pixels found, 4 x 4 or more expected"),
        (_one_colour, "all pixels of the images have one and the same value"),
    ],
)
def test_folders(refused, tmp_path, make, message):
    make(tmp_path / "birds")
    said = refused(tmp_path / "birds")
    assert re.search(message, said), said


X = np.random.default_rng(0).normal(size=(40, 3))
Y = np.arange(40) % 2
PIXELS = np.full((40, 8, 8, 3), 200, np.uint8)


@pytest.mark.parametrize(
    ("arrays", "words", "message"),
    [
        ({"x": X}, [], r"birds\.npz: no labels found, so say how many clusters to seek: --clusters K"),
        ({"x": X}, ["--clusters", "41"], "--clusters 41: 40 rows were found"),
        ({"x": X, "y": Y}, ["--clusters", "3"], "--clusters 3: birds.npz has 2 classes"),
        ({"x": X, "y": Y * 0}, [], r"one class only \(0\), two or more expected"),
        (
            {"x": np.where(np.arange(120).reshape(40, 3) % 60 == 7, np.nan, X), "y": Y},
            [],
            "NaN or infinity in 2 rows, first in row 2 ",
        ),
        ({"x": X, "y": np.where(Y, np.nan, 0)}, [], "label nan in row 1"),
        ({"x": X, "y": Y[1:]}, [], r"\[40, 3\] values and 39 labels found"),
        ({"z": X, "y": Y}, [], r"arrays z, y found, x \[N, d\] and y \[N\] expected"),
        ({"x": X.astype(str), "y": Y}, [], "values of type <U32 found, numbers expected"),
        ({"x": X, "y": np.array(["a", 1] * 20, object)}, [], "holds Python objects"),
        ({"x": X * 0, "y": Y}, [], "all rows are equal"),
        ({"x": PIXELS.transpose(0, 3, 1, 2), "y": Y}, [], r"8 channels, .*; store x.transpose\(0, 2, 3, 1\)"),
        ({"x": PIXELS * 2.0, "y": Y}, [], r"pixels of 400\.\.400 found, 0\.\.1 or 0\.\.255 expected"),
        ({"x": X[:24], "y": Y[:24]}, [], "birds.npz: 24 rows found, 25 or more expected"),
        ({"x": X, "y": Y}, ["--size", "2"], "--size 2 2 is 4 pixels, rows hold 3 numbers"),
        ({"x": X, "y": Y}, ["--label", "kind"], "--label and --drop name columns"),
    ],
)
def test_arrays(refused, tmp_path, arrays, words, message):
    np.savez(tmp_path / "birds.npz", **arrays)
    said = refused(tmp_path / "birds.npz", *words)
    assert re.search(message, said), said


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        ("", [], r"birds\.csv: holds no rows"),
        ("wing,beak,kind\n", [], "holds no rows"),
        ("1.5,2.5,owl\n1.5,owl\n", [], r"line 2 has 2 values, line 1 has 3"),
        ("1.5 2.5 owl\n1 2 crow\n", [], "holds one value; a table of two or more columns"),
        ("wing,beak,kind\n1,2,owl\n3,4,crow\n", ["--label", "kin"], "no column 'kin'; did you mean 'kind'"),
        ("wing,beak,kind\n1,,owl\n3,4,crow\n5,6,owl\n7,8,crow\n", ["--label", "kind"], "line 2: '' in column 'beak'"),
        ("wing;kind\n1,5;owl\n2,5;crow\n", ["--label", "kind"], "write decimal points"),
        ("1.5,2,3\n2.5,3,4\n", [], "no column is surely the label"),
        ("wing,ring,kind\n1,x,owl\n2,y,crow\n", ["--label", "kind"], "leave the column out with --drop ring"),
    ],
)
def test_tables(refused, tmp_path, text, words, message):
    (tmp_path / "birds.csv").write_text(text)
    said = refused(tmp_path / "birds.csv", *words)
    assert re.search(message, said), said


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("birds.npz", b"no archive", r"birds\.npz: cannot be read as a \.npz file"),
        ("birds.npy", b"no array", r"birds\.npy: cannot be read as a \.npy file"),
        ("birds.csv", b"\xff\xfe\x00", r"birds\.csv: cannot be read"),
        ("birds.zip", b"", "unpack it and describe the folder"),
        ("birds.jpg", b"", r"\.npz, \.npy, \.csv, \.tsv, \.txt expected of a file; describe a folder of images"),
    ],
)
def test_files_of_another_kind(refused, tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    said = refused(tmp_path / name)
    assert re.search(message, said), said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--name", "my birds"], "'my birds': names are of small letters, .*; say --name 'my_birds'"),
        (["--name", "digits"], r"config/datasets/digits\.yaml is part of the project; .* --name my_digits"),
        (["--name", "smoke"], r"config/suites/smoke\.yaml is part of the project"),
        (["--minutes", "0"], "--minutes: 0 found, more than 0 expected"),
        (["--test-share", "1"], "--test-share: 1 found"),
        (["--size", "0"], "--size: one side, or height and width expected"),
        (["--size", "3000"], "--size: 3000 found, sides of at most 2048 pixels expected"),
        (["--minuts", "3"], "^error: describe: unknown option '--minuts'; did you mean '--minutes'"),
        (["more"], "^error: describe: 'more' is one word too many"),
        (["--no-labels", "--label", "kind"], "--label and --no-labels exclude each other"),
        (["--test-share", "1e-9"], "leaves no row of 40 to split 'test'"),
    ],
)
def test_options(refused, tmp_path, words, message):
    table(tmp_path / "birds.csv")
    said = refused(tmp_path / "birds.csv", *words)
    assert re.search(message, said), said


def test_a_name_that_is_taken_is_left_alone(monkeypatch, capsys, tmp_path):
    table(tmp_path / "birds.csv")
    described.run(monkeypatch, capsys, tmp_path, tmp_path / "birds.csv")
    before = {path: path.read_text() for path in (tmp_path / "own").rglob("*.yaml")}
    table(tmp_path / "birds.csv", rows=60)
    with pytest.raises(SystemExit):
        described.run(monkeypatch, capsys, tmp_path, tmp_path / "birds.csv")
    assert "exists; --force replaces it, --name NAME leaves it alone" in capsys.readouterr().err
    assert {path: path.read_text() for path in (tmp_path / "own").rglob("*.yaml")} == before


def test_a_plan_that_is_refused_writes_nothing(refused, monkeypatch, tmp_path):
    def refuse(*_):
        raise StageError("no such plan")

    table(tmp_path / "birds.csv")
    monkeypatch.setattr(module, "written", refuse)
    assert refused(tmp_path / "birds.csv").endswith("no such plan")
