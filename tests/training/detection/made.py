"""Boxes by hand and at random, for both evaluators."""

import numpy as np

from training.detection.boxes import Found, Truth

HITS = (True, False, True, False, True, True)  # of detections by falling score: five objects, four found


def truth(*objects):
    """Objects as (box, label) or (box, label, ignored)."""
    boxes = np.array([one[0] for one in objects], float).reshape(-1, 4)
    return Truth(boxes, np.array([one[1] for one in objects], int), np.array([len(one) > 2 for one in objects], bool))


def found(*detections):
    """Detections as (box, label, score)."""
    boxes = np.array([one[0] for one in detections], float).reshape(-1, 4)
    return Found(boxes, np.array([one[1] for one in detections], int), np.array([one[2] for one in detections], float))


def square(x, y=0, side=20):
    return [x, y, x + side, y + side]


def known_hits():
    """Five objects in one image, six detections of which the first, third, fifth and sixth are exact."""
    exact = iter(range(0, 500, 100))
    detections = [
        (square(next(exact)) if hit else square(1000 + 100 * place), 0, 0.9 - 0.1 * place)
        for place, hit in enumerate(HITS)
    ]
    return [truth(*[(square(x), 0) for x in range(0, 500, 100)])], [found(*detections)]


def random_images(seed, images=12, classes=3):
    """Objects of three classes, a fifth of them ignored; detections shaken from them, doubled, or from nowhere."""
    rng = np.random.default_rng(seed)
    truths, founds = [], []
    for image in range(images):
        n = 0 if image == 3 else int(rng.integers(1, 6))
        low = rng.uniform(0, 80, (n, 2))
        boxes = np.concatenate([low, low + rng.uniform(8, 40, (n, 2))], 1)
        labels, ignored = rng.integers(0, classes, n), rng.random(n) < 0.2
        truths.append(Truth(boxes, labels, ignored))
        m = 0 if image == 5 else int(rng.integers(1, 9))
        if n:
            picked = rng.integers(0, n, m)
            shaken, theirs = boxes[picked] + rng.normal(0, 2.5, (m, 4)), labels[picked]
        else:
            low = rng.uniform(0, 80, (m, 2))
            shaken, theirs = np.concatenate([low, low + 20], 1), rng.integers(0, classes, m)
        theirs = np.where(rng.random(m) < 0.2, rng.integers(0, classes, m), theirs)
        founds.append(Found(shaken, theirs, rng.random(m)))
    return truths, founds
