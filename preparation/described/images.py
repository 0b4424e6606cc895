"""Images: the shape they are brought to, their channels, the family of settings that suits them, their statistics."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pipeline.data_files import is_image
from preparation.decoding import fitted
from preparation.described.found import Found, Wishes, count_rows, in_words
from preparation.described.layout import Layout
from preparation.folders import class_folders
from preparation.image_files import read_image
from preparation.prepared import DataError
from preparation.readers import read

# Sides that image files of several sizes are brought to: of CIFAR, Tiny ImageNet, STL10. The recipes have no settings
# for larger images, which cost time by the square of the side.
SIDES = (32, 64, 96)
# Smallest shorter side: four 3 x 3 layers with two poolings see no less.
LEAST = 4
# channels -> (largest side, family of config/families), the first that is no smaller.
FAMILIES = {1: ((12, "digits"), (20, "grey16"), (48, "grey28")), 3: ((48, "cifar"),)}
LARGE = "stl"
LOOKED_AT = 500  # files whose size and mode are read
SAMPLED = 2000  # training images that are decoded for the statistics, fewer where they fill more than
SAMPLED_BYTES = 256 << 20
IN_MEMORY = 2 << 30  # bytes: what is larger stays files, which are decoded whenever they are used


def look_at_images(folder: Path, how: Layout, wishes: Wishes, title: str) -> Found:
    """Describe a folder of image files; every file's header is read. DataError names what cannot be used."""
    found = Found(folder.parent)
    found.lines.append(("found", f"{folder}: {how.words}{_ignored(folder)}"))
    found.decide("title", title, "name in tables")
    found.decide("family", None)
    found.decide("source", "folder", "image files")
    found.decide("folder", folder.name, "below the suite's data_root")
    if how.folders != {split: split for split in how.folders}:
        found.decide("split_folders", how.folders, "below that folder")
    if how.cut:
        found.decide("test_share", wishes.test_share, "cut by a hash of each file's path: files added move no other")
    raw = read(
        {**found.spec, "splits": _wanted(how), "classes": _classes(folder, how), "shape": [1, 1, 3]}, found.root, False
    )
    root = Path(str(raw.root))
    _refuse_odd_names(raw.images)
    sample = [root / str(raw.images[row]) for row in spread(len(raw.images), LOOKED_AT)]
    shape, why = _shape(sample, wishes)
    kept = len(raw.images) * int(np.prod(shape))
    if kept <= IN_MEMORY:
        found.decide("decode", True, f"{kept / 1e6:,.0f} MB as bytes: decoded and resized once, when they are prepared")
    else:
        found.paths = raw.images
    count_rows(found, raw, wishes)
    found.decide("shape", shape, why)
    choose_family(found)
    first = next(iter(raw.splits.values()))
    rows = spread(first, min(SAMPLED, max(1, SAMPLED_BYTES // int(np.prod(shape)))))
    pixels = np.stack([fitted(root / str(raw.images[row]), shape) for row in rows])
    statistics(found, pixels, first)
    found.lines.append(
        ("images", f"{why}; prepared as {in_words(shape)}{'' if 'decode' in found.spec else ', files stay files'}")
    )
    return found


def _wanted(how: Layout) -> dict[str, int]:
    """Names of the splits for the reader, which counts their rows itself."""
    return dict.fromkeys([*how.folders, *(["test"] if how.cut else [])], 1)


def _classes(folder: Path, how: Layout) -> int:
    """The number of folders that stand for classes, in all splits."""
    labelled = [folder / name for split, name in how.folders.items() if split != "unlabeled"]
    return len(set().union(*(class_folders(place, folder) for place in labelled))) if labelled else 0


def _refuse_odd_names(paths: np.ndarray) -> None:
    for path in map(str, paths):
        try:
            path.encode()
        except UnicodeEncodeError:
            raise DataError(f"{path!r}: a name of a file or folder that is not in UTF-8; rename it") from None


def _ignored(folder: Path) -> str:
    """The files that are taken for no images, by ending."""
    names = [path.name for path in folder.rglob("*") if path.is_file() and not is_image(path.name)]
    endings = Counter(Path(name).suffix.lower() or name for name in names if not name.startswith("."))
    listed = ", ".join(f"{ending} {count:,}" for ending, count in endings.most_common(3))
    return f" (not read: {listed})" if listed else ""


def _shape(sample: Sequence[Path], wishes: Wishes) -> tuple[list[int], str]:
    """Height, width and channels that the files are brought to, and why."""
    from PIL import Image

    sizes, modes = [], set()
    for path in sample:
        with Image.open(path) as image:
            sizes.append(image.size)
            modes.add(image.mode)
    grey = all(mode in ("1", "L", "LA", "I") or mode.startswith("I;16") for mode in modes) or _no_colour(sample[:50])
    width, height = (int(value) for value in np.median(np.array(sizes), axis=0))
    count = f"{len(sample):,} of the files" if len(sample) == LOOKED_AT else "the files"
    said = f"{height} x {width} pixels (median of {count})" if len(set(sizes)) > 1 else f"{height} x {width} pixels"
    channels = 1 if grey else 3
    if wishes.size:
        return [*wishes.size, channels], f"{said}; --size"
    if len(set(sizes)) == 1 and max(height, width) <= SIDES[-1]:
        return [height, width, channels], said
    side = max((side for side in SIDES if side <= min(height, width)), default=SIDES[0])
    return [side, side, channels], f"{said}; --size for another"


def _no_colour(sample: Sequence[Path]) -> bool:
    """Whether the channels of files are equal, as of grey photographs that were stored as RGB."""
    images = (read_image(path) for path in sample)
    return all((pixels == pixels[:, :, :1]).all() for pixels in images)


def choose_family(found: Found) -> None:
    """The family of config/families for the images' channels and larger side."""
    height, width, channels = found.spec["shape"]
    if min(height, width) < LEAST:
        raise DataError(
            f"images of {height} x {width} pixels found, {LEAST} x {LEAST} or more expected; store such rows as "
            "vectors [N, d]"
        )
    family = next((name for side, name in FAMILIES[channels] if max(height, width) <= side), LARGE)
    found.decide(
        "family",
        family,
        f"{in_words(found.spec['shape'])}: network, views and optimiser of config/families/{family}.yaml",
    )


def statistics(found: Found, pixels: np.ndarray, rows: int) -> None:
    """Mean and standard deviation of every channel of training images [n, H, W, C], bytes or 0..1, n of `rows`."""
    unit = 255 if pixels.dtype == np.uint8 else 1
    flat = pixels.reshape(-1, pixels.shape[-1])
    mean, std = flat.mean(0, dtype=np.float64) / unit, flat.std(0, dtype=np.float64) / unit
    values = {"mean": [round(float(value), 4) for value in mean], "std": [round(float(value), 4) for value in std]}
    if not any(values["std"]):
        raise DataError("all pixels of the images have one and the same value; look at the files")
    values["std"] = [value or 1.0 for value in values["std"]]  # a channel that is constant
    of = f"{len(pixels):,} of the {rows:,}" if len(pixels) < rows else f"the {rows:,}"
    found.decide("normalisation", values, f"measured on {of} rows of the first split, in 0..1")
    found.lines.append(("statistics", f"mean {_short(values['mean'])}, standard deviation {_short(values['std'])}"))


def _short(values: Sequence[float]) -> str:
    return " ".join(f"{value:.3f}" for value in values)


def spread(rows: int, most: int) -> np.ndarray:
    """Up to `most` of the numbers 0..rows - 1, evenly spaced."""
    return np.unique(np.linspace(0, rows - 1, min(rows, most)).astype(int))
