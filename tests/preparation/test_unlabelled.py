"""Files without labels: one split `unlabeled`, whose rows are all -1, or such a split beside labelled ones."""

import numpy as np
import pytest

from preparation.prepared import DataError
from preparation.readers import read
from tests.preparation.own import LINES, X, Y, prepare, vectors

ALONE = {"splits": {"unlabeled": 4}, "labels": False}


def alone(file, **more):
    return vectors(files={"unlabeled": file}, **{**ALONE, **more})


@pytest.mark.parametrize("file", ["x.npz", "with_y.npz", "x.npy", "x.csv", "header.csv"])
def test_every_column_is_a_value(tmp_path, file):
    np.savez(tmp_path / "x.npz", x=X)
    np.savez(tmp_path / "with_y.npz", x=X, y=Y)
    np.save(tmp_path / "x.npy", X)
    np.savetxt(tmp_path / "x.csv", X, delimiter=",")
    (tmp_path / "header.csv").write_text("a,b,c\n" + (tmp_path / "x.csv").read_text())
    for source in ("vectors", *(["csv"] if file.endswith("csv") else [])):
        data = prepare(tmp_path, alone(file, source=source, header=file == "header.csv"))
        np.testing.assert_allclose(data.images.reshape(4, 3), X, rtol=1e-6)
        assert data.labels.tolist() == [-1] * 4
        assert (data.card["class_names"], data.card["classes"]) == (None, 2)
        assert data.card["counts"] == {"unlabeled": [0, 0]}
        assert data.rows(["unlabeled"]).tolist() == [0, 1, 2, 3]


def test_images_in_an_array_alone(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (4, 2, 3, 1), dtype=np.uint8)
    np.save(tmp_path / "x.npy", pixels)
    data = prepare(tmp_path, alone("x.npy", shape=[2, 3, 1]))
    np.testing.assert_array_equal(data.images, pixels)
    np.save(tmp_path / "x.npy", np.float32(1))
    with pytest.raises(DataError, match=r"x\.npy: cannot be read as a \.npy file"):
        read(alone("x.npy"), tmp_path, False)


def test_a_column_of_minus_one_is_no_label_without_the_key(tmp_path):
    np.save(tmp_path / "x.npy", np.column_stack([X, -np.ones(4)]))
    data = prepare(tmp_path, alone("x.npy", labels=True))
    np.testing.assert_allclose(data.images.reshape(4, 3), X, rtol=1e-6)
    assert data.labels.tolist() == [-1] * 4


def test_labels_in_data_of_one_unlabelled_split_are_refused(tmp_path):
    """Whether they are to be used is not guessed."""
    np.savez(tmp_path / "x.npz", x=X, y=np.array([-1, -1, 0, 1]))
    message = r"2 rows have labels, first row 2 .*; name the split `train`, or set `labels: false`"
    with pytest.raises(DataError, match=message):
        prepare(tmp_path, alone("x.npz", labels=True))


def test_the_key_is_named_where_a_value_is_taken_for_a_label(tmp_path):
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "x.csv").write_text("1,2,3\n4,5,6\n")
    for file, message in (("x.npy", "label 0.28"), ("x.csv", r"\[2, 2\] values and 2 labels found")):
        with pytest.raises(DataError, match=rf"{message}.*; if the file has no column of labels, set `labels: false`"):
            read(alone(file, labels=True), tmp_path, False)
    np.savez(tmp_path / "x.npz", z=X)
    with pytest.raises(DataError, match=r"arrays z found, x \[N, d\] expected"):
        read(alone("x.npz"), tmp_path, False)
    with pytest.raises(DataError, match=r"label 0.28") as caught:  # a labelled split must have labels
        read(vectors(files={"train": "x.npy"}), tmp_path, False)
    assert "labels: false" not in str(caught.value)


def test_a_file_without_labels_beside_labelled_ones(tmp_path):
    """In each form, and beside classes that are numbers or text."""
    (tmp_path / "train.csv").write_text(LINES)
    (tmp_path / "text.csv").write_text(LINES.replace(",0\n", ",cat\n").replace(",1\n", ",dog\n"))
    np.savez(tmp_path / "x.npz", x=X)
    np.savetxt(tmp_path / "x.csv", X, delimiter=",")
    for labelled, names in (("train.csv", ["0", "1"]), ("text.csv", ["cat", "dog"])):
        for file, more in (("x.npz", {}), ("x.npz", {"labels": False}), ("x.csv", {"labels": False})):
            files = {"train": labelled, "unlabeled": file}
            data = prepare(tmp_path, vectors(files=files, splits={"train": 4, "unlabeled": 4}, **more))
            assert data.labels.tolist() == [0, 1, 0, 1, -1, -1, -1, -1]
            assert data.card["class_names"] == names
            np.testing.assert_allclose(data.images[4:].reshape(4, 3), X, rtol=1e-6)
    np.savez(tmp_path / "x.npz", x=X)
    with pytest.raises(DataError, match=r"arrays x found, x \[N, d\] and y \[N\] expected"):
        read(vectors(), tmp_path, False)
