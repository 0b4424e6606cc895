"""Files of text that hold a table of numbers, one row a line, with a label: what is unambiguous is read."""

import csv
import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from preparation.labels import checked
from preparation.prepared import DataError


class Table(NamedTuple):
    """One file: values [N, d] or [N, H, W, C], and the labels [N] of the rows, whole numbers or text."""

    values: np.ndarray
    labels: np.ndarray


Row = tuple[int, list[str]]  # number of the line from 1, cells


def read_table(path: Path, separator: str | None, label: int | None, skip: int = 0, end: str | None = None) -> Table:
    """The table of a file; `separator` None: blanks. The first `skip` lines hold none; a lone `end` closes the file.

    `label`: column of the label; None: there is none, every label is -1. DataError names the line that is not as the
    first one, or holds no numbers.
    """
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8-sig") as file:  # a byte-order mark is no part of the first value
        rows = _rows(path, file.read().split("\n"), separator)
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
    if label is None:
        return Table(_numbers(path, rows), np.full(len(rows), -1))
    labels = [cells.pop(label) for _, cells in rows]
    lines = [line for line, _ in rows]
    return Table(_numbers(path, rows), checked(_labels(labels), path, lines))


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
            f"{path}: line {line}: values between {found} found, between commas expected (and decimal points); write "
            "the file anew, in pandas with to_csv(path, header=False, index=False)"
        )


def _numbers(path: Path, rows: Sequence[Row]) -> np.ndarray:
    """float64 [N, d] of the cells."""
    try:
        return np.array([cells for _, cells in rows], dtype=np.float64)
    except ValueError:
        line, column = next((line, i) for line, cells in rows for i, cell in enumerate(cells) if not _is_number(cell))
    cells = dict(rows)[line]
    if line == rows[0][0] and len(rows) > 1 and all(map(_is_number, rows[1][1])):
        raise DataError(
            f"{path}: line {line} holds names of columns ({', '.join(cells[:3])}), numbers expected; delete the line, "
            "or set `header: true` in the data set's file"
        )
    raise DataError(f"{path}: line {line}: {cells[column]!r} is no number; all values but the label must be numbers")


def _is_number(cell: str) -> bool:
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
