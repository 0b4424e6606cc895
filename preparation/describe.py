"""Own data in one command: looks at a folder or file, writes its data set, a suite of methods, and a quick one.

./run python -m preparation.describe ~/birds                     # images: {class}/*, {split}/{class}/*, or no classes
./run python -m preparation.describe birds.npz --name my_birds   # x [N, H, W], [N, H, W, C] or [N, d], and y [N]
./run python -m preparation.describe flowers.csv --label species # a table of numbers with labels
./run python -m preparation.describe ~/photos --no-labels --clusters 10
"""

import argparse
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline import catalogue
from pipeline.data_set import check_name
from pipeline.naming import ConfigError
from pipeline.options import Parser
from pipeline.processes import ends_on_sigterm
from pipeline.record import StageError, run_stage, whole
from preparation.described.arrays import ENDINGS, ending, look_at_arrays, number_files
from preparation.described.files import PARTS, Written, both, commands, written
from preparation.described.found import TEST_SHARE, Found, Wishes
from preparation.described.images import look_at_images
from preparation.described.layout import layout
from preparation.described.sized import Machine
from preparation.prepared import DataError

LARGEST = 2048  # pixels of a side: recipes have settings for 96, and time goes by the square
ARCHIVES = (".zip", ".tar", ".tgz", ".7z", ".rar")


def main() -> None:
    arguments = _arguments()
    place = Path(os.path.abspath(Path(arguments.place).expanduser()))  # a link keeps its name, `..` goes
    name = arguments.name or _name_of(place)
    _check_free(name, arguments.force)
    machine = Machine(arguments.cores, arguments.minutes, arguments.rows_per_second)
    with ends_on_sigterm():
        found = look(place, _wishes(arguments), arguments.title or name)
        with tempfile.TemporaryDirectory(prefix="bench-describe-") as staged, _own(Path(staged)):
            files = written(name, place, found, machine, Path(staged))
    for path, text in files.texts.items():
        with whole(catalogue.OWN / path, "w") as file:
            file.write(text)
    for path in set(_paths(name)) - set(files.texts):  # of an earlier description that needed more files
        (catalogue.OWN / path).unlink(missing_ok=True)
    print("\n".join(screen(name, found, files)))


def _arguments() -> argparse.Namespace:
    parser = Parser(prog="describe", description=__doc__)
    add = parser.add_argument
    add("place", help="folder of images, or of files train.npz and test.npz; or a file .npz, .npy, .csv, .tsv")
    add("--name", help="name of data set, suite and table: small letters, digits, underscores (default: the place's)")
    add("--title", help="name in tables (default: the name)")
    add("--label", metavar="COLUMN", help="column of the labels, its name or number from 0 (default: looked for)")
    add("--no-labels", action="store_true", help="there are no labels, whatever looks like them (default: looked for)")
    add("--drop", metavar="COLUMN", action="append", default=[], help="a column that is no value; may be repeated")
    add("--clusters", type=int, metavar="K", help="clusters to seek where there are no labels")
    add("--size", type=int, nargs="+", metavar="SIDE", help="side, or height and width: of the images that files are "
        "brought to, or of the grey images that rows of numbers hold")  # fmt: skip
    add(
        "--test-share",
        type=float,
        default=TEST_SHARE,
        help="share of a single split that is cut off as test (default: %(default)s)",
    )
    add("--standardise", action=argparse.BooleanOptionalAction, help="bring the columns of vectors to mean 0 and "
        "deviation 1 (default: where their units differ)")  # fmt: skip
    add("--minutes", type=float, default=15, help="time of the quick suite on this machine (default: %(default)s)")
    add(
        "--cores", type=int, default=Machine.here(), help="cores of the machine that shall train (default: %(default)s)"
    )
    add("--rows-per-second", type=float, metavar="V", help="speed of one training there (default: measured here)")
    add("--force", action="store_true", help="replace what was described before under this name")
    arguments = parser.parse_args()
    for option in ("minutes", "cores", "rows_per_second"):
        if (value := getattr(arguments, option)) is not None and not value > 0:
            parser.error(f"--{option.replace('_', '-')}: {value:g} found, more than 0 expected")
    if not 0 < arguments.test_share < 1:
        parser.error(f"--test-share: {arguments.test_share:g} found, a share between 0 and 1 expected")
    if arguments.size and (len(arguments.size) > 2 or min(arguments.size) < 1):
        parser.error("--size: one side, or height and width expected")
    if arguments.size and max(arguments.size) > LARGEST:
        parser.error(f"--size: {max(arguments.size)} found, sides of at most {LARGEST} pixels expected")
    if arguments.no_labels and arguments.label is not None:
        parser.error("--label and --no-labels exclude each other")
    return arguments


def _wishes(arguments: argparse.Namespace) -> Wishes:
    size = (arguments.size[0], arguments.size[-1]) if arguments.size else None
    label = None if arguments.label is None else _column(arguments.label)
    return Wishes(
        label, not arguments.no_labels, tuple(map(_column, arguments.drop)), arguments.clusters, size,
        arguments.test_share, arguments.standardise,
    )  # fmt: skip


def _column(word: str) -> int | str:
    return int(word) if re.fullmatch(r"-?\d+", word) else word


def _name_of(place: Path) -> str:
    """A name that paths of results may hold, from that of a folder or file."""
    plain = re.sub("[^a-z0-9]+", "_", place.name.partition(".")[0].lower()).strip("_")
    return plain or "own_data"


def _check_free(name: str, force: bool) -> None:
    """The name is one that may stand in paths, and nobody else's. Before anything is looked at."""
    try:
        check_name("data set", name, "--name")
    except ConfigError as problem:
        raise StageError(str(problem).replace("rename it, say to", "say --name")) from None
    for path in _paths(name):
        if (catalogue.CONFIG / path).is_file():
            raise StageError(f"config/{path} is part of the project; choose another name: --name my_{name}")
        if (catalogue.OWN / path).is_file() and not force:
            own = catalogue.short(catalogue.OWN / path)
            raise StageError(f"{own} exists; --force replaces it, --name NAME leaves it alone")


def _paths(name: str) -> list[str]:
    """Every file below own/ that a description may write."""
    return [f"{part}/{taken}.yaml" for part in PARTS for taken in both(name)]


def look(place: Path, wishes: Wishes, title: str) -> Found:
    """What lies at a place. DataError for what cannot be used, with the cure."""
    if not place.exists():
        raise DataError(f"{place}: no such file or folder; see how it is written")
    if place.is_file():
        if ending(place) in ENDINGS:
            return look_at_arrays({"train": place}, wishes, title)
        cure = "unpack it and describe the folder" if ending(place) in ARCHIVES else "describe a folder of images"
        raise DataError(f"{place}: {', '.join(ENDINGS)} expected of a file; {cure}")
    if files := number_files(place):
        return look_at_arrays(files, wishes, title)
    if how := layout(place, wishes.labels):
        return look_at_images(place, how, wishes, title)
    held = sorted(path.name for path in place.iterdir())
    raise DataError(
        f"{place}: no images (jpg, png, bmp, webp, tif, ppm, pgm) below it, nor files train{ENDINGS[0]} or "
        f"train{ENDINGS[2]} in it, {'only ' + ', '.join(held[:3]) if held else 'it is empty'}; describe the folder or "
        "file that holds the data"
    )


@contextmanager
def _own(folder: Path) -> Iterator[None]:
    """While files are tried out, before one of them is written where it belongs."""
    before, catalogue.OWN = catalogue.OWN, folder
    try:
        yield
    finally:
        catalogue.OWN = before


def screen(name: str, found: Found, files: Written) -> list[str]:
    """What was found and decided, and what to type next: one screen."""
    width = max(len(what) for what, _ in (*found.lines, *files.lines))
    lines = [f"{what:<{width}}  {words}" for what, words in (*found.lines, *files.lines)]
    written = ", ".join(files.texts)
    return [
        f"{name}:", *(f"  {line}" for line in lines), f"written below {catalogue.short(catalogue.OWN)}: {written}",
        "next:",        *(f"  {command}" for command in commands(name)),
    ]  # fmt: skip


if __name__ == "__main__":
    run_stage(main)
