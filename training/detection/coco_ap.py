"""COCO's average precision of boxes and of masks, by pycocotools: 101 points, overlaps .5 to .95, 100 detections."""

import contextlib
import io
from typing import Any, Literal

import numpy as np

from training.detection.boxes import Found, Truth

Kind = Literal["bbox", "segm"]


def coco_scores(truths: list[Truth], founds: list[Found], classes: int, kind: Kind = "bbox") -> dict[str, float]:
    """AP, AP50 and AP75, each 0..1, of detections in images (one of each per image); {} where no object counts.

    Ignored objects are crowds: who finds one is neither right nor wrong, any number of times.
    """
    from pycocotools.coco import COCO  # only this stage needs it
    from pycocotools.cocoeval import COCOeval

    if len(truths) != len(founds):
        raise ValueError(f"{len(founds)} images with detections, {len(truths)} with objects")
    with contextlib.redirect_stdout(io.StringIO()):  # it prints as it goes
        truth, found = COCO(), COCO()
        truth.dataset, found.dataset = _truth(truths, classes, kind), _found(founds, classes, kind)
        truth.createIndex()
        found.createIndex()
        judge = COCOeval(truth, found, kind)
        judge.evaluate()
        judge.accumulate()
        judge.summarize()
    scores = {"AP": judge.stats[0], "AP50": judge.stats[1], "AP75": judge.stats[2]}
    return {name: float(value) for name, value in scores.items() if value >= 0}  # -1: no object counts


def _frame(images: int, classes: int) -> dict[str, Any]:
    # Run lengths bring the sizes of their images; pycocotools asks for them and does not use them.
    pictures = [{"id": image, "height": 0, "width": 0} for image in range(images)]
    return {"images": pictures, "categories": [{"id": one} for one in range(classes)]}


def _truth(truths: list[Truth], classes: int, kind: Kind) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for image, truth in enumerate(truths):
        areas = _sizes(truth.boxes) if truth.areas is None else truth.areas
        for one, (box, label) in enumerate(zip(truth.boxes, truth.labels, strict=True)):
            row = _row(len(rows), image, box, label) | {"iscrowd": int(truth.ignored[one]), "area": float(areas[one])}
            rows.append(row | ({"segmentation": truth.masks[one]} if kind == "segm" else {}))
    return {**_frame(len(truths), classes), "annotations": rows}


def _found(founds: list[Found], classes: int, kind: Kind) -> dict[str, Any]:
    from pycocotools import mask

    rows: list[dict[str, Any]] = []
    for image, found in enumerate(founds):
        for one, (box, label) in enumerate(zip(found.boxes, found.labels, strict=True)):
            row = _row(len(rows), image, box, label) | {"iscrowd": 0, "score": float(found.scores[one])}
            area = float(mask.area(found.masks[one]) if kind == "segm" else _sizes(box[None])[0])
            row |= {"segmentation": found.masks[one]} if kind == "segm" else {}
            rows.append(row | {"area": area})
    return {**_frame(len(founds), classes), "annotations": rows}


def _row(place: int, image: int, box: np.ndarray, label: int) -> dict[str, Any]:
    left, top, right, bottom = map(float, box)
    # Ids from 1: pycocotools takes an id of 0 for "matched with nothing".
    return {
        "id": place + 1,
        "image_id": image,
        "category_id": int(label),
        "bbox": [left, top, right - left, bottom - top],
    }


def _sizes(boxes: np.ndarray) -> np.ndarray:
    return (boxes[:, 2:] - boxes[:, :2]).prod(1)
