"""Labels of own data: whole numbers and text are classes, -1 is none, the rest is refused by row."""

import numpy as np
import pytest

from preparation.prepared import DataError
from preparation.readers import read
from tests.preparation.own import X, prepare, vectors

LABELS = [
    ([0, 0.5, 1, 1.5], r"array y: label 0\.5 in row 1 \(counted from 0\), 2 such in all"),
    ([0, 1, np.nan, 1], r"array y: label nan in row 2"),
    ([0, 1, 1, np.inf], r"array y: label inf in row 3"),
    ([0, 1, -2, 1], r"array y: label -2 in row 2"),
    (["a", "b", "", "b"], r"array y: label '' in row 2"),
    (["a", "b", "a", "NaN"], r"array y: label 'NaN' in row 3"),
    (np.eye(2)[[0, 1, 0, 1]], r"array y: labels of shape \[4, 2\] found, \[N\] expected"),
    (np.array([b"a", b"b", b"a", b"b"]), r"array y: labels of type \|S1 found.* y.astype\(str\)"),
    (np.array(["a", "b", "a", "b"], dtype=object), r"x\.npz: holds Python objects, which are never loaded"),
]


@pytest.mark.parametrize(("labels", "message"), LABELS)
def test_labels_that_are_no_classes_are_refused_by_row(tmp_path, labels, message):
    np.savez(tmp_path / "x.npz", x=X, y=np.array(labels))
    with pytest.raises(DataError, match=message):
        read(vectors(), tmp_path, False)


@pytest.mark.parametrize(
    ("labels", "numbers", "names"),
    [
        ([0, 2, 5, 5], [0, 1, 2, 2], ["0", "2", "5"]),
        ([5.0, 0.0, 2.0, 5.0], [2, 0, 1, 2], ["0", "2", "5"]),
        (["dog", "ant", "cat", "ant"], [2, 0, 1, 0], ["ant", "cat", "dog"]),
    ],
)
def test_classes_are_numbered_in_order_and_the_card_has_their_names(tmp_path, labels, numbers, names):
    np.savez(tmp_path / "x.npz", x=X, y=np.array(labels))
    data = prepare(tmp_path, vectors(classes=3))
    assert data.labels.tolist() == numbers
    assert data.card["class_names"] == names
    with pytest.raises(
        DataError, match=rf"own: 3 classes found \({', '.join(names)}\), config/datasets/own.yaml says 2"
    ):
        prepare(tmp_path, vectors(classes=2))


@pytest.mark.parametrize("kind", [int, float, str])
def test_minus_one_is_no_class_and_has_its_split(tmp_path, kind):
    """In every form of file; in a split that is scored, it would become one more class."""
    labels = np.array([-1, 7, 9, 7]).astype(kind)
    np.savez(tmp_path / "x.npz", x=X, y=labels[1:].repeat(2)[:4])
    np.savez(tmp_path / "none.npz", x=X, y=np.full(4, -1))
    files = {"train": "x.npz", "unlabeled": "none.npz"}
    data = prepare(tmp_path, vectors(files=files, splits={"train": 4, "unlabeled": 4}))
    assert data.labels.tolist() == [0, 0, 1, 1, -1, -1, -1, -1]
    assert data.card["class_names"] == ["7", "9"]
    np.savez(tmp_path / "x.npz", x=X, y=labels)
    assert read(vectors(), tmp_path, False).labels.tolist() == [-1, 0, 1, 0]
    with pytest.raises(DataError, match=r"1 rows of split 'train' have no label \(-1\), first row 0 .* `unlabeled`"):
        prepare(tmp_path, vectors())
    with pytest.raises(DataError, match=r"2 classes found \(7, 9\), .* says 3; -1 stands for no label"):
        prepare(tmp_path, vectors(classes=3))


def test_classes_are_one_list_for_all_files(tmp_path):
    spec = vectors(files={"train": "x.npz", "test": "t.csv"}, splits={"train": 4, "test": 2}, classes=3)
    np.savez(tmp_path / "x.npz", x=X, y=np.array(["b", "c", "a", "b"]))
    (tmp_path / "t.csv").write_text("1,2,3,c\n4,5,6,b\n")
    assert read(spec, tmp_path, False).labels.tolist() == [1, 2, 0, 1, 2, 1]
    (tmp_path / "t.csv").write_text("1,2,3,0\n4,5,6,1\n")
    with pytest.raises(DataError, match=r"t\.csv: labels are numbers here and text in .*x\.npz; give all files"):
        read(spec, tmp_path, False)
