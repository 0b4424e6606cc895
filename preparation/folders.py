"""Image files in folders of classes, as ImageNet lays them out, and without classes in any folders."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from pipeline.data_files import is_hidden, is_image
from preparation.image_files import NOTES, check_image
from preparation.prepared import DataError, Raw


def read_folder(spec: Mapping[str, Any], root: Path, download: bool) -> Raw:
    """Image files as ImageNet lays them out, {folder}/{split}/{class}/*.JPEG: listed here, decoded when they are used.

    Classes are the folder names in sorted order, the same in every split, or the lines of `class_list` (a file under
    the root), which select a subset such as SCAN's ImageNet-50. Every split must hold every class. The files of split
    `unlabeled` may lie in any folders, and have label -1.
    """
    base = root / spec["folder"]
    folders = {split: base / spec.get("split_folders", {}).get(split, split) for split in spec["splits"]}
    labelled = {split: folder for split, folder in folders.items() if split != "unlabeled"}
    classes = _classes(spec, root, base, labelled) if labelled else None
    paths, labels, splits = [], [], {}
    for split, folder in folders.items():
        found = _of_classes(folder, classes or []) if split in labelled else _of_none(folder)
        for path, _ in found:
            check_image(Path(path))
        paths += [str(Path(path).relative_to(base)) for path, _ in found]
        labels += [label for _, label in found]
        splits[split] = len(found)
    source = f"files under {spec['folder']}"
    return Raw(np.array(paths), np.array(labels), splits, source, dict(NOTES), os.path.abspath(base), classes)


def _of_classes(folder: Path, classes: Sequence[str]) -> list[tuple[str, int]]:
    """(path, label) of the image files in the folders of the classes, in order."""
    from torchvision.datasets.folder import IMG_EXTENSIONS, make_dataset

    try:
        found = make_dataset(str(folder), {name: number for number, name in enumerate(classes)}, IMG_EXTENSIONS)
    except FileNotFoundError as problem:  # a class without files among them
        raise DataError(f"{folder}: {problem}; put the files of the class there") from None
    found = [(path, label) for path, label in found if Path(path).name[0] != "."]
    return sorted(found, key=lambda pair: (pair[1], pair[0]))


def _of_none(folder: Path) -> list[tuple[str, int]]:
    """(path, -1) of every image file below the folder, in order."""
    found = sorted(str(path) for path in image_files(folder))
    if not found:
        raise DataError(f"{folder}: no image files below it; put the images without labels there")
    return [(path, -1) for path in found]


def image_files(folder: Path) -> Iterator[Path]:
    """The image files below a folder, in order; what is hidden is left out."""
    for here, below, names in os.walk(folder, followlinks=True):
        below[:] = sorted(name for name in below if not is_hidden(name))
        yield from (Path(here, name) for name in sorted(names) if is_image(name))


def _classes(spec: Mapping[str, Any], root: Path, base: Path, folders: Mapping[str, Path]) -> list[str]:
    """The one list of classes of all splits."""
    found = {split: class_folders(folder, base) for split, folder in folders.items()}
    listed = _listed(root / spec["class_list"]) if "class_list" in spec else None
    classes = listed or sorted(set().union(*found.values()))
    for split, here in found.items():
        lacking = [name for name in classes if name not in here]
        if lacking:
            having = [other for other, names in found.items() if lacking[0] in names]
            raise DataError(
                f"{folders[split]}: split {split!r} has no folder of class {lacking[0]!r}, which "
                f"{f'split {having[0]!r} has' if having else 'the class list names'}"
                f"{f' (nor of {len(lacking) - 1} more)' if len(lacking) > 1 else ''}; every split must hold every "
                "class, or a class_list must name those to use"
            )
    if len(classes) != spec["classes"]:
        raise DataError(
            f"{base}: {len(classes)} class folders found ({', '.join(classes[:3])}, ...), {spec['classes']} expected; "
            "a folder level too many is a usual cause"
        )
    return classes


def class_folders(folder: Path, base: Path) -> set[str]:
    """Names of the folders in the folder of a split, each of which stands for a class."""
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; expected {{split}}/{{class}}/files under {base}")
    entries = list(folder.iterdir())
    for entry in entries:
        if entry.is_symlink() and not entry.exists():
            raise DataError(f"{entry}: a link to what does not exist; mend or delete it")
    return {entry.name for entry in entries if entry.is_dir() and not is_hidden(entry.name)}


def _listed(path: Path) -> list[str]:
    """The first word of each line."""
    if not path.is_file():
        raise DataError(f"{path}: no such file; it names the classes to use, one a line")
    try:
        names = [line.split()[0] for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as problem:
        raise DataError(f"{path}: cannot be read ({problem}); text in UTF-8 expected, a class a line") from None
    for number, name in enumerate(names):
        if name in names[:number]:
            raise DataError(f"{path}: class {name!r} stands twice; delete one of the lines")
        if PurePath(name).name != name or name == "..":
            raise DataError(f"{path}: class {name!r} is no name of a folder; give names without slashes")
    if not names:
        raise DataError(f"{path}: names no class; one a line expected")
    return names
