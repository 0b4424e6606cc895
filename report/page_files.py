"""Files beside the report page, copies of tables and figures so that its folder can be given away whole, and claims."""

import csv
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from pipeline import catalogue
from pipeline.naming import ConfigError
from pipeline.record import StageError, reading, whole
from report.page_tables import minute


@dataclass(frozen=True)
class Picture:
    """A figure: its title, its files relative to the page, and when it was drawn."""

    title: str
    files: list[str]  # .png first
    drawn: str
    asked: bool  # whether the suite names it, and so keeps it up to date


@dataclass(frozen=True)
class Claims:
    """claims.csv as it is, or why it cannot be shown."""

    head: list[str]
    rows: list[list[str]]
    problem: str = ""


def pictures(results: Path, asked: set[Path], folder: Path) -> list[Picture]:
    """All figures of a results folder, those that the suite asks for first, copied into `folder`/figures."""
    known = {path.resolve() for path in asked}
    found = sorted((results / "figures").rglob("*.png"), key=lambda path: (path.resolve() not in known, path))
    return [_picture(path, results / "figures", path.resolve() in known, folder) for path in found]


def _picture(path: Path, figures: Path, asked: bool, folder: Path) -> Picture:
    files = [path, *(other for other in (path.with_suffix(".pdf"),) if other.is_file())]
    copies = [_copied(file, folder, Path("figures", file.relative_to(figures))) for file in files]
    try:
        title = catalogue.entry("figure", path.stem)["title"]
    except ConfigError:  # a figure of another suite, or one that was put there by hand
        title = path.stem.replace("_", " ")
    with reading(path):
        drawn = minute(datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat())
    return Picture(title, copies, drawn, asked)


def table_files(table: Path, results: Path, folder: Path) -> list[str]:
    """The files of a table that exist, copied into `folder`/tables; `table` is its .csv. Raises StageError for a table
    of another results folder.
    """
    try:
        place = table.resolve().relative_to(results.resolve())
    except ValueError:
        raise StageError(f"{table}: not in {results}; name the results folder that the plans are of") from None
    files = [path for ending in (".csv", ".md", ".tex") if (path := table.with_suffix(ending)).is_file()]
    return [_copied(path, folder, "tables" / place.with_suffix(path.suffix)) for path in files]


def _copied(path: Path, folder: Path, place: Path) -> str:
    """Copy a file to a place below `folder`, and return the place as a link has it."""
    with reading(path), open(path, "rb") as source, whole(folder / place) as target:
        shutil.copyfileobj(source, target)
    return quote(place.as_posix())


def read_claims(path: Path) -> Claims | None:
    """The claims of a results folder, None where there are none."""
    if not path.is_file():
        return None
    try:
        with reading(path), open(path, encoding="utf-8", newline="") as file:
            head, *rows = list(csv.reader(file, strict=True)) or [[]]
    except (StageError, UnicodeDecodeError, csv.Error) as problem:
        return Claims([], [], f"{path}: cannot be read: {problem}")
    return Claims(head, [(row + [""] * len(head))[: len(head)] for row in rows if row])
