"""history.csv of a run: one row per epoch, one column per loss term."""

import csv
from pathlib import Path

from pipeline.record import StageError, reading


def read_history(path: str | Path) -> list[dict[str, float]]:
    """Column -> value of every epoch, without what a row leaves empty; values of a diverged run may be inf or nan.

    Raises StageError for a file that is missing, cut off or no table of numbers.
    """
    cure = "delete it and run stage train again"
    with reading(path):
        content = Path(path).read_bytes()
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise StageError(f"{path}: not text in UTF-8 ({problem}); {cure}") from None
    if text and not text.endswith("\n"):
        raise StageError(f"{path}: its last line is cut off; {cure}")
    reader, rows = csv.DictReader(text.splitlines()), []
    if "epoch" not in (reader.fieldnames or ()):
        raise StageError(f"{path}: columns {reader.fieldnames} found, epoch is expected among them; {cure}")
    for number, row in enumerate(reader, 2):
        if None in row or None in row.values():
            raise StageError(f"{path}, line {number}: as many values as columns are expected; {cure}")
        try:
            rows.append({name: float(value) for name, value in row.items() if value})
            int(rows[-1]["epoch"])
        except (KeyError, ValueError, OverflowError):
            said = ", ".join(row.values())
            raise StageError(f"{path}, line {number}: {said}: numbers are expected; {cure}") from None
    return rows
