"""PASCAL VOC's boxes: one XML file a photograph. Everingham et al. (IJCV 2010), and whatever tool writes the same."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from preparation.image_files import NOTES, image_size
from preparation.objects import Scene, arrays_of, checked, presence
from preparation.prepared import DataError, Raw
from preparation.voc import CLASSES


def read_voc_boxes(spec: Mapping[str, Any], root: Path, download: bool) -> Raw:
    """Official files as their archives unpack below `folder`: of every place named in `image_sets`
    (train: [VOC2007/trainval, VOC2012/trainval]) ImageSets/Main/trainval.txt, Annotations/*.xml and JPEGImages/*.jpg.

    `class_names`: those of other data in the same layout. Difficult objects are `ignored`: who trains may use them, who
    scores leaves them out.
    """
    names = list(spec.get("class_names", CLASSES))
    base = root / spec["folder"]
    paths: list[str] = []
    scenes: list[Scene] = []
    splits = {}
    for split in spec["splits"]:
        before = len(paths)
        for place in spec["image_sets"][split]:
            folder, _, image_set = place.rpartition("/")
            for image in _listed(base / folder / "ImageSets" / "Main" / f"{image_set}.txt"):
                picture = base / folder / "JPEGImages" / f"{image}.jpg"
                if not picture.is_file():
                    raise DataError(f"{picture}: not found, but listed in {place}; unpack the archives again")
                scenes.append(read_scene(base / folder / "Annotations" / f"{image}.xml", image_size(picture), names))
                paths.append(f"{folder}/JPEGImages/{image}.jpg" if folder else f"JPEGImages/{image}.jpg")
        splits[split] = len(paths) - before
    notes = {**NOTES, "boxes": "from pixel 0 to the edge after the last pixel: VOC's xmin and ymin less 1"}
    return Raw(
        np.array(paths),
        presence(scenes, len(names)),
        splits,
        f"files under {spec['folder']}",
        notes,
        os.path.abspath(base),
        names,
        arrays_of(scenes),
    )


def read_scene(path: Path, size: tuple[int, int], names: list[str]) -> Scene:
    """The objects in one XML file. `size` (height, width) is the image's own: some official files swap the two.

    Raises DataError that names the file, and the object's place in it.
    """
    try:
        tree = ElementTree.parse(path).getroot()
    except FileNotFoundError:
        raise DataError(f"{path}: not found, but its image is listed; unpack the archives again") from None
    except (OSError, ElementTree.ParseError, UnicodeDecodeError, ValueError) as problem:
        raise DataError(f"{path}: cannot be read as XML ({problem}); unpack the archives again") from None
    boxes, labels, difficult = [], [], []
    for number, found in enumerate(tree.findall("object"), 1):
        where = f"{path}, object {number}"
        if (name := (found.findtext("name") or "").strip()) not in names:
            raise DataError(f"{where}: name {name!r} found; one of {', '.join(names)} expected (class_names)")
        flag = (found.findtext("difficult") or "0").strip()
        if flag not in ("0", "1"):
            raise DataError(f"{where}: difficult {flag!r} found, 0 or 1 expected")
        boxes.append(_box(found, where))
        labels.append(names.index(name))
        difficult.append(flag == "1")
    edges = np.array(boxes, np.float64).reshape(-1, 4)
    areas = (edges[:, 2:] - edges[:, :2]).prod(1)
    return checked(Scene(size, edges, np.array(labels, np.int64), np.array(difficult, bool), areas), str(path))


def _box(found: ElementTree.Element, where: str) -> list[float]:
    """Edges of an object: the pixels xmin to xmax, both included and counted from 1, cover xmin - 1 to xmax."""
    values = []
    for key in ("xmin", "ymin", "xmax", "ymax"):
        text = found.findtext(f"bndbox/{key}")
        try:
            values.append(float(text if text is not None else "nothing"))
        except ValueError:
            raise DataError(f"{where}: bndbox/{key} {text!r} found, a number expected") from None
    return [values[0] - 1, values[1] - 1, values[2], values[3]]


def _listed(path: Path) -> list[str]:
    """Names of the images in an image set, each once."""
    try:
        words = [line.split() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except FileNotFoundError:
        raise DataError(f"{path}: not found; unpack the official archives of the image set there") from None
    except (OSError, UnicodeDecodeError) as problem:
        raise DataError(f"{path}: cannot be read ({problem}); unpack the archives again") from None
    images = [line[0] for line in words]
    if any(len(line) != 1 for line in words) or len(set(images)) != len(images):
        raise DataError(f"{path}: one image a line, each once, expected; unpack the archives again")
    return images
