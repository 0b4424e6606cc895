"""How a folder of image files is labelled and split, by the names of its folders."""

from dataclasses import dataclass
from pathlib import Path

from pipeline.data_files import is_hidden, is_image
from preparation.described.found import SPLITS
from preparation.folders import image_files
from preparation.prepared import DataError


@dataclass
class Layout:
    """split -> folder below the one described; `cut`: the split train is yet to be cut into train and test."""

    folders: dict[str, str]
    cut: bool
    words: str


def layout(folder: Path, labels: bool) -> Layout | None:
    """The layout of a folder, None where no image file lies in it. DataError for what could be read in two ways."""
    here = [path for path in folder.iterdir() if is_image(path.name)]
    below = {path.name: path for path in sorted(folder.iterdir()) if path.is_dir() and not is_hidden(path.name)}
    filled = {name: path for name, path in below.items() if next(image_files(path), None)}
    if not here and not filled:
        return None
    splits = _splits(folder, list(below))
    if not labels:
        return Layout({"unlabeled": "."}, False, "no labels (--no-labels), in any folders")
    if set(splits) - {"unlabeled"}:
        others = [name for name in filled if name not in splits.values()]
        if here or others:
            found = f"{len(here)} image files lie" if here else f"folder {others[0]!r} lies"
            raise DataError(
                f"{folder}: {found} beside the splits {', '.join(splits.values())}; move what belongs to a split into "
                "it, or everything else elsewhere"
            )
        return _of_splits(folder, splits)
    if "unlabeled" in splits and len(filled) > 1:
        raise DataError(
            f"{folder}: classes lie beside {splits['unlabeled']!r}; move the folders of the classes into a folder train"
        )
    if here and filled:
        raise DataError(
            f"{folder}: {len(here)} image files lie beside the folders {', '.join(list(filled)[:3])}; move them into "
            "folders of classes, or say --no-labels if the folders are none"
        )
    if here or "unlabeled" in splits:
        return Layout({"unlabeled": "."}, False, "no labels: image files without folders of classes")
    if len(filled) == 1:
        raise _one_class(folder, next(iter(filled)))
    empty = [name for name in below if name not in filled]
    if empty:
        raise DataError(f"{folder / empty[0]}: no image file in it; a folder stands for a class: fill or delete it")
    return Layout({"train": "."}, True, "labelled: a folder a class, no splits")


def _splits(folder: Path, names: list[str]) -> dict[str, str]:
    """split -> name of its folder."""
    splits: dict[str, str] = {}
    for name in names:
        split = SPLITS.get(name.lower())
        if split in splits:
            raise DataError(f"{folder}: {splits[split]!r} and {name!r} both name the split {split}; rename one")
        if split:
            splits[split] = name
    return splits


def _of_splits(folder: Path, splits: dict[str, str]) -> Layout:
    """Of folders that have the names of splits: those with folders of classes are labelled."""
    labelled = {split: name for split, name in splits.items() if split != "unlabeled" and _has_classes(folder / name)}
    others = [
        name for split, name in splits.items() if split not in labelled and next(image_files(folder / name), None)
    ]
    if not labelled:
        return Layout({"unlabeled": "."}, False, f"no labels: no folders of classes in {', '.join(splits.values())}")
    if len(others) > 1:
        raise DataError(f"{folder}: {' and '.join(others)} both hold images without classes; move them into unlabeled")
    if "train" not in labelled and len(labelled) > 1:
        raise DataError(
            f"{folder}: splits {', '.join(labelled)}, but no folders of classes in train; name one of them train"
        )
    if len(labelled) == 1:
        folders = {"train": next(iter(labelled.values()))}
    elif "test" not in labelled:
        folders = {"train": labelled["train"], "test": labelled["val"]}
    else:
        folders = labelled
    words = f"labelled: {', '.join(folders.values())} with a folder a class"
    if others:
        folders, words = {**folders, "unlabeled": others[0]}, f"{words}; {others[0]} without labels"
    return Layout(folders, len(labelled) == 1, words)


def _has_classes(folder: Path) -> bool:
    return any(next(image_files(path), None) for path in folder.iterdir() if path.is_dir() and not is_hidden(path.name))


def _one_class(folder: Path, name: str) -> DataError:
    inside = [path.name for path in sorted((folder / name).iterdir()) if path.is_dir()]
    if inside:
        return DataError(
            f"{folder}: one folder {name!r} alone, with the folders {', '.join(inside[:3])} in it; describe "
            f"{folder / name}"
        )
    return DataError(
        f"{folder}: one class only ({name!r}), two or more expected; with --no-labels --clusters K its images are "
        "clustered without labels"
    )
