"""COCO's AP: pycocotools as its own files feed it, known values, crowds, and where nothing is to be found."""

import contextlib
import io

import numpy as np
import pytest
from pycocotools import mask
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from tests.training.detection.made import found, known_hits, random_images, square, truth
from training.detection.boxes import Found, Truth, empty
from training.detection.coco_ap import coco_scores


def official(truths, founds, classes):
    """As the tools' own demo does it: annotations and results as the two files hold them, other ids, classes from 1."""
    annotations, results = [], []
    for image, one in enumerate(truths):
        for box, label, crowd in zip(one.boxes.tolist(), one.labels, one.ignored, strict=True):
            wide, high = box[2] - box[0], box[3] - box[1]
            entry = {"id": 100 + len(annotations), "image_id": 50 + image, "category_id": 1 + int(label)}
            annotations.append(entry | {"bbox": [*box[:2], wide, high], "area": wide * high, "iscrowd": int(crowd)})
    for image, one in enumerate(founds):
        for box, label, score in zip(one.boxes.tolist(), one.labels, one.scores.tolist(), strict=True):
            entry = {"image_id": 50 + image, "category_id": 1 + int(label), "score": score}
            results.append(entry | {"bbox": [*box[:2], box[2] - box[0], box[3] - box[1]]})
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO()
        coco.dataset = {
            "images": [{"id": 50 + image} for image in range(len(truths))],
            "categories": [{"id": 1 + label} for label in range(classes)],
            "annotations": annotations,
        }
        coco.createIndex()
        judge = COCOeval(coco, coco.loadRes(results), "bbox")
        judge.evaluate()
        judge.accumulate()
        judge.summarize()
    return dict(zip(("AP", "AP50", "AP75"), judge.stats[:3].tolist(), strict=True))


@pytest.mark.parametrize("seed", range(3))
def test_random_images_equal_the_tools(seed):
    truths, founds = random_images(seed)
    scores = coco_scores(truths, founds, 3)
    assert scores == pytest.approx(official(truths, founds, 3), abs=1e-12)
    assert 0.05 < scores["AP"] < scores["AP50"] < 1


def test_known_hits_have_the_known_value():
    assert coco_scores(*known_hits(), 1) == pytest.approx(
        {"AP": 0.6039603960, "AP50": 0.6039603960, "AP75": 0.6039603960}
    )


def test_a_crowd_is_found_any_number_of_times():
    truths = [truth((square(0), 0), (square(100, side=80), 0, "crowd"))]
    inside = [found(*[(square(105 + 20 * one, 5), 0, 0.9) for one in range(3)], (square(0), 0, 0.5))]
    assert coco_scores(truths, inside, 1)["AP50"] == pytest.approx(1)


def test_nothing_found_is_zero_and_nothing_to_find_is_no_score():
    objects = [truth((square(0), 0)), truth()]
    assert coco_scores(objects, [empty(), empty()], 1) == {"AP": 0, "AP50": 0, "AP75": 0}
    assert coco_scores([truth()], [found((square(0), 0, 0.9))], 1) == {}
    assert coco_scores([truth((square(0), 0, "crowd"))], [empty()], 1) == {}
    false = [empty(), found((square(0), 0, 0.9))]
    assert coco_scores(objects, false, 1)["AP50"] == 0
    with pytest.raises(ValueError, match="1 images with detections, 2 with objects"):
        coco_scores(objects, [empty()], 1)


def pixels(box, size=40):
    drawn = np.zeros((size, size), np.uint8, order="F")
    left, top, right, bottom = box
    drawn[top:bottom, left:right] = 1
    return mask.encode(drawn)


def test_masks_are_judged_by_their_pixels():
    """Two masks of one box: a filled square, and the half of it that was found."""
    whole, half = pixels([0, 0, 20, 20]), pixels([0, 0, 20, 11])
    flag, box = np.array([False]), np.array([square(0)], float)
    truths = [Truth(box, np.array([0]), flag, np.array([400.0]), [whole])]
    assert coco_scores(truths, [Found(box, np.array([0]), np.array([0.9]), [whole])], 1, "segm")["AP"] == pytest.approx(
        1
    )
    scores = coco_scores(truths, [Found(box, np.array([0]), np.array([0.9]), [half])], 1, "segm")
    assert scores == pytest.approx({"AP": 0.2, "AP50": 1, "AP75": 0})  # .55 is more than .5 and, as COCO has it, .55
    assert coco_scores(truths, [Found(box, np.array([0]), np.array([0.9]), [half])], 1)["AP"] == pytest.approx(1)


def test_areas_do_not_change_what_is_shown():
    truths, founds = random_images(1)
    sized = [Truth(one.boxes, one.labels, one.ignored, np.full(len(one.boxes), 3.0)) for one in truths]
    assert coco_scores(sized, founds, 3) == coco_scores(truths, founds, 3)
