"""Images of a prepared data set made small, for whoever looks at them."""

from collections.abc import Sequence

import numpy as np

from pipeline.data_set import are_vectors
from preparation.image_files import read_image
from preparation.prepared import DataError, Prepared


def thumbnails(data: Prepared, rows: Sequence[int] | np.ndarray, side: int = 96) -> np.ndarray:
    """RGB uint8 [n, h, w, 3] of the rows, whole, in the aspect of the data set's shape; no side is above `side`.

    Smaller images keep their pixels; what is of another aspect stands on white. Raises DataError for vectors, for
    another number of channels than 1 and 3, and for files that are missing or damaged.
    """
    height, width, channels = data.card["shape"]
    if are_vectors(data.card["shape"]) or channels not in (1, 3):
        raise DataError(f"data set {data.card['name']!r}: rows of shape {data.card['shape']} are no images to be shown")
    factor = min(1.0, side / max(height, width))
    box = max(1, round(width * factor)), max(1, round(height * factor))
    found = np.empty((len(rows), box[1], box[0], 3), np.uint8)
    for place, row in enumerate(rows):
        found[place] = _fitted(_pixels(data, int(row), channels), box)
    return found


def _pixels(data: Prepared, row: int, channels: int) -> np.ndarray:
    """One image as uint8 [H, W, 3]."""
    image = data.images[row]
    if data.root is not None:
        image = read_image(data.root / str(image), channels)
    if image.dtype != np.uint8:  # 0..1
        image = np.rint(np.clip(image, 0, 1) * 255).astype(np.uint8)
    return np.repeat(image, 3, axis=2) if channels == 1 else np.asarray(image)


def _fitted(pixels: np.ndarray, box: tuple[int, int]) -> np.ndarray:
    """The whole image within `box` (width, height)."""
    if pixels.shape[:2] == box[::-1]:
        return pixels
    from PIL import Image, ImageOps

    return np.asarray(ImageOps.pad(Image.fromarray(pixels), box, Image.Resampling.BILINEAR, color="white"))
