"""Objects in photographs: what readers of boxes find, and the arrays in which a prepared folder has them.

Boxes are left, top, right, bottom in pixels from 0, edges of the area they cover.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from preparation.arrays import read_arrays
from preparation.prepared import OBJECTS, DataError, Prepared

OUTSIDE = 1.0  # pixels that a box of the official files may reach over the edge of its image


@dataclass(frozen=True)
class Scene:
    """All that is known of one photograph. `masks`: of every object, compressed run lengths of pycocotools, or none."""

    size: tuple[int, int]  # height, width
    boxes: np.ndarray  # [n, 4] float
    labels: np.ndarray  # [n] from 0
    ignored: np.ndarray  # [n] bool: VOC's "difficult" objects, COCO's crowds
    areas: np.ndarray  # [n] as the source has them
    masks: list[bytes] = field(default_factory=list)


def checked(scene: Scene, where: str, flat: bool = False) -> Scene:
    """The scene, if its boxes are boxes within the image. `flat`: a box may be of no height or width, as some of COCO
    are. Raises DataError that begins with `where`.
    """
    (height, width), boxes = scene.size, scene.boxes
    if not np.isfinite(boxes).all():
        raise DataError(f"{where}: a box with a coordinate that is no number; mend or remove the object")
    sides = boxes[:, 2:] - boxes[:, :2]
    empty = (sides < 0).any(1) if flat else (sides <= 0).any(1)
    outside = (boxes[:, :2] < -OUTSIDE).any(1) | (boxes[:, 2:] > np.array([width, height]) + OUTSIDE).any(1)
    for bad, what in ((empty, "ends before it begins"), (outside, f"reaches out of an image of {width} x {height}")):
        if bad.any():
            box = [round(float(value), 2) for value in boxes[bad.argmax()]]
            raise DataError(
                f"{where}: the box {box} (left, top, right, bottom from 0) {what}; mend it, or see that the image is "
                "the one it was drawn on"
            )
    return scene


def arrays_of(scenes: Sequence[Scene]) -> dict[str, np.ndarray]:
    """The scenes as arrays: rows of `sizes` are images; image i has objects starts[i] to starts[i + 1], and byte
    mask_starts[j] to mask_starts[j + 1] of `masks` are object j's. Where any object has no mask, none is kept.
    """
    with_masks = any(len(scene.labels) for scene in scenes)
    with_masks &= all(len(scene.masks) == len(scene.labels) for scene in scenes)
    masks = [mask for scene in scenes for mask in scene.masks] if with_masks else []
    return {
        "sizes": np.array([scene.size for scene in scenes], np.int64).reshape(-1, 2),
        "starts": _starts([len(scene.labels) for scene in scenes]),
        "boxes": np.concatenate([np.zeros((0, 4)), *(scene.boxes.reshape(-1, 4) for scene in scenes)]),
        "labels": np.concatenate([np.zeros(0, np.int64), *(scene.labels for scene in scenes)]).astype(np.int64),
        "ignored": np.concatenate([np.zeros(0, bool), *(scene.ignored for scene in scenes)]).astype(bool),
        "areas": np.concatenate([np.zeros(0), *(scene.areas for scene in scenes)]),
        "masks": np.frombuffer(b"".join(masks), np.uint8),
        "mask_starts": _starts([len(mask) for mask in masks]),
    }


def presence(scenes: Sequence[Scene], classes: int) -> np.ndarray:
    """[N, classes] as VOC's lists have it: 1 (an object of the class), 0 (only ignored ones) or -1 (none)."""
    labels = np.full((len(scenes), classes), -1)
    for row, scene in enumerate(scenes):
        labels[row, scene.labels] = 0
        labels[row, scene.labels[~scene.ignored]] = 1
    return labels


class Scenes:
    """The scenes of a prepared data set, by row."""

    def __init__(self, arrays: Mapping[str, np.ndarray]):
        self.arrays = arrays
        self.has_masks = len(arrays["mask_starts"]) == len(arrays["labels"]) + 1 and len(arrays["labels"]) > 0

    def __len__(self) -> int:
        return len(self.arrays["sizes"])

    def __getitem__(self, row: int) -> Scene:
        found, (first, last) = self.arrays, self.arrays["starts"][row : row + 2].tolist()
        height, width = found["sizes"][row].tolist()
        columns = (found[name][first:last] for name in ("boxes", "labels", "ignored", "areas"))
        ends = found["mask_starts"][first : last + 1].tolist() if self.has_masks else []
        masks = [found["masks"][a:b].tobytes() for a, b in pairwise(ends)]
        return Scene((height, width), *columns, masks)


def read_scenes(data: Prepared) -> Scenes:
    """The objects of a prepared data set. Raises DataError where it has none, Damaged where they changed."""
    if OBJECTS not in data.card["sha256"]:
        raise DataError(f"data set {data.card['name']!r} has no boxes: detection needs one of source voc_boxes or coco")
    record: dict[str, Any] = {"files": {OBJECTS: data.card["sha256"][OBJECTS]}}
    return Scenes(read_arrays(Path(data.folder, OBJECTS), record))


def _starts(lengths: Sequence[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)
