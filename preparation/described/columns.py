"""Files of text that hold a table: what separates the values, whether a header names columns, which are no values."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from preparation.described.found import Wishes
from preparation.prepared import DataError
from preparation.text_tables import Row, column, is_number, read_rows

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
LABEL_NAMES = ("label", "labels", "class", "classes", "target", "category", "species")
MOST_CLASSES = 1000  # a column of more whole numbers is a measurement


@dataclass
class Columns:
    """Keys of the data set's file that say how the text is read. `label` None: no column holds labels."""

    delimiter: str
    header: list[str] | None
    label: int | str | None
    drop: list[int | str] = field(default_factory=list)
    reason: str = ""  # why this is the label, or why there is none
    dropped: str = ""  # why columns are left out


def columns_of(path: Path, wishes: Wishes) -> Columns:
    """How a file of text is read. DataError where two readings are possible, with the option that decides."""
    delimiter, rows = _separated(path)
    header = _header(rows)
    body = rows[1:] if header is not None else rows
    if not body:
        raise DataError(f"{path}: holds no rows; it is empty, or was cut off")
    width = len(rows[0][1])
    for line, cells in rows:
        if len(cells) != width:
            raise DataError(
                f"{path}: line {line} has {len(cells)} values, line {rows[0][0]} has {width}; all lines must "
                "be equally long"
            )
    drop = [column(path, wanted, header, width) for wanted in wishes.drop]
    counters = [at for at in range(width) if at not in drop and _counts_rows(body, at, header)]
    found = Columns(delimiter, header, None)
    found.drop = [_named(at, header) for at in [*drop, *counters]]
    if counters:
        found.dropped = f"column {_named(counters[0], header)!r} numbers the rows"
    open_columns = [at for at in range(width) if at not in (*drop, *counters)]
    if wishes.label is not None:
        at = column(path, wishes.label, header, width)
        found.label, found.reason = _named(at, header), "--label"
        found.drop = [name for name in found.drop if name != found.label]
    elif wishes.labels:
        at, found.reason = _label(path, body, open_columns, header)
        found.label = None if at is None else _named(at, header)
    else:
        found.reason = "--no-labels"
    _refuse_text(path, body, header, [at for at in open_columns if _named(at, header) != found.label])
    return found


def _named(at: int, header: Sequence[str] | None) -> int | str:
    """A column as the data set's file names it: by its name where that is a name of one column."""
    return header[at] if header is not None and header[at] and list(header).count(header[at]) == 1 else at


def _separated(path: Path) -> tuple[str, list[Row]]:
    """(separator, rows): of comma, semicolon and tab the one that cuts the first line into most values."""
    read = {mark: rows for mark in SEPARATORS if (rows := read_rows(path, mark))}
    if not read:
        raise DataError(f"{path}: holds no rows; it is empty, or was cut off")
    best = max(read, key=lambda mark: len(read[mark][0][1]))
    if len(read[best][0][1]) < 2:
        line = read[best][0][1][0][:40]
        raise DataError(
            f"{path}: line {read[best][0][0]} ({line!r}) holds one value; a table of two or more columns between "
            "commas, semicolons or tabs expected"
        )
    return best, read[best]


def _header(rows: Sequence[Row]) -> list[str] | None:
    """The cells of the first line where they name columns: none is a number, or they are numbered from 0 or 1."""
    cells = rows[0][1]
    numbers = [cell for cell in cells if is_number(cell)]
    counted = [[str(number) for number in range(first, first + len(numbers))] for first in (0, 1)]
    named = (
        len(numbers) >= 2
        and numbers in counted
        and len(rows) > 1
        and numbers != [cell for cell in rows[1][1] if is_number(cell)]
    )
    return cells if not numbers or named else None


def _counts_rows(body: Sequence[Row], at: int, header: Sequence[str] | None) -> bool:
    """Whether a column only numbers the rows, from 0 or 1, as data frames are written and records are kept."""
    first = body[0][1][at]
    if first not in ("0", "1") or len(body) < 10:
        return False
    return all(cells[at] == str(number) for number, (_, cells) in enumerate(body, int(first)))


def _label(
    path: Path, body: Sequence[Row], among: Sequence[int], header: Sequence[str] | None
) -> tuple[int | None, str]:
    """(the column of the label or None, why). DataError where it is open which one it is."""
    if header is not None:
        called = [at for at in among if header[at].strip().lower() in LABEL_NAMES and _may_be_label(body, at)]
        if len(called) == 1:
            return called[0], f"column {header[called[0]]!r} by its name"
    text = [at for at in among if any(not is_number(cells[at]) and cells[at] for _, cells in body)]
    repeated = [at for at in text if _distinct(body, at) <= max(2, len(body) // 2)]
    if len(text) == 1 and repeated:
        return text[0], f"column {_named(text[0], header)!r}, the one that holds text"
    if text:
        return None, "no column of text repeats its values"
    whole = [at for at in among if _is_whole(body, at)]
    if not whole:
        return None, "no column holds text or whole numbers"
    if whole == [among[-1]] and 2 <= _distinct(body, among[-1]) <= min(MOST_CLASSES, max(2, len(body) // 5)):
        return among[-1], "the last column, the one of whole numbers"
    raise DataError(
        f"{path}: no column is surely the label: none holds text or is called label, class or target; say --label "
        f"COLUMN ({'its name or ' if header else ''}its number from 0, -1 for the last), or --no-labels --clusters K"
    )


def _refuse_text(path: Path, body: Sequence[Row], header: Sequence[str] | None, among: Sequence[int]) -> None:
    """Values must be numbers; a column of text that is no label is to be left out by the user."""
    for at in among:
        for line, cells in body:
            if not is_number(cells[at]):
                name, cell = _named(at, header), cells[at]
                decimal = cell.replace(",", ".", 1)
                if not cell:
                    cure = "fill in or leave out what is missing"
                elif decimal != cell and is_number(decimal):
                    cure = "write decimal points, in pandas with read_csv(path, sep=';', decimal=',') and to_csv"
                else:
                    cure = f"leave the column out with --drop {name}, or say --label {name} if it is the label"
                raise DataError(f"{path}: line {line}: {cell!r} in column {name!r} is no number; {cure}")


def _distinct(body: Sequence[Row], at: int) -> int:
    return len({cells[at] for _, cells in body})


def _may_be_label(body: Sequence[Row], at: int) -> bool:
    """Whether a column holds text, or whole numbers alone: one called y may be a coordinate."""
    return any(not is_number(cells[at]) for _, cells in body) or _is_whole(body, at)


def _is_whole(body: Sequence[Row], at: int) -> bool:
    return all(float(cells[at]).is_integer() for _, cells in body)


def table_form(path: Path) -> tuple[str, list[str] | None, int, bool]:
    """(separator, header, number of columns, whether the first only numbers the rows) of a file of text."""
    delimiter, rows = _separated(path)
    header = _header(rows)
    body = rows[1:] if header is not None else rows
    unnamed = header is not None and not header[0]  # as pandas writes its index
    return delimiter, header, len(rows[0][1]), bool(body) and (unnamed or _counts_rows(body, 0, header))
