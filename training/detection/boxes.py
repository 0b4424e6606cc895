"""Objects in an image as they are, and as a detector finds them: what readers give and both evaluators take."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

Mask = dict[str, Any]  # run lengths as pycocotools has them: {"size": [height, width], "counts": bytes}


@dataclass(frozen=True)
class Truth:
    """Objects of one image; boxes are left, top, right, bottom in pixels from 0, edges of the area they cover."""

    boxes: np.ndarray  # [n, 4] float
    labels: np.ndarray  # [n] class of each, from 0
    ignored: np.ndarray  # [n] bool: VOC's "difficult" objects, COCO's crowds
    areas: np.ndarray | None = None  # [n] as the file has them; without: of the boxes
    masks: list[Mask] = field(default_factory=list)  # of each object, where there are masks


@dataclass(frozen=True)
class Found:
    """Detections in one image, in the units of `Truth`."""

    boxes: np.ndarray  # [m, 4] float
    labels: np.ndarray  # [m]
    scores: np.ndarray  # [m]
    masks: list[Mask] = field(default_factory=list)


def empty() -> Found:
    """An image in which nothing was found."""
    return Found(np.zeros((0, 4)), np.zeros(0, np.int64), np.zeros(0))
