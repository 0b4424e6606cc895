"""Photographs of circles, squares and triangles, drawn here, in the official layouts of VOC and COCO."""

import json

import numpy as np
from PIL import Image, ImageDraw

KINDS = ("circle", "square", "triangle")
SIDE = 64
COMMON = {
    "title": "shapes",
    "family": "imagenet",
    "multilabel": True,
    "classes": 3,
    "shape": [SIDE, SIDE, 3],
    "normalisation": {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]},
}


def draw(rng, objects=3):
    """(image, [(kind, left, top, right, bottom)]): shapes that do not touch, on a dark ground with some noise."""
    ground = rng.integers(0, 70, (SIDE, SIDE, 3), dtype=np.uint8)
    image = Image.fromarray(ground)
    pencil, found = ImageDraw.Draw(image), []
    for _ in range(int(rng.integers(1, objects + 1))):
        side = int(rng.integers(16, 29))
        left, top = (int(rng.integers(0, SIDE - side)) for _ in range(2))
        box = (left, top, left + side, top + side)
        if any(box[0] < b[3] + 2 and b[1] < box[2] + 2 and box[1] < b[4] + 2 and b[2] < box[3] + 2 for b in found):
            continue
        kind = KINDS[int(rng.integers(3))]
        colour = tuple(int(value) for value in rng.integers(150, 256, 3))
        edges = (box[0], box[1], box[2] - 1, box[3] - 1)  # the last pixel is drawn
        if kind == "circle":
            pencil.ellipse(edges, fill=colour)
        elif kind == "square":
            pencil.rectangle(edges, fill=colour)
        else:
            pencil.polygon([(edges[0], edges[3]), (edges[2], edges[3]), ((edges[0] + edges[2]) / 2, edges[1])], colour)
        found.append((kind, *box))
    return image, found


def write_voc(root, train, test, seed=0):
    """The entry of config/datasets of shapes in VOC's layout, written below `root`."""
    rng, base = np.random.default_rng(seed), root / "Shapes" / "VOC2007"
    for folder in ("ImageSets/Main", "JPEGImages", "Annotations"):
        (base / folder).mkdir(parents=True)
    for split, size in (("trainval", train), ("test", test)):
        names = [f"{split}{number:04d}" for number in range(size)]
        (base / "ImageSets/Main" / f"{split}.txt").write_text("".join(f"{name}\n" for name in names))
        for name in names:
            image, found = draw(rng)
            image.save(base / "JPEGImages" / f"{name}.jpg", quality=95)
            (base / "Annotations" / f"{name}.xml").write_text(xml(found))
    splits = {"train": train, "test": test}
    sets = {"train": ["VOC2007/trainval"], "test": ["VOC2007/test"]}
    of_voc = {"source": "voc_boxes", "folder": "Shapes", "image_sets": sets, "class_names": list(KINDS)}
    return COMMON | of_voc | {"splits": splits}


def xml(found, difficult=()):
    """What VOC says of an image: pixels from 1, the last included."""
    parts = [
        f"<object><name>{kind}</name><difficult>{int(place in difficult)}</difficult><bndbox><xmin>{left + 1}</xmin>"
        f"<ymin>{top + 1}</ymin><xmax>{right}</xmax><ymax>{bottom}</ymax></bndbox></object>"
        for place, (kind, left, top, right, bottom) in enumerate(found)
    ]
    return f"<annotation><size><width>{SIDE}</width><height>{SIDE}</height></size>{''.join(parts)}</annotation>"


def write_coco(root, train, test, seed=0):
    """The same in COCO's layout, with masks: polygons, run lengths of every fourth object, and no ids from 0."""
    rng, base = np.random.default_rng(seed), root / "shapes_coco"
    (base / "annotations").mkdir(parents=True)
    for split, size in (("train", train), ("val", test)):
        (base / split).mkdir()
        images, annotations = [], []
        for number in range(size):
            image, found = draw(rng)
            name = f"{number:06d}.jpg"
            image.save(base / split / name, quality=95)
            images.append({"id": 100 + number, "file_name": name, "height": SIDE, "width": SIDE})
            for kind, left, top, right, bottom in found:
                box = {"bbox": [left, top, right - left, bottom - top], "area": (right - left) * (bottom - top)}
                ids = {"id": 7 + len(annotations), "image_id": 100 + number, "category_id": 2 + 3 * KINDS.index(kind)}
                whole, polygon = runs(left, top, right, bottom), [outline(kind, left, top, right, bottom)]
                mask = whole if len(annotations) % 4 == 3 else polygon
                annotations.append(ids | box | {"iscrowd": 0, "segmentation": mask})
        categories = [{"id": 2 + 3 * place, "name": kind} for place, kind in enumerate(KINDS)]
        content = {"images": images, "annotations": annotations, "categories": categories[::-1]}
        (base / "annotations" / f"instances_{split}.json").write_text(json.dumps(content))
    files = {"train": "annotations/instances_train.json", "test": "annotations/instances_val.json"}
    of_coco = {"source": "coco", "folder": "shapes_coco", "annotations": files, "split_folders": {"test": "val"}}
    return COMMON | of_coco | {"splits": {"train": train, "test": test}}


def outline(kind, left, top, right, bottom):
    """A polygon around a shape."""
    if kind == "triangle":
        return [left, bottom, right, bottom, (left + right) / 2, top]
    if kind == "square":
        return [left, top, right, top, right, bottom, left, bottom]
    turn, middle, radius = np.linspace(0, 2 * np.pi, 24, endpoint=False), (left + right) / 2, (right - left) / 2
    return np.stack([middle + radius * np.cos(turn), (top + bottom) / 2 + radius * np.sin(turn)], 1).ravel().tolist()


def runs(left, top, right, bottom):
    """Uncompressed run lengths, down the columns, of a whole box."""
    drawn = np.zeros((SIDE, SIDE), int)
    drawn[top:bottom, left:right] = 1
    flat = drawn.T.ravel()
    turns = np.flatnonzero(np.diff(flat)) + 1
    lengths = np.diff([0, *turns.tolist(), len(flat)]).tolist()
    return {"size": [SIDE, SIDE], "counts": lengths if flat[0] == 0 else [0, *lengths]}
