"""Which official files a data set is made from, and one hash of their content: what makes prepared data stale.

A user's own files change under the same name. So the content of all files behind a data set is part of the identity of
whatever is made from it. Hashes of files that did not change (path, size, times) are taken from a cache.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

from pipeline import catalogue
from pipeline.data_set import placed_splits
from pipeline.record import StageError, read_json, sha256, write_json

MISSING = "missing"
# Endings of image files, as torchvision's readers of folders take them.
IMAGES = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
# Where torchvision keeps the files of a class below its root; others keep them in {class}/raw.
TORCHVISION = {
    "CIFAR10": ("cifar-10-batches-py",),
    "CIFAR100": ("cifar-100-python",),
    "STL10": ("stl10_binary",),
    "USPS": ("usps.bz2", "usps.t.bz2"),
}


class DataFiles:
    """Hashes of the files behind data sets, those in `cache` (a JSON file that need not exist) taken as they are."""

    def __init__(self, root: str | Path | None, cache: str | Path | None = None):
        self.root = Path(root) if root else None
        self.cache = Path(cache) if cache else None
        self.known: dict[str, list[str]] = _read_cache(self.cache)
        self.changed = False
        self._found: dict[str, str | None] = {}

    def hash(self, spec: Mapping[str, Any]) -> str | None:
        """Hash of the content of every file behind a data set (an entry of config/datasets), 16 hex digits.

        None for a data set that needs no file, MISSING where a file that it names is not there.
        """
        key = json.dumps(spec, sort_keys=True)
        if key not in self._found:
            self._found[key] = self._hash(spec)
        return self._found[key]

    def lacking(self, spec: Mapping[str, Any]) -> str | None:
        """What of the files behind a data set is not there; None where all are, or none is needed. Hashes nothing."""
        empty = self.empty_places(spec)
        if not empty:
            return None
        return "no data root" if self.root is None else str(empty[0])

    def empty_places(self, spec: Mapping[str, Any]) -> list[Path]:
        """The files and folders behind a data set that are not there, or hold nothing that its reader takes; below
        `BENCH_DATA_ROOT` where no data root is given. Hashes nothing.
        """
        if spec["source"] == "digits":
            return []
        root = self.root or Path("BENCH_DATA_ROOT")
        return [
            place
            for place in _places(spec, root)
            if self.root is None or next(_groups(place, _wanted(spec, root, place)), None) is None
        ]

    def file(self, path: str | Path) -> str:
        """Hash of one other file that a recipe names (weights, a list of labels), or MISSING."""
        return self._group(Path(path), [Path(path)])

    def save(self) -> None:
        """Write the cache, if it grew."""
        if self.cache and self.changed:
            write_json(self.cache, self.known)
            self.changed = False

    def _hash(self, spec: Mapping[str, Any]) -> str | None:
        if spec["source"] == "digits":
            return None
        if self.root is None:
            return MISSING
        total = hashlib.sha256()
        # Not in the order of the splits: settings travel as JSON with sorted keys.
        for place in sorted(_places(spec, self.root)):
            groups = list(_groups(place, _wanted(spec, self.root, place)))
            if not groups:
                return MISSING
            for folder, files in groups:
                total.update(f"{folder.relative_to(self.root)}\0{self._group(folder, files)}\0".encode())
        return total.hexdigest()[:16]

    def _group(self, place: Path, files: list[Path]) -> str:
        """Hash of the names and contents of files that lie together; of one class of images, for instance."""
        try:
            stats = [(path.name, path.stat()) for path in files]
        except OSError:
            return MISSING
        state = hashlib.sha256()
        for name, stat in stats:
            state.update(f"{name}\0{stat.st_size}\0{stat.st_mtime_ns}\0{stat.st_ctime_ns}\0".encode())
        key, now = str(place.absolute()), state.hexdigest()[:16]
        before = self.known.get(key)
        if before is None or before[0] != now:
            content = hashlib.sha256()
            for path in files:
                content.update(f"{path.name}\0{sha256(path)}\0".encode())
            self.known[key], self.changed = [now, content.hexdigest()[:16]], True
        return self.known[key][1]


class Sources:
    """What the plan says of files outside the project: those behind data sets, and those that recipes name."""

    def __init__(self, files: DataFiles, results: str, weights_root: str | Path | None = None):
        self.files, self.results, self.weights_root = files, results, weights_root

    def of_dataset(self, name: str) -> str | None:
        """Hash that the record of a prepared data set must hold, None for a data set without files.

        Official files that are not here (any more) make nothing stale that was prepared from them, and files that
        stage `prepare` downloaded are those that it then read.
        """
        found = self.files.hash(catalogue.entry("data set", name))
        path = Path(self.results, "data", name, "card.json")
        if found is None or not path.is_file():
            return found
        try:
            record = read_json(path)["record"]
            prepared = record["inputs"].get("sources")
        except (StageError, KeyError, TypeError, AttributeError):
            return found
        return prepared if found in (MISSING, record.get("sources")) else found

    def of_recipe(self, recipe: Mapping[str, Any]) -> dict[str, str]:
        """Use -> hash of each file that a recipe names: published weights, a list of labelled images."""
        found = named_files(recipe, self.files.root, self.weights_root)
        return {use: self.files.file(path) for use, path in found.items()}


def named_files(
    recipe: Mapping[str, Any], data_root: str | Path | None, weights_root: str | Path | None
) -> dict[str, Path]:
    """Use -> path of each file that a recipe names; below the working directory where there is no root."""
    found = {}
    if weights := recipe["network"].get("weights"):
        found["weights"] = Path(weights_root or "", weights)
    if listed := recipe.get("labels", {}).get("list"):
        found["labels"] = Path(data_root or "", listed)
    return found


def _places(spec: Mapping[str, Any], root: Path) -> list[Path]:
    """The files and folders that the reader of a data set looks at (preparation/readers.py)."""
    if spec["source"] == "torchvision":
        return [root / name for name in TORCHVISION.get(spec["class"], (f"{spec['class']}/raw",))]
    if "files" in spec:
        # A reader takes the packed file only where the plain one is missing.
        plain = [root / spec["files"][split] for split in placed_splits(spec)]
        return [path if path.is_file() else path.with_name(f"{path.name}.gz") for path in plain]
    base = root / spec["folder"]
    if spec["source"] == "voc":
        return [base / "ImageSets" / "Main", base / "JPEGImages"]
    if spec["source"] == "voc_boxes":
        return list(
            dict.fromkeys(path for sets in spec["image_sets"].values() for one in sets for path in _voc(base, one))
        )
    if spec["source"] == "coco":
        folders = [spec.get("split_folders", {}).get(split, split) for split in placed_splits(spec)]
        return [base / path for path in (*spec["annotations"].values(), *folders)]
    listed = [root / spec["class_list"]] if "class_list" in spec else []
    return listed + [base / spec.get("split_folders", {}).get(split, split) for split in placed_splits(spec)]


def _voc(base: Path, image_set: str) -> list[Path]:
    """What an image set of VOC is made of: its list, the boxes and the photographs of its year."""
    folder, _, name = image_set.rpartition("/")
    year = base / folder
    return [year / "ImageSets" / "Main" / f"{name}.txt", year / "Annotations", year / "JPEGImages"]


def is_hidden(name: str) -> bool:
    """Whether a file or folder is a system's or a program's own (.DS_Store, .ipynb_checkpoints), and no data."""
    return name.startswith(".") or name == "__MACOSX"


def is_image(name: str) -> bool:
    """Whether a file is taken for an image, by the ending of its name."""
    return name.lower().endswith(IMAGES) and not is_hidden(name)


def _wanted(spec: Mapping[str, Any], root: Path, place: Path) -> Callable[[str, str], bool]:
    """Which files at a place its reader takes, by (folder below it, name): others make nothing stale."""
    if spec["source"] != "folder":
        return lambda folder, name: not is_hidden(name)
    if place == root / spec["folder"] / spec.get("split_folders", {}).get("unlabeled", "unlabeled"):
        return lambda folder, name: is_image(name)
    listed = _listed(root / spec["class_list"]) if "class_list" in spec else None

    def of_a_class(folder: str, name: str) -> bool:
        above = PurePath(folder).parts
        return bool(above) and (listed is None or above[0] in listed) and is_image(name)

    return of_a_class


def _listed(path: Path) -> set[str] | None:
    """The classes that a list names; None for a list that its reader will refuse."""
    try:
        return {line.split()[0] for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()}
    except (OSError, UnicodeDecodeError):
        return None


def _groups(place: Path, wanted: Callable[[str, str], bool]) -> Iterator[tuple[Path, list[Path]]]:
    """(place, [it]) for a file; (folder, its files) for every folder below one, in order; nothing where none is."""
    if place.is_file():
        yield place, [place]
    elif place.is_dir():
        for folder, below, names in os.walk(place, followlinks=True):
            below[:] = sorted(name for name in below if not is_hidden(name))
            here = os.path.relpath(folder, place)
            # Links to nothing, and what is no file, are nothing that a reader takes.
            taken = (Path(folder, name) for name in sorted(names) if wanted("" if here == "." else here, name))
            if files := [path for path in taken if path.is_file()]:
                yield Path(folder), files


def _read_cache(path: Path | None) -> dict[str, list[str]]:
    if path is None or not path.is_file():
        return {}
    try:
        stored = read_json(path)
    except StageError:  # cut off by a full disk: everything is hashed anew
        return {}
    return stored if isinstance(stored, dict) else {}
