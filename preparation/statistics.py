"""Do new rows look like those of a data set? Mean and deviation of each channel of images, or column of vectors."""

from collections.abc import Iterator

import numpy as np

from pipeline.data_set import are_vectors
from preparation.decoding import fitted
from preparation.described.images import spread
from preparation.prepared import Prepared

SAMPLE = 2000  # rows that are looked at, evenly spaced; of image files a tenth, which have to be decoded
SHIFT = 0.5  # deviations by which a mean may differ, beyond CHANCE / sqrt(rows), which few rows may differ by
CHANCE = 4.0
RATIO = 1.5  # factor by which the deviation of all channels or columns may differ, and the same for few rows


def differences(new: Prepared, like: Prepared) -> Iterator[str]:
    """A line for each way in which the new rows are unlike the data set's: those in the prepared folder, or for image
    files what the card says of their pixels.
    """
    x, vectors = _sample(new), are_vectors(like.card["shape"])
    found_mean, found_std = _moments(x, vectors)
    if like.root is None:
        mean, std = _moments(_sample(like), vectors)
    else:
        mean, std = (np.array(like.card["normalisation"][key]) for key in ("mean", "std"))
    allowed, least = CHANCE / np.sqrt(len(x)), max(float(std.mean()), 1e-12) * 1e-3
    shift = np.abs(found_mean - mean) / np.maximum(std, least)
    if (far := np.flatnonzero(shift > SHIFT + allowed)).size:
        worst, what = int(shift.argmax()), "column" if vectors else "channel"
        yield (
            f"the new rows differ from the run's: mean {found_mean[worst]:.3g} in {what} {worst} where they have "
            f"{mean[worst]:.3g} with deviation {std[worst]:.3g} ({len(far)} of {len(std)} {what}s differ by more than "
            f"{SHIFT + allowed:.2g} deviations); are they of the same kind, scale and order?"
        )
    found_spread, spread_there = (float(np.sqrt((values**2).mean())) for values in (found_std, std))
    ratio = found_spread / max(spread_there, 1e-12)
    if len(x) > 1 and not 1 / (RATIO + allowed) <= ratio <= RATIO + allowed:
        yield (
            f"the new rows differ from the run's: {'columns' if vectors else 'pixels'} deviate by {found_spread:.3g}, "
            f"those of the run by {spread_there:.3g} (more than a factor of {RATIO + allowed:.2g}); is their "
            f"{'' if vectors else 'contrast or '}scale another?"
        )


def _moments(x: np.ndarray, vectors: bool) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of each channel of images [N, H, W, C], or of each column of vectors [N, 1, d, 1]."""
    flat = x.reshape(len(x) if vectors else -1, x.shape[2] if vectors else x.shape[3])
    return flat.mean(0), flat.std(0)


def _sample(data: Prepared) -> np.ndarray:
    """Some rows in 0..1, or as they are: float64 [n, H, W, C]."""
    if data.root is not None:
        paths = data.images[spread(len(data.images), SAMPLE // 10)]
        x = np.stack([fitted(data.root / str(path), data.card["shape"]) for path in paths])
    else:
        x = data.images[spread(len(data.images), SAMPLE)]
    return x.astype(np.float64) / 255 if x.dtype == np.uint8 else x.astype(np.float64)
