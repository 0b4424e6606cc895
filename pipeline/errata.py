"""Errata: printed values that other sources show to be wrong, config/reported/errata.csv, each with its evidence.

A table prints the paper's value as it stands in the paper; what is known to be wrong with it stands below the table.
"""

import csv
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline import catalogue
from pipeline.naming import ConfigError

# `metric` is empty where all of a method's values for a data set are meant.
COLUMNS = ["file", "table", "method", "dataset", "metric", "says", "evidence"]


def of_table(table: Mapping[str, Any]) -> list[dict[str, str]]:
    """The errata of the methods that a table's rows name. Raises ConfigError for a file that is not as it should be."""
    if "reported" not in table:
        return []
    path, asked = catalogue.CONFIG / "reported" / "errata.csv", table["reported"]
    methods = {row.get("reported") for row in table["rows"]} - {None}
    rows = _read(path, path.stat().st_mtime_ns) if path.is_file() else ()
    return [
        dict(row)
        for row in rows
        if (row["file"], row["table"]) == (asked["file"], asked["table"]) and row["method"] in methods
    ]


@functools.lru_cache(maxsize=8)  # every table asks for it
def _read(path: Path, _mtime: int) -> tuple[dict[str, str], ...]:
    with open(path, encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file, strict=True)
        rows = list(reader)
    if list(reader.fieldnames or []) != COLUMNS:
        raise ConfigError(f"{path}: columns {reader.fieldnames} found; expected {', '.join(COLUMNS)}")
    for number, row in enumerate(rows, 2):
        if None in row or None in row.values() or not (row["says"] and row["evidence"]):
            raise ConfigError(
                f"{path}, row {number}: {len(COLUMNS)} values are expected, what it `says` and `evidence` too"
            )
    return tuple(rows)
