"""Own vectors of a user: a few numbers, their labels, and what a configuration says of them."""

import numpy as np

from pipeline.record import Record
from preparation.prepared import open_prepared, write_prepared
from preparation.readers import read

RECORD = Record("prepare", ("preparation.prepare",), {}, {})


def vectors(**more):
    """What config/datasets would say of four own vectors of three numbers, of two classes."""
    return {
        "title": "Own", "source": "vectors", "files": {"train": "x.npz"}, "classes": 2, "shape": [1, 3, 1],
        "splits": {"train": 4}, "normalisation": {"mean": [0], "std": [1]}, **more,
    }  # fmt: skip


X = np.arange(12, dtype=np.float64).reshape(4, 3) / 7
Y = np.array([5, 9, 5, 9])
LINES = "1,2,3,0\n2,3,4,1\n3,4,5,0\n4,5,6,1\n"


def prepare(tmp_path, spec):
    """The opened folder of `spec`, through all checks."""
    raw = read(spec, tmp_path, False)
    write_prepared(tmp_path / "out", "own", spec, raw.images, raw.labels, raw.splits, raw.source, RECORD, raw.notes,
                   raw.root, raw.class_names)  # fmt: skip
    return open_prepared(tmp_path / "out")
