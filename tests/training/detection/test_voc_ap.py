"""VOC's eleven-point AP: known values, an independent loop, difficult objects, and where nothing is to be found."""

import numpy as np
import pytest

from tests.training.detection.made import HITS, found, known_hits, random_images, square, truth
from training.detection.boxes import Found, Truth, empty
from training.detection.voc_ap import OVERLAPS, class_ap, eleven_points, inclusive_iou, voc_scores


def test_known_hits_have_the_known_value():
    assert eleven_points(np.array(HITS, int), 5) == pytest.approx(0.6363636364, abs=1e-10)
    assert voc_scores(*known_hits(), classes=1) == pytest.approx({"AP": 7 / 11, "AP50": 7 / 11, "AP75": 7 / 11})


def test_recalls_of_three_six_and_seven_tenths_reach_their_points():
    """3 / 10 is smaller than 3 * .1 in floating point."""
    for some in (3, 6, 7):
        assert eleven_points(np.ones(some, int), 10) == pytest.approx((some + 1) / 11)


def loop(truths, founds, label, overlap):
    """AP of one class in plain Python, from the words of the protocol."""
    ranked = sorted(
        (-round(float(score), 3), image, [round(float(value), 1) for value in box])
        for image, one in enumerate(founds)
        for box, kind, score in zip(one.boxes, one.labels, one.scores, strict=True)
        if kind == label
    )
    objects = [
        [
            (list(box), bool(ignored))
            for box, kind, ignored in zip(one.boxes, one.labels, one.ignored, strict=True)
            if kind == label
        ]
        for one in truths
    ]
    count = sum(not ignored for image in objects for _, ignored in image)
    used, curve, true, false = set(), [], 0, 0
    for _, image, box in ranked:
        values = [overlap_of(box, other) for other, _ in objects[image]]
        best = max(values, default=-1.0)
        if best > overlap:
            one = values.index(best)
            if objects[image][one][1]:
                continue
            if (image, one) in used:
                false += 1
            else:
                true += 1
                used.add((image, one))
        else:
            false += 1
        curve.append((true / count, true / (true + false)))
    return sum(max((p for r, p in curve if 10 * r >= point - 1e-9), default=0.0) for point in range(11)) / 11


def overlap_of(first, second):
    """With pixels counted: columns first[0] + 1 to first[2], both included."""
    wide = min(first[2], second[2]) - max(first[0], second[0])
    high = min(first[3], second[3]) - max(first[1], second[1])
    area = [(box[2] - box[0]) * (box[3] - box[1]) for box in (first, second)]
    shared = max(wide, 0) * max(high, 0)
    return shared / (sum(area) - shared)


@pytest.mark.parametrize("seed", range(4))
def test_random_images_equal_a_loop(seed):
    truths, founds = random_images(seed)
    aps = np.array([[loop(truths, founds, label, percent / 100) for percent in OVERLAPS] for label in range(3)])
    assert 0.05 < aps.mean() < 0.95
    for label in range(3):
        assert class_ap(truths, founds, label) == pytest.approx(aps[label])
    scores = voc_scores(truths, founds, 3)
    assert scores == pytest.approx({"AP": aps.mean(), "AP50": aps[:, 0].mean(), "AP75": aps[:, 5].mean()})


def test_boxes_of_pixels_from_one_and_their_last_pixel():
    """VOC writes 1..20 for the first twenty columns, here 0..20; half of it shifted by ten shares ten columns."""
    assert inclusive_iou(np.array([square(0), square(10)], float), np.array(square(0), float)) == pytest.approx(
        [1, 1 / 3]
    )


def test_a_difficult_object_neither_counts_nor_punishes():
    truths = [truth((square(0), 0), (square(100), 0, "difficult"))]
    both = [found((square(100), 0, 0.9), (square(100), 0, 0.8), (square(0), 0, 0.7))]
    assert voc_scores(truths, both, 1)["AP50"] == 1
    assert voc_scores(truths, [found((square(0), 0, 0.7))], 1)["AP50"] == 1


def test_a_second_hit_and_a_hit_of_another_class_are_false():
    truths = [truth((square(0), 0), (square(100), 0))]
    twice = [found((square(0), 0, 0.9), (square(0), 0, 0.8), (square(100), 0, 0.7))]
    assert voc_scores(truths, twice, 1)["AP50"] == pytest.approx((6 + 5 * 2 / 3) / 11)
    assert voc_scores(truths, [found((square(0), 1, 0.9))], 2)["AP50"] == 0


def test_an_overlap_of_exactly_one_half_is_no_hit():
    half = [truth(([0, 0, 20, 20], 0))], [found(([0, 0, 20, 10], 0, 0.9))]
    assert voc_scores(*half, 1)["AP50"] == 0
    more = [truth(([0, 0, 20, 20], 0))], [found(([0, 0, 20, 10.1], 0, 0.9))]
    assert voc_scores(*more, 1)["AP50"] == 1


def test_scores_that_are_equal_to_three_digits_keep_the_order_of_images():
    truths = [truth((square(0), 0)), truth()]
    founds = [found((square(0), 0, 0.90001)), found((square(0), 0, 0.90004))]
    assert voc_scores(truths, founds, 1)["AP50"] == 1
    assert voc_scores(truths, founds, 1, rounded=False)["AP50"] == pytest.approx(0.5)


def test_nothing_found_is_zero_and_nothing_to_find_is_no_score():
    objects = [truth((square(0), 0))]
    assert voc_scores(objects, [empty()], 1) == {"AP": 0, "AP50": 0, "AP75": 0}
    assert voc_scores([truth()], [found((square(0), 0, 0.9))], 1) == {}
    assert voc_scores([truth((square(0), 0, "difficult"))], [empty()], 1) == {}
    assert voc_scores([], [], 1) == {}
    # A class without objects is left out of the mean, whatever was called by its name.
    assert voc_scores(objects, [found((square(0), 0, 0.9), (square(50), 1, 0.9))], 2)["AP"] == 1


def test_an_order_of_images_and_a_monotone_map_of_scores_change_nothing():
    truths, founds = random_images(7)
    scores = voc_scores(truths, founds, 3, rounded=False)
    order = np.random.default_rng(0).permutation(len(truths))
    assert voc_scores([truths[i] for i in order], [founds[i] for i in order], 3, rounded=False) == pytest.approx(scores)
    bent = [Found(one.boxes, one.labels, one.scores**3) for one in founds]
    assert voc_scores(truths, bent, 3, rounded=False) == pytest.approx(scores)
    doubled = [Truth(one.boxes * 2, one.labels, one.ignored) for one in truths]
    again = [Found(one.boxes * 2, one.labels, one.scores) for one in founds]
    assert voc_scores(doubled, again, 3, rounded=False) == pytest.approx(scores)


def test_images_without_detections_must_say_so():
    with pytest.raises(ValueError, match="1 images with detections, 2 with objects"):
        voc_scores([truth(), truth()], [empty()], 1)
