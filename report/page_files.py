"""Files beside the report page, copies of tables and figures so that its folder can be given away whole."""

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


def pictures(results: Path, asked: set[Path], folder: Path) -> list[Picture]:
    """All figures of a results folder, those that the suite asks for first, copied into `folder`/figures."""
    kept = sorted(path.absolute() for path in asked if path.is_file())
    others = sorted({path.absolute() for path in (results / "figures").rglob("*.png")} - {*kept})
    return [_picture(path, results, path in kept, folder) for path in (*kept, *others)]


def _picture(path: Path, results: Path, asked: bool, folder: Path) -> Picture:
    files = [path, *(other for other in (path.with_suffix(".pdf"),) if other.is_file())]
    copies = [_copied(file, folder, "figures" / _place(file, results)) for file in files]
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
    files = [path for ending in (".csv", ".md", ".tex") if (path := table.with_suffix(ending)).is_file()]
    return [_copied(path, folder, "tables" / _place(path, results)) for path in files]


def _place(path: Path, results: Path) -> Path:
    """Where a file lies in the results folder, its folders of figures left out."""
    try:
        place = path.absolute().relative_to(results.absolute())
    except ValueError:
        raise StageError(f"{path}: not in {results}; name the results folder that the plans are of") from None
    return Path(*(part for part in place.parent.parts if part != "figures"), place.name)


def _copied(path: Path, folder: Path, place: Path) -> str:
    """Copy a file to a place below `folder`, and return the place as a link has it."""
    with reading(path), open(path, "rb") as source, whole(folder / place) as target:
        shutil.copyfileobj(source, target)
    return quote(place.as_posix())
