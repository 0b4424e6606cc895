"""New images or vectors -> a prepared folder, made as the rows of a data set were, for a model that was trained on it.

python -m preparation.new_rows --like results/data/digits --new some/images --out some/folder

Nothing is learnt here and no label is read: all rows are of split `unlabeled`. names.npy holds the path of each row,
where rows are files.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.data_set import are_vectors
from pipeline.options import Parser
from pipeline.record import Record, run_stage, whole
from preparation.decoding import decoded
from preparation.described.columns import LABEL_NAMES, table_form
from preparation.described.found import in_words
from preparation.folders import image_files, is_image
from preparation.image_files import NOTES, check_image, read_image
from preparation.number_files import reading_file, shaped, standardised, stored, weighted
from preparation.prepared import DataError, Prepared, Raw, content, open_prepared, write_prepared
from preparation.statistics import differences


def main() -> None:
    parser = Parser(description=__doc__)
    parser.add_argument("--like", required=True, help="prepared folder of the data set")
    parser.add_argument("--new", required=True, help="folder of images, an image, or a file .npz, .npy or of text")
    parser.add_argument("--out", required=True, help="folder to write")
    arguments = parser.parse_args()
    like, new = open_prepared(arguments.like), Path(arguments.new)
    record = Record(
        "new_rows", ("preparation.new_rows",), {"new": str(new.absolute())}, {"data": content(like.card) or ""}
    )
    raw, notes = read_new(new, like)
    spec = {key: like.card[key] for key in ("classes", "shape", "normalisation")} | {"splits": raw.splits}
    names = raw.notes.pop("files", raw.images if raw.root else None)
    if names is not None:
        with whole(Path(arguments.out, "names.npy")) as file:
            np.save(file, np.array(names))
    write_prepared(
        arguments.out, new.name, spec, raw.images, raw.labels, raw.splits, raw.source, record, raw.notes, raw.root
    )
    for note in (*notes, *differences(open_prepared(arguments.out), like)):
        print(f"note: {note}")


def read_new(new: Path, like: Prepared) -> tuple[Raw, list[str]]:
    """(the rows at a path as the data set `like` was read, what the user should know of them). DataError for rows of
    another kind or shape, damaged files, and where there is nothing.
    """
    if not new.exists():
        raise DataError(f"{new}: no such folder or file; give a folder of images, or a file .npz, .npy or .csv")
    images = new.is_dir() or is_image(new.name)
    if images and are_vectors(like.card["shape"]):
        raise DataError(
            f"{new}: images found, but the run was trained on vectors of {like.card['shape'][1]} numbers; give a file "
            "of them (.npz, .npy or .csv)"
        )
    if not images and like.root is not None:
        raise DataError(
            f"{new}: a file of numbers found, but the run was trained on image files, whose decoding and cutting are "
            "part of what it learnt; give a folder of image files"
        )
    raw, notes = _images(new, like) if images else _numbers(new, like)
    if not len(raw.images):
        raise DataError(f"{new}: holds no rows; it is empty, or was cut off")
    return raw, notes


def _images(new: Path, like: Prepared) -> tuple[Raw, list[str]]:
    """Image files of a folder and those below it, in the order of their paths; or a single one."""
    root = new.resolve() if new.is_dir() else new.resolve().parent
    paths = sorted(str(path.relative_to(root)) for path in image_files(root)) if new.is_dir() else [new.name]
    if not paths:
        others = sum(path.is_file() for path in new.rglob("*"))
        raise DataError(
            f"{new}: no image files in it or below it ({others} other files); name the folder that holds them"
        )
    for path in paths:
        try:
            path.encode()
        except UnicodeEncodeError:
            raise DataError(f"{new}: {path!r}: a name of a file or folder that is not in UTF-8; rename it") from None
        check_image(root / path)
    raw = Raw(
        np.array(paths),
        np.full(len(paths), -1),
        {"unlabeled": len(paths)},
        f"files under {new}",
        dict(NOTES),
        str(root),
    )
    classes = {str(name) for name in like.card.get("class_names") or ()}
    named = classes & {Path(path).parts[0] for path in paths if len(Path(path).parts) > 1}
    notes = (
        [f"folders are named as classes ({sorted(named)[0]}, ...); names of folders are not looked at"] if named else []
    )
    if like.root is not None:
        return raw, notes
    shape = like.card["shape"]
    if like.card["record"]["settings"].get("decode"):
        return decoded(raw, shape), notes
    pixels = np.empty((len(paths), *shape), np.uint8)
    for row, path in enumerate(paths):
        pixels[row] = _pixels(root / path, shape)
    return raw._replace(images=pixels, root=None, notes={**raw.notes, "files": paths}), notes


def _pixels(path: Path, shape: list[int]) -> np.ndarray:
    """An image file as a row of a run that was trained on arrays uint8 [H, W, C]: of that shape, not brought to it."""
    colours = read_image(path)
    found = [*colours.shape[:2], 3]
    if (colours == colours[:, :, :1]).all() and shape[2] == 1:
        colours, found = colours[:, :, :1], [*colours.shape[:2], 1]
    if found != list(shape):
        wanted = in_words(shape) if shape[2] in (1, 3) else f"{shape[0]} x {shape[1]} in {shape[2]} channels"
        raise DataError(
            f"{path}: {in_words(found)} found, but the run was trained on arrays of {wanted}, and nothing says how it "
            "would have cut or converted files; store such files, or give an array"
        )
    return colours


def _numbers(new: Path, like: Prepared) -> tuple[Raw, list[str]]:
    """Rows of a file of numbers, scaled as the data set's own."""
    spec, shape = dict(like.card["record"]["settings"]), like.card["shape"]
    width, notes = int(np.prod(shape)), []
    spec |= {"labels": False, "drop": []}
    with reading_file(new):
        if new.suffix == ".npz":
            with np.load(new, allow_pickle=False) as arrays:
                notes += ["array y is not looked at"] if "y" in arrays.files else []
        elif new.suffix == ".npy":
            array = np.load(new, mmap_mode="r", allow_pickle=False)
            if array.ndim == 2:
                spec["drop"] = _left_out(new, like, width, array.shape[1], None, False)
        else:
            delimiter, header, columns, counted = table_form(new)
            spec |= {"delimiter": delimiter, "header": header is not None}
            spec["drop"] = _left_out(new, like, width, columns, header, counted)
            if header and header[-1].isdigit():
                notes.append(
                    f"the first line ({', '.join(header[:3])}{', ...' * (columns > 3)}) is taken for numbers of columns"
                )
        table = stored(spec, new, "unlabeled")
    if spec["drop"]:
        notes.append(f"left out: column {', '.join(map(repr, spec['drop']))}")
    x = _checked(new, table.values, shape)
    x = weighted(x) if spec["source"] == "reuters" else x
    x = standardised(spec, shaped(spec, new, table._replace(values=x)))
    if x.dtype != np.uint8 and not are_vectors(shape) and len(x) and (x.min() < 0 or x.max() > 1 + 1e-4):
        raise DataError(
            f"{new}: pixels of {x.min():.6g}..{x.max():.6g} found, bytes of 0..255 or numbers in 0..1 expected; store "
            "them so (x.astype('uint8'), or x / 255)"
        )
    return Raw(x, np.full(len(x), -1), {"unlabeled": len(x)}, str(new), {}), notes


def _checked(new: Path, x: np.ndarray, shape: list[int]) -> np.ndarray:
    """Values of the shape of the run's rows, or flat ones."""
    width, grey = int(np.prod(shape)), shape[2] == 1 and not are_vectors(shape)
    allowed = [tuple(shape), *([(width,)] if shape[2] == 1 else []), *([tuple(shape[:2])] if grey else [])]
    if x.dtype.kind not in "iubf":
        raise DataError(f"{new}: values of type {x.dtype} found, numbers expected")
    if x.shape[1:] not in allowed:
        wanted = f"[N, {width}]" if are_vectors(shape) else f"[N, {', '.join(map(str, shape))}]"
        swapped = x.ndim == 4 and x.shape[1] == shape[2]
        cure = (
            "transpose(0, 2, 3, 1) brings channels to the end"
            if swapped
            else "resize or choose columns as the run's own"
        )
        raise DataError(f"{new}: values of shape {list(x.shape)} found, the run was trained on {wanted}; {cure}")
    return x


def _left_out(
    new: Path, like: Prepared, width: int, columns: int, header: list[str] | None, counted: bool
) -> list[int | str]:
    """The columns of a file that are no values: none, or row numbers (`counted`: the first column is such), or what the
    data set's own file holds besides values, its label and the columns that it leaves out.
    """
    label, drop = _own_columns(like.card["record"]["settings"], header)
    for out in _choices(label, drop, header, counted):
        if columns - len(out) == width:
            return out
    own = [*map(repr, drop), *([f"label {label!r}"] if label is not None else [])]
    beside = f" (and beside them, as in the data set's own file, {', '.join(own)})" if own else ""
    raise DataError(
        f"{new}: {columns} columns found, the run was trained on rows of {width} numbers{beside}; leave out what is no "
        "value"
    )


def _own_columns(spec: Mapping[str, Any], header: list[str] | None) -> tuple[int | str | None, list[int | str]]:
    """(label, columns left out) of the data set's own file; where that is no table, the column that is called label."""
    files = spec["files"].values() if spec["source"] in ("csv", "vectors") else ()
    if any(Path(name).suffix != ".npz" for name in files):
        return spec.get("label", -1) if spec.get("labels", True) else None, list(spec.get("drop", ()))
    return next((name for name in header or () if name.strip().lower() in LABEL_NAMES), None), []


def _choices(
    label: int | str | None, drop: list[int | str], header: list[str] | None, counted: bool
) -> Iterator[list[int | str]]:
    """Columns that may be left out, the likeliest first; names that the header lacks are not there to be left out."""
    known = header or ()
    named = [name for name in drop if isinstance(name, int) or name in known]
    labels = [] if label is None or (isinstance(label, str) and label not in known) else [label]
    yield []
    if counted:
        yield [0]
        if not drop:
            yield [0, *labels]
    if named == drop:
        yield [*drop, *labels]
    # Where a label is missing, numbers of columns may mean others than in the data set's own file; names do not.
    if label is None or all(isinstance(name, str) for name in named):
        yield named
    if labels and isinstance(label, str):
        yield labels


if __name__ == "__main__":
    run_stage(main)
