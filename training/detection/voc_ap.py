"""Average precision of PASCAL VOC 2007: eleven points, at every overlap.

This is detectron2's evaluator, which MoCo and PCL use. Not the area under the curve of VOC07's classification, and not
COCO's 101 points: the three differ by several points.
"""

import numpy as np

from training.detection.boxes import Found, Truth

OVERLAPS = tuple(range(50, 100, 5))  # in per cent


def voc_scores(truths: list[Truth], founds: list[Found], classes: int, rounded: bool = True) -> dict[str, float]:
    """AP50, AP75 and AP (mean over OVERLAPS and classes), each 0..1, of detections in images (one of each per image).

    A class without an object that counts has no AP and is left out of the means; without any such class there is no
    score: {}. `rounded`: scores to 3 digits and boxes to .1, as in VOC's files of results.
    """
    if len(truths) != len(founds):
        raise ValueError(f"{len(founds)} images with detections, {len(truths)} with objects")
    rows = [class_ap(truths, founds, label, rounded) for label in range(classes)]
    kept = np.array([row for row in rows if row is not None])
    if not len(kept):
        return {}
    at = dict(zip(OVERLAPS, kept.mean(0).tolist(), strict=True))
    return {"AP": float(kept.mean()), "AP50": at[50], "AP75": at[75]}


def class_ap(truths: list[Truth], founds: list[Found], label: int, rounded: bool = True) -> np.ndarray | None:
    """[overlaps] AP of one class; None where no object of it counts."""
    objects = [truth.boxes[truth.labels == label] for truth in truths]
    ignored = [truth.ignored[truth.labels == label] for truth in truths]
    count = sum(int((~flags).sum()) for flags in ignored)
    if not count:
        return None
    mine = [found.labels == label for found in founds]
    images = np.concatenate([np.full(int(own.sum()), image) for image, own in enumerate(mine)])
    scores = np.concatenate([found.scores[own] for found, own in zip(founds, mine, strict=True)])
    boxes = np.concatenate([found.boxes[own] for found, own in zip(founds, mine, strict=True)])
    if rounded:
        scores, boxes = np.round(scores.astype(np.float64), 3), np.round(boxes.astype(np.float64), 1)
    order = np.argsort(-scores, kind="stable")
    images, boxes = images[order].astype(int), boxes[order]
    best = [_best(objects[image], box) for image, box in zip(images, boxes, strict=True)]
    return np.array([eleven_points(_hits(images, best, ignored, percent / 100), count) for percent in OVERLAPS])


def _best(objects: np.ndarray, box: np.ndarray) -> tuple[float, int]:
    """Largest overlap of a detection with an object of its class, and which; -inf where there is none."""
    if not len(objects):
        return -np.inf, -1
    overlaps = inclusive_iou(objects, box)
    return float(overlaps.max()), int(overlaps.argmax())


def inclusive_iou(boxes: np.ndarray, box: np.ndarray) -> np.ndarray:
    """[n] intersection over union of boxes with a box, in VOC's convention: the last pixel belongs to a box.

    Our boxes start at pixel 0 where VOC's start at pixel 1, and end where they end: hence the 1 that is added at the
    left and top before VOC's "+ 1" in widths and heights.
    """
    first = np.concatenate([boxes[:, :2] + 1, boxes[:, 2:]], 1)
    second = np.concatenate([box[:2] + 1, box[2:]])
    low, high = np.maximum(first[:, :2], second[:2]), np.minimum(first[:, 2:], second[2:])
    shared = np.maximum(high - low + 1, 0).prod(1)
    return shared / ((first[:, 2:] - first[:, :2] + 1).prod(1) + (second[2:] - second[:2] + 1).prod() - shared)


def _hits(images: np.ndarray, best: list[tuple[float, int]], ignored: list[np.ndarray], overlap: float) -> np.ndarray:
    """Of each detection, best score first: 1 hit, 0 false, -1 neither (it found an object that does not count).

    An object is found once; whoever finds it again is false, also when another object near it is still free.
    """
    taken = [np.zeros(len(flags), bool) for flags in ignored]
    hits = np.zeros(len(images), int)
    for place, (image, (value, one)) in enumerate(zip(images, best, strict=True)):
        if not value > overlap:
            continue
        if ignored[image][one]:
            hits[place] = -1
        elif not taken[image][one]:
            taken[image][one] = True
            hits[place] = 1
    return hits


def eleven_points(hits: np.ndarray, count: int) -> float:
    """Mean over recalls 0, .1 ... 1 of the best precision at that recall or beyond. `hits` as `_hits` gives them."""
    true, false = np.cumsum(hits == 1), np.cumsum(hits == 0)
    recall, precision = true / count, true / np.maximum(true + false, np.finfo(np.float64).eps)
    # In floating point 3 of 10 objects is a recall below "0.1 * 3"; they are the same recall.
    points = [precision[recall >= point / 10 - 1e-12] for point in range(11)]
    return float(np.mean([values.max() if len(values) else 0.0 for values in points]))
