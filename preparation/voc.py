"""PASCAL VOC: photographs that hold several kinds of object each."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from preparation.image_files import NOTES, check_image
from preparation.prepared import DataError, Raw

CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog",
    "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip


def read_voc(spec: Mapping[str, Any], root: Path, download: bool) -> Raw:
    """Official files as their archives unpack: ImageSets/Main/{class}_{image set}.txt and JPEGImages under `folder`.

    Labels are [N, 20]: 1 (present), 0 (only difficult objects) or -1 (absent), as the lists have them. `split_folders`
    names the image set of a split (train: trainval).
    """
    base = root / spec["folder"]
    paths, labels, splits = [], [], {}
    for split in spec["splits"]:
        image_set = spec.get("split_folders", {}).get(split, split)
        columns = [_listed(base / "ImageSets" / "Main" / f"{name}_{image_set}.txt") for name in CLASSES]
        images = list(columns[0])
        for name, column in zip(CLASSES, columns, strict=True):
            if list(column) != images:
                raise DataError(
                    f"{base / 'ImageSets' / 'Main' / f'{name}_{image_set}.txt'}: {len(column)} images, not the "
                    f"{len(images)} of {CLASSES[0]}_{image_set}.txt in their order; unpack the archives again"
                )
        for image in images:
            if not (base / "JPEGImages" / f"{image}.jpg").is_file():
                raise DataError(f"{base / 'JPEGImages' / f'{image}.jpg'}: not found, but listed in {image_set}")
            check_image(base / "JPEGImages" / f"{image}.jpg")
        paths += [f"JPEGImages/{image}.jpg" for image in images]
        labels += [[column[image] for column in columns] for image in images]
        splits[split] = len(images)
    return Raw(
        np.array(paths),
        np.array(labels),
        splits,
        f"files under {spec['folder']}",
        dict(NOTES),
        os.path.abspath(base),
        list(CLASSES),
    )


def _listed(path: Path) -> dict[str, int]:
    """image -> 1, 0 or -1 of one class list."""
    if not path.is_file():
        raise DataError(f"{path}: not found; unpack the official archives of the image set there")
    try:
        pairs = [line.split() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as problem:
        raise DataError(f"{path}: cannot be read ({problem}); unpack the archives again") from None
    if any(len(pair) != 2 or pair[1] not in ("-1", "0", "1") for pair in pairs):
        raise DataError(f"{path}: lines of an image and 1, 0 or -1 expected")
    return {image: int(label) for image, label in pairs}
