"""What one file of config/datasets must say besides what its schema can check: values that hang together."""

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from pipeline.naming import ConfigError

# source -> the key without which its reader has nothing to read
NEEDED = {
    "torchvision": "class", "folder": "folder", "voc": "folder", "voc_boxes": "folder", "coco": "folder",
    "jf": "files", "csv": "files", "vectors": "files", "reuters": "files",
}  # fmt: skip
UNLABELLED = ("csv", "vectors", "folder")  # sources whose files may be without labels
OF_FILES = ("folder", "voc", "voc_boxes", "coco")  # sources of image files
OF_BOXES = {"voc_boxes": "image_sets", "coco": "annotations"}  # sources with boxes, and where those lie of each split
CUT = ("folder", "csv", "vectors")  # sources whose rows may be cut into train and test


def stays_files(spec: Mapping[str, Any]) -> bool:
    """Whether the prepared data set holds paths of image files, which are decoded whenever they are used."""
    return spec["source"] in OF_FILES and not spec.get("decode")


def placed_splits(spec: Mapping[str, Any]) -> dict[str, int]:
    """The splits that have files of their own; with `test_share` the others are cut from the files of split train."""
    splits = spec.get("official", spec["splits"])
    if "test_share" not in spec:
        return dict(splits)
    own = ("train", *spec.get("files", spec.get("split_folders", {})))
    return {split: size for split, size in splits.items() if split in own}


def without_labels(spec: Mapping[str, Any]) -> bool:
    """Whether no row of a data set has a label: its one split is `unlabeled`, its `classes` the clusters asked for."""
    return list(spec["splits"]) == ["unlabeled"]


def are_vectors(shape: Sequence[int]) -> bool:
    """Whether rows of this shape are vectors, [1, d, 1], whose values may be any; all others are images."""
    return shape[0] == 1 and shape[2] == 1


def check_name(kind: str, name: str, where: str) -> None:
    """Names that stand in paths of results are of [a-z0-9_]: the rules of the workflow find no others."""
    if not re.fullmatch("[a-z0-9_]+", name):
        better = re.sub("[^a-z0-9_]+", "_", name.lower())
        raise ConfigError(
            f"{where}: {kind} {name!r}: names are of small letters, digits and underscores, since they are parts of "
            f"paths of results; rename it, say to {better!r}"
        )


def check_data_set(spec: Mapping[str, Any], where: str) -> None:
    """Keys that the source needs, a file for every split, paths that stay below the data root, channels that agree."""
    source, shape = spec["source"], spec["shape"]
    needed = NEEDED.get(source)
    if needed and needed not in spec:
        raise ConfigError(f"{where}: source {source} needs the key {needed!r}")
    _check_cut(spec, where)
    _check_boxes(spec, where)
    splits = spec.get("official", spec["splits"])
    for key in ("files", "split_folders", *OF_BOXES.values()):
        if key not in spec:
            continue
        unknown = [split for split in spec[key] if split not in splits]
        lacking = [split for split in placed_splits(spec) if split not in spec[key] and key != "split_folders"]
        if unknown or lacking:
            raise ConfigError(
                f"{where}: {key}: {'no file for' if lacking else 'unknown'} split {(lacking or unknown)[0]!r}; the "
                f"splits are {', '.join(splits)}"
            )
    for key in ("folder", "class_list", "files", "split_folders", *OF_BOXES.values()):
        given = spec.get(key, ())
        for paths in given.values() if isinstance(given, Mapping) else [given] if given else []:
            for path in [paths] if isinstance(paths, str) else paths:
                check_below(path, f"{where}: {key}")
    for key, values in spec.get("standardise", {}).items():
        if not are_vectors(shape) or len(values) != shape[1]:
            raise ConfigError(
                f"{where}: standardise.{key}: {len(values)} values for shape {shape}; for vectors, a value a column"
            )
    if not spec.get("labels", True) and not (source in UNLABELLED and "unlabeled" in splits):
        raise ConfigError(
            f"{where}: labels: false is for files of split 'unlabeled' and sources {', '.join(UNLABELLED)}; found "
            f"splits {', '.join(splits)} and source {source}: leave the key out, or name the split `unlabeled`"
        )
    for key, values in spec["normalisation"].items():
        if len(values) != shape[2]:
            raise ConfigError(
                f"{where}: normalisation.{key}: {len(values)} values, but shape {shape} has {shape[2]} channels; give "
                "one a channel"
            )
    if source in OF_FILES and shape[2] not in (1, 3):
        raise ConfigError(f"{where}: shape {shape}: image files are read with 3 channels (RGB) or 1 (grey)")
    if "decode" in spec and source != "folder":
        raise ConfigError(f"{where}: decode is for source folder; leave the key out for source {source}")


def _check_boxes(spec: Mapping[str, Any], where: str) -> None:
    """Data with boxes say where these lie, and are images with several labels; other data do not."""
    source = spec["source"]
    for owner, key in (*OF_BOXES.items(), ("voc_boxes", "class_names")):
        if key in spec and owner != source:
            raise ConfigError(f"{where}: {key} is for source {owner}; leave the key out for source {source}")
    if source not in OF_BOXES:
        return
    if OF_BOXES[source] not in spec:
        raise ConfigError(f"{where}: source {source} needs the key {OF_BOXES[source]!r}")
    if not spec.get("multilabel"):
        raise ConfigError(f"{where}: source {source}: an image may show several classes; set `multilabel: true`")
    if len(spec.get("class_names", range(spec["classes"]))) != spec["classes"]:
        raise ConfigError(f"{where}: class_names: {len(spec['class_names'])} names for classes: {spec['classes']}")


def _check_cut(spec: Mapping[str, Any], where: str) -> None:
    """With `test_share` the split test has no place of its own."""
    if "test_share" not in spec:
        return
    if spec["source"] not in CUT or "official" in spec:
        raise ConfigError(f"{where}: test_share is for sources {', '.join(CUT)} without `official`; leave the key out")
    for split in ("train", "test"):
        if split not in spec["splits"]:
            raise ConfigError(
                f"{where}: test_share cuts splits train and test; `splits` has no {split!r}: give its rows"
            )
    for key in ("files", "split_folders"):
        if "test" in spec.get(key, {}):
            raise ConfigError(
                f"{where}: {key}: a place for split 'test', which test_share cuts from train; leave one of them out"
            )


def check_below(path: str, where: str) -> None:
    """Raise ConfigError for a path that leaves the data root: what a configuration names lies below it."""
    parts = PurePath(path).parts
    if PurePath(path).is_absolute() or ".." in parts or path.startswith("~"):
        raise ConfigError(
            f"{where}: {path!r} leaves the data root; give a path below it, or set data_root to the folder meant"
        )
