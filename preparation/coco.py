"""COCO: one JSON file of objects for all photographs of a split. Lin et al. (ECCV 2014)."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from preparation.image_files import NOTES, image_size
from preparation.objects import Scene, arrays_of, checked, presence
from preparation.prepared import DataError, Raw

Json = dict[str, Any]


def read_coco(spec: Mapping[str, Any], root: Path, download: bool) -> Raw:
    """Official files below `folder`: of every split a file of `annotations` (annotations/instances_train2017.json) and
    the folder of its images, which `split_folders` names. Classes are the file's categories in the order of their ids.

    Masks are kept where every object has a segmentation. Crowds are `ignored`.
    """
    base, names = root / spec["folder"], None
    paths: list[str] = []
    scenes: list[Scene] = []
    splits, bare = {}, 0
    for split in spec["splits"]:
        file, folder = base / spec["annotations"][split], spec.get("split_folders", {}).get(split, split)
        stored = _read(file)
        here = {one["id"]: str(one["name"]) for one in sorted(stored["categories"], key=lambda one: one["id"])}
        if names is not None and list(here.items()) != list(names.items()):
            raise DataError(f"{file}: other categories than in the file of another split; take both from one release")
        names = here
        of_image = _by_image(file, stored)
        for image in stored["images"]:
            picture = base / folder / str(image["file_name"])
            if not picture.is_file():
                raise DataError(f"{picture}: not found, but named in {file}; unpack the archives again")
            size = (int(image["height"]), int(image["width"]))
            if (found := image_size(picture)) != size:
                raise DataError(f"{picture}: {found[1]} x {found[0]} pixels, {file} says {size[1]} x {size[0]}")
            scene = _scene(file, size, of_image[image["id"]], {one: place for place, one in enumerate(here)})
            bare += len(scene.labels) - len(scene.masks)
            scenes.append(scene)
            paths.append(f"{folder}/{image['file_name']}")
        splits[split] = len(stored["images"])
    notes = {**NOTES, "masks": f"none: {bare} objects have no segmentation" if bare else "of every object"}
    labels = presence(scenes, len(names or ()))
    return Raw(
        np.array(paths),
        labels,
        splits,
        f"files under {spec['folder']}",
        notes,
        os.path.abspath(base),
        list((names or {}).values()),
        arrays_of(scenes),
    )


def _read(path: Path) -> Json:
    """The lists of a file, their entries with the keys that are needed. Raises DataError that names the first other."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{path}: not found; unpack the official annotations there") from None
    except (OSError, ValueError) as problem:
        raise DataError(f"{path}: cannot be read as JSON ({problem}); unpack the annotations again") from None
    needed = {
        "images": ("id", "file_name", "height", "width"),
        "annotations": ("id", "image_id", "category_id", "bbox"),
        "categories": ("id", "name"),
    }
    for part, keys in needed.items():
        entries = stored.get(part) if isinstance(stored, dict) else None
        if not isinstance(entries, list):
            raise DataError(f"{path}: no list {part!r}: it is no file of COCO's instances")
        for place, one in enumerate(entries):
            if not isinstance(one, dict) or (absent := [key for key in keys if key not in one]):
                lacks = f"has no {absent[0]!r}" if isinstance(one, dict) else f"is {one!r}"
                raise DataError(f"{path}: entry {place} of {part} {lacks}; {', '.join(keys)} expected")
        ids = [one["id"] for one in entries]
        if len(set(ids)) != len(ids):
            twice = next(one for one in ids if ids.count(one) > 1)
            raise DataError(f"{path}: id {twice} of {part} stands twice; every id counts once")
    return stored


def _by_image(path: Path, stored: Json) -> dict[Any, list[Json]]:
    """image id -> its annotations, in the file's order."""
    found: dict[Any, list[Json]] = {image["id"]: [] for image in stored["images"]}
    known = {one["id"] for one in stored["categories"]}
    for one in stored["annotations"]:
        for key, ids in (("image_id", found), ("category_id", known)):
            if one[key] not in ids:
                raise DataError(f"{path}: annotation {one['id']}: {key} {one[key]!r} is of no entry of the file")
        found[one["image_id"]].append(one)
    return found


def _scene(path: Path, size: tuple[int, int], annotations: list[Json], place: Mapping[Any, int]) -> Scene:
    boxes, masks = [], []
    for one in annotations:
        where = f"{path}: annotation {one['id']}"
        try:
            left, top, width, height = map(float, one["bbox"])
        except (TypeError, ValueError):
            raise DataError(f"{where}: bbox {one['bbox']!r} found; left, top, width, height expected") from None
        edges = np.array([[left, top, left + width, top + height]])
        nothing = np.zeros(1, np.int64)
        checked(Scene(size, edges, nothing, nothing.astype(bool), nothing), where, flat=True)
        boxes.append(edges[0])
        if one.get("segmentation"):
            masks.append(_mask(one["segmentation"], size, where))
    edges = np.array(boxes, np.float64).reshape(-1, 4)
    areas = (edges[:, 2:] - edges[:, :2]).prod(1)
    return Scene(
        size,
        edges,
        np.array([place[one["category_id"]] for one in annotations], np.int64),
        np.array([bool(one.get("iscrowd", 0)) for one in annotations], bool),
        np.array([one.get("area", area) for one, area in zip(annotations, areas, strict=True)], np.float64),
        masks,
    )


def _mask(segmentation: Any, size: tuple[int, int], where: str) -> bytes:
    """Compressed run lengths of polygons, or of run lengths. Polygons of less than three corners cover nothing."""
    from pycocotools import mask  # only for data of this kind

    try:
        if isinstance(segmentation, dict):
            if list(segmentation["size"]) != list(size):
                raise ValueError(f"size {segmentation['size']}, the image has {list(size)}")
            plain = isinstance(segmentation["counts"], list)
            runs = mask.frPyObjects(segmentation, *size) if plain else segmentation
            if not plain:
                mask.decode(runs)  # refuses what is no run lengths
        else:
            polygons = [[float(value) for value in polygon] for polygon in segmentation if len(polygon) >= 6]
            if any(len(polygon) % 2 for polygon in polygons):
                raise ValueError("a polygon with an odd number of coordinates")
            empty = {"size": list(size), "counts": [size[0] * size[1]]}
            runs = mask.merge(mask.frPyObjects(polygons, *size)) if polygons else mask.frPyObjects(empty, *size)
    except (TypeError, ValueError, KeyError, AttributeError) as problem:
        raise DataError(f"{where}: segmentation: {problem}; polygons or run lengths expected") from None
    counts = runs["counts"]
    return counts if isinstance(counts, bytes) else str(counts).encode()
