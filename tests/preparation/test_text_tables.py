"""Comma-separated files as people have them: what is unambiguous is read, the rest is refused by line."""

import numpy as np
import pytest

from preparation.prepared import DataError
from preparation.readers import read
from tests.preparation.own import LINES, vectors


def table(tmp_path, text, **more):
    (tmp_path / "x.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    return read(vectors(source="csv", files={"train": "x.csv"}, **more), tmp_path, False)


@pytest.mark.parametrize(
    "text",
    [
        LINES,
        b"\xef\xbb\xbf" + LINES.encode(),
        LINES.replace("\n", "\r\n\r\n"),
        LINES.replace(",", " , "),
        LINES.replace("0\n", '"a, b"\n').replace("1\n", " c\n"),
    ],
    ids=["plain", "mark of byte order", "blank lines", "blanks", "text"],
)
def test_tables_that_leave_no_doubt_are_read(tmp_path, text):
    raw = table(tmp_path, text)
    np.testing.assert_array_equal(raw.images.reshape(4, 3), np.arange(1, 5)[:, None] + np.arange(3))
    assert raw.labels.tolist() == [0, 1, 0, 1]
    assert raw.class_names in (["0", "1"], ["a, b", "c"])


def test_a_header_is_left_out_where_the_configuration_says_so(tmp_path):
    assert table(tmp_path, "a,b,c,label\n" + LINES, header=True).labels.tolist() == [0, 1, 0, 1]
    (tmp_path / "x.csv").rename(tmp_path / "y.csv")
    raw = read(vectors(files={"train": "y.csv"}, header=True), tmp_path, False)
    assert raw.labels.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b,c,label\n" + LINES, r"line 1 holds names of columns \(a, b, c\), .* or set `header: true`"),
        (LINES.replace(",", ";"), "line 1: values between semicolons found, between commas expected"),
        (LINES.replace(",", ",5;"), "line 1: values between semicolons found"),
        (LINES.replace(",", "\t"), "line 1: values between tabs found"),
        (LINES.replace(",", " "), "line 1: values between blanks found"),
        ("\n" + LINES.replace("3,4,5", "3,4"), "line 4 has 3 values, line 2 has 4; all lines must be equally long"),
        ("", "holds no rows; it is empty, or was cut off"),
        ("a,b,c,label\n", "line 1: 'a' is no number"),
        (LINES.replace("4,5,6", "4,?,6"), r"line 4: '\?' is no number"),
        (LINES.replace("5,0", "5,0.5"), r"label 0\.5 in line 3, 1 such in all"),
        (LINES.replace("5,0", "5,nan"), r"label nan in line 3"),
        (LINES.replace("0\n", "a\n").replace("6,1", "6,"), r"label '' in line 4"),
        (LINES.replace("6,1", '6,"1'), r"line 4: .*; mend its quotes"),
        (LINES.encode("utf-16"), r"cannot be read as a \.csv file \('utf-8' codec"),
    ],
)
def test_tables_that_leave_doubt_are_refused_by_file_and_line(tmp_path, text, message):
    with pytest.raises(DataError, match=rf"x\.csv: {message}") as caught:
        table(tmp_path, text)
    assert "\n" not in str(caught.value)
