"""Readers: official files of a data set -> uint8 images, labels, split sizes. One function per source."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from preparation.prepared import DataError, Raw
from preparation.voc import read_voc

DIGITS_SPLIT_SEED = 0
# The order of rows must not depend on the order of keys: settings travel as JSON with sorted keys.
SPLIT_ORDER = ("train", "fit", "val", "test", "holdout", "unlabeled")


def read(spec: Mapping[str, Any], root: Path | None, download: bool) -> Raw:
    """Read the data set that `spec` (config/datasets) describes.

    `root`: folder of the official files, needed by every source but "digits". With `subset` in the spec only so many
    rows are kept, drawn stratified with a fixed seed, each split in proportion; with `official` the splits are the
    source's own, and `splits` cuts their rows anew, in order.
    """
    splits, official = (_in_order(spec[key]) if key in spec else None for key in ("splits", "official"))
    if root is None and spec["source"] != "digits":
        raise DataError(
            f"data set {spec['title']!r} (source {spec['source']}) needs a folder for its files: "
            "set BENCH_DATA_ROOT, or data_root in the configuration"
        )
    raw = READERS[spec["source"]](spec | {"splits": official or splits}, root, download)
    if official:
        raw = raw._replace(splits=splits, notes=raw.notes | {"split": "the official rows cut anew"})
    return _subset(raw, spec["subset"]) if "subset" in spec else raw


def _in_order(splits: Mapping[str, int]) -> dict[str, int]:
    known = {name: place for place, name in enumerate(SPLIT_ORDER)}
    return {name: splits[name] for name in sorted(splits, key=lambda name: (known.get(name, len(known)), name))}


def read_digits(spec: Mapping[str, Any], root: Path | None, download: bool) -> Raw:
    """scikit-learn's 1,797 hand-written digits, 8x8, values 0..16 stretched to 0..255; no file, no network.

    The data set has no official split: a stratified 80/20 split with a fixed seed stands in for one.
    """
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    bunch = load_digits()
    train, test = train_test_split(
        np.arange(len(bunch.target)), test_size=0.2, stratify=bunch.target, random_state=DIGITS_SPLIT_SEED
    )
    rows = np.concatenate([np.sort(train), np.sort(test)])
    images = np.rint(bunch.images * (255 / 16)).astype(np.uint8)[rows, :, :, None]
    notes = {
        "split": f"stratified 80/20, seed {DIGITS_SPLIT_SEED}",
        "source_rows": rows.tolist(),
    }
    return Raw(
        images, bunch.target[rows], {"train": len(train), "test": len(test)}, "sklearn.datasets.load_digits", notes
    )


def read_torchvision(spec: Mapping[str, Any], root: Path, download: bool) -> Raw:
    """A data set class of torchvision (MNIST and its kin, USPS, CIFAR, STL10); torchvision checks the md5 sums.

    `coarse`: CIFAR-100's 20 superclasses in place of its classes. Images without labels (STL10's) have label -1.
    """
    import torchvision.datasets

    kind = getattr(torchvision.datasets, spec["class"])
    # torchvision unpacks archives only when asked to download; with all archives there it asks no network.
    packed = any((root / spec["class"] / "raw").glob("*.gz"))
    images, labels, splits = [], [], {}
    for split in spec["splits"]:
        try:
            choice = {"split": split} if spec["class"] in SPLIT_BY_NAME else {"train": split == "train"}
            part = kind(root, **choice, download=download or packed)
        except (RuntimeError, OSError) as problem:
            raise DataError(
                f"torchvision.datasets.{spec['class']} found no usable files under {root} ({problem}); "
                f"put the official files into {root / spec['class'] / 'raw'}, or set download: true where there is "
                "a network"
            ) from None
        data = np.asarray(part.data)
        if spec["class"] in SPLIT_BY_NAME:
            data = data.transpose(0, 2, 3, 1)  # STL10 comes as [N, C, H, W]
        images.append(data[..., None] if data.ndim == 3 else data)
        found = part.labels if spec["class"] in SPLIT_BY_NAME else part.targets
        labels.append(_coarse(part, split) if spec.get("coarse") else np.asarray(found))
        splits[split] = len(data)
    return Raw(np.concatenate(images), np.concatenate(labels), splits, f"torchvision.datasets.{spec['class']}", {})


SPLIT_BY_NAME = ("STL10",)


def _coarse(part: Any, split: str) -> np.ndarray:
    """Superclass of every image, from the official pickle itself; each of the 20 must have exactly 5 classes."""
    import pickle

    with open(Path(part.root, part.base_folder, split), "rb") as file:
        stored = pickle.load(file, encoding="latin1")
    coarse, fine = np.asarray(stored["coarse_labels"]), np.asarray(stored["fine_labels"])
    sizes = [len(np.unique(fine[coarse == label])) for label in np.unique(coarse)]
    if sizes != [5] * 20:
        raise DataError(f"CIFAR-100 {split}: superclasses with {sorted(set(sizes))} classes found, 20 with 5 expected")
    return coarse


def read_folder(spec: Mapping[str, Any], root: Path, download: bool) -> Raw:
    """Image files as ImageNet lays them out, {folder}/{split}/{class}/*.JPEG: listed here, decoded when they are used.

    Classes are the folder names in sorted order, or the lines of `class_list` (a file under the root), which select
    a subset such as SCAN's ImageNet-50. Every split must hold every class.
    """
    from torchvision.datasets.folder import IMG_EXTENSIONS, make_dataset

    base = root / spec["folder"]
    paths, labels, splits = [], [], {}
    for split in spec["splits"]:
        folder = base / spec.get("split_folders", {}).get(split, split)
        if not folder.is_dir():
            raise DataError(f"{folder}: no such folder; expected {{split}}/{{class}}/files under {base}")
        if "class_list" in spec:
            listed = root / spec["class_list"]
            if not listed.is_file():
                raise DataError(f"{listed}: no such file; it names the classes to use, one a line")
            classes = [line.split()[0] for line in listed.read_text().splitlines() if line.strip()]
        else:
            classes = sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
        if len(classes) != spec["classes"]:
            raise DataError(
                f"{folder}: {len(classes)} class folders found ({', '.join(classes[:3])}, ...), "
                f"{spec['classes']} expected; a folder level too many is a usual cause"
            )
        numbers = {name: number for number, name in enumerate(classes)}
        try:
            found = make_dataset(str(folder), numbers, IMG_EXTENSIONS)
            found = sorted(found, key=lambda pair: (pair[1], pair[0]))
        except FileNotFoundError as problem:
            raise DataError(f"{folder}: {problem}") from None
        paths += [str(Path(path).relative_to(base)) for path, _ in found]
        labels += [label for _, label in found]
        splits[split] = len(found)
    return Raw(np.array(paths), np.array(labels), splits, f"files under {spec['folder']}", {}, str(base.resolve()))


def read_jf(spec: Mapping[str, Any], root: Path, download: bool) -> Raw:
    """USPS as DEC, IDEC and N2D have it: a line "classes dimensions", then a label and its values per line; -1 ends."""
    return _of_files(spec, root, lambda path: _table(path, None, skip=1, end=-1, label=0))


def read_csv(spec: Mapping[str, Any], root: Path, download: bool) -> Raw:
    """Numbers separated by commas, one row per line, the label last (UCI's usual form)."""
    return _of_files(spec, root, lambda path: _table(path, ",", skip=0, end=None, label=-1))


def read_vectors(spec: Mapping[str, Any], root: Path, download: bool) -> Raw:
    """Own vectors, by the file's ending: .npz with arrays x [N, d] and y [N]; .npy whose last column is the label; else
    comma-separated numbers with the label last.
    """

    def load(path: Path) -> tuple[np.ndarray, np.ndarray]:
        if path.suffix == ".npz":
            with np.load(path) as stored:
                if not {"x", "y"} <= set(stored.files):
                    raise DataError(f"{path}: arrays {', '.join(stored.files)} found, x [N, d] and y [N] expected")
                return stored["x"], stored["y"]
        if path.suffix == ".npy":
            table = np.load(path)
            return table[:, :-1], table[:, -1]
        return _table(path, ",", skip=0, end=None, label=-1)

    return _of_files(spec, root, load)


def read_reuters(spec: Mapping[str, Any], root: Path, download: bool) -> Raw:
    """REUTERS-10K from DEC's file reutersidf10k.npy (a pickled dictionary of `data` and `label`), times sqrt(d).

    Where the file is missing and a download is allowed it is built from scikit-learn's RCV1 as DEC did, but from RCV1's
    own tf-idf weights: the token counts that DEC weighted anew are not part of RCV1.
    """

    def load(path: Path) -> tuple[np.ndarray, np.ndarray]:
        if path.is_file():
            # The official file is a pickle; it is opened only where the user has put it.
            stored = np.load(path, allow_pickle=True).item()
            return np.asarray(stored["data"]) * np.sqrt(stored["data"].shape[1]), stored["label"]
        from sklearn.datasets import fetch_rcv1

        return reuters_10k(fetch_rcv1(data_home=path.parent), spec["shape"][1], spec["splits"]["train"])

    return _of_files(spec, root, load, optional=download)


def reuters_10k(rcv1: Any, width: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """The first `rows` documents with exactly one root category, their `width` most frequent terms, scaled as DEC's.

    `rcv1`: scikit-learn's bunch (data: sparse tf-idf [N, terms]; target: sparse [N, categories]; target_names).
    """
    from sklearn.preprocessing import normalize

    roots = [list(rcv1.target_names).index(name) for name in ("CCAT", "ECAT", "GCAT", "MCAT")]
    member = np.asarray(rcv1.target[:, roots].todense()).astype(bool)
    kept = np.flatnonzero(member.sum(1) == 1)
    used = np.asarray((rcv1.data[kept] > 0).sum(0)).ravel()
    terms = np.sort(np.argsort(-used, kind="stable")[:width])
    chosen = kept[:rows]
    x = normalize(rcv1.data[chosen][:, terms]).toarray() * np.sqrt(width)
    return x, member[chosen].argmax(1)


def _of_files(spec: Mapping[str, Any], root: Path, load: Any, optional: bool = False) -> Raw:
    """Read each split's file with `load`, scale, and give the rows the shape of the data set; labels become 0..C-1."""
    parts, labels, splits = [], [], {}
    for split in spec["splits"]:
        path = root / spec["files"][split]
        if not path.is_file() and (packed := path.with_name(f"{path.name}.gz")).is_file():
            path = packed
        if not path.is_file() and not optional:
            raise DataError(f"{path}: not found; put the official file of {spec['title']} there (or its .gz)")
        x, y = load(path)
        x = np.asarray(x, dtype=np.float32) * np.float32(spec.get("scale", 1))
        width = int(np.prod(spec["shape"]))
        if x.ndim != 2 or x.shape[1] != width or len(x) != len(y):
            raise DataError(f"{path}: {list(x.shape)} values and {len(y)} labels found, [N, {width}] and N expected")
        parts.append(x.reshape(-1, *spec["shape"]))
        labels.append(np.asarray(y))
        splits[split] = len(x)
    names, numbers = np.unique(np.concatenate(labels), return_inverse=True)
    files = ", ".join(spec["files"][split] for split in splits)
    return Raw(np.concatenate(parts), numbers, splits, files, {"labels": [str(name) for name in names]})


def _table(path: Path, separator: str | None, skip: int, end: int | None, label: int) -> tuple[np.ndarray, np.ndarray]:
    """(values, labels) of a text file of numbers, the label in column `label`; a lone `end` closes the file."""
    import gzip

    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        lines = [line.split(separator) for line in file.read().splitlines()[skip:] if line.strip()]
    if end is not None and lines and lines[-1] == [str(end)]:
        lines.pop()
    widths = {len(line) for line in lines}
    if len(widths) != 1:
        raise DataError(f"{path}: lines of {sorted(widths)[:5]} numbers found, all equally long expected")
    try:
        table = np.array(lines, dtype=np.float64)
    except ValueError as problem:
        raise DataError(f"{path}: not a table of numbers ({problem})") from None
    return np.delete(table, label, axis=1), table[:, label].astype(np.int64)


READERS = {
    "digits": read_digits,
    "torchvision": read_torchvision,
    "folder": read_folder,
    "jf": read_jf,
    "csv": read_csv,
    "vectors": read_vectors,
    "reuters": read_reuters,
    "voc": read_voc,
}


def _subset(raw: Raw, size: int) -> Raw:
    """`size` rows of `raw`, stratified by label, the same share of each split."""
    total, start, kept, splits = len(raw.labels), 0, [], {}
    generator = np.random.default_rng(DIGITS_SPLIT_SEED)
    for split, rows in raw.splits.items():
        wanted = round(size * rows / total)
        here = start + generator.permutation(rows)
        # Interleaving the classes makes every prefix as stratified as it can be.
        rank = np.empty(rows)
        for label in np.unique(raw.labels[here]):
            members = raw.labels[here] == label
            rank[members] = (np.arange(members.sum()) + 0.5) / members.sum()
        kept.append(np.sort(here[np.argsort(rank, kind="stable")][:wanted]))
        splits[split] = wanted
        start += rows
    rows = np.concatenate(kept)
    return Raw(
        raw.images[rows], raw.labels[rows], splits, f"{raw.source}, {size} rows", {"split": raw.notes.get("split")}
    )
