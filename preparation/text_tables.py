"""Files of text that hold a table of numbers, one row a line, with a label: what is unambiguous is read."""

import csv
import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pipeline.naming import suggestion
from preparation.labels import checked
from preparation.prepared import DataError


class Table(NamedTuple):
    """One file: values [N, d] or [N, H, W, C], and the labels [N] of the rows, whole numbers or text."""

    values: np.ndarray
    labels: np.ndarray


Row = tuple[int, list[str]]  # number of the line from 1, cells


def read_table(
    path: Path,
    separator: str | None,
    label: int | str | None,
    skip: int = 0,
    end: str | None = None,
    drop: Sequence[int | str] = (),
) -> Table:
    """The table of a file; `separator` None: blanks. The first `skip` lines hold no rows; a lone `end` closes the file.

    `label`, `drop`: the column of the label and those that are left out, by number from 0 (-1: the last) or, where
    there is a first line that is skipped, by the name in it; `label` None: no column holds labels, all are -1.
    DataError names the line that is not as the first one, or holds no numbers.
    """
    rows = read_rows(path, separator)
    header = rows[skip - 1][1] if 0 < skip <= len(rows) else None
    rows = rows[skip:]
    if end is not None and rows and rows[-1][1] == [end]:
        rows.pop()
    if not rows:
        raise DataError(f"{path}: holds no rows; it is empty, or was cut off")
    _refuse_other_separators(path, rows[0], separator)
    first, width = rows[0][0], len(rows[0][1])
    for line, cells in rows:
        if len(cells) != width:
            raise DataError(
                f"{path}: line {line} has {len(cells)} values, line {first} has {width}; all lines must be equally long"
            )
    lines, out = [line for line, _ in rows], {column(path, name, header, width) for name in drop}
    labels = ["-1"] * len(rows)
    if label is not None:
        at = column(path, label, header, width)
        labels, out = [cells[at] for _, cells in rows], out | {at}
    rows = [(line, [cell for place, cell in enumerate(cells) if place not in out]) for line, cells in rows]
    return Table(_numbers(path, rows), checked(_labels(labels), path, lines))


def read_rows(path: Path, separator: str | None) -> list[Row]:
    """Every line of a file that holds something, as its number and its cells."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8-sig") as file:  # a byte-order mark is no part of the first value
        return _rows(path, file.read().split("\n"), separator)


def column(path: Path, wanted: int | str, header: Sequence[str] | None, width: int) -> int:
    """Number from 0 of a column that is named by its number or by what the header says."""
    if isinstance(wanted, str):
        if header is None:
            raise DataError(
                f"{path}: no header, so no column {wanted!r}; give its number from 0, or set `header: true`"
            )
        if wanted not in header:
            raise DataError(f"{path}: no column {wanted!r}; {suggestion(wanted, header)}")
        wanted = list(header).index(wanted)
    if not -width <= wanted < width:
        raise DataError(
            f"{path}: no column {wanted}, the lines have {width} values; count from 0, or from -1 backwards"
        )
    return wanted % width


def _rows(path: Path, lines: list[str], separator: str | None) -> list[Row]:
    """Lines that hold something, split into cells; text may stand in quotes."""
    if separator is None:
        return [(number, line.split()) for number, line in enumerate(lines, 1) if line.strip()]
    reader, rows, begun = csv.reader(lines, delimiter=separator, skipinitialspace=True, strict=True), [], 1
    try:
        for cells in reader:
            rows.append((begun, [cell.strip() for cell in cells]))
            begun = reader.line_num + 1
    except csv.Error as problem:
        raise DataError(f"{path}: line {begun}: {problem}; mend its quotes") from None
    return [(line, cells) for line, cells in rows if cells not in ([], [""])]


def _refuse_other_separators(path: Path, row: Row, separator: str | None) -> None:
    line, cells = row
    marks = {";": "semicolons", "\t": "tabs"} | ({" ": "blanks"} if len(cells) == 1 else {})
    found = next((words for mark, words in marks.items() if any(mark in cell for cell in cells)), None)
    if separator == "," and found:
        raise DataError(
            f"{path}: line {line}: values between {found} found, between commas expected (and decimal points); set "
            "`delimiter` in the data set's file, or write the file anew, in pandas with to_csv(path, index=False)"
        )


def _numbers(path: Path, rows: Sequence[Row]) -> np.ndarray:
    """float64 [N, d] of the cells."""
    try:
        return np.array([cells for _, cells in rows], dtype=np.float64)
    except ValueError:
        line, column = next((line, i) for line, cells in rows for i, cell in enumerate(cells) if not is_number(cell))
    cells = dict(rows)[line]
    if line == rows[0][0] and len(rows) > 1 and all(map(is_number, rows[1][1])):
        raise DataError(
            f"{path}: line {line} holds names of columns ({', '.join(cells[:3])}), numbers expected; delete the line, "
            "or set `header: true` in the data set's file"
        )
    raise DataError(f"{path}: line {line}: {cells[column]!r} is no number; all values but the label must be numbers")


def is_number(cell: str) -> bool:
    """Whether the text of a cell is a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _labels(cells: list[str]) -> np.ndarray:
    """Numbers where all are numbers, else text."""
    try:
        return np.array(cells, dtype=np.float64)
    except ValueError:
        return np.array(cells)
