"""Image files decoded once, when a data set is prepared: the same array for whoever reads them after."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from preparation.image_files import read_image
from preparation.prepared import Raw

RESIZED = "the largest box of the shape's aspect from the middle, bilinear with antialiasing to the shape"


def decoded(raw: Raw, shape: Sequence[int]) -> Raw:
    """`raw` with the pixels uint8 [N, H, W, C] of its files in place of their paths; these are the notes' `files`."""
    root = Path(raw.root or "")
    pixels = np.empty((len(raw.images), *shape), np.uint8)
    with ThreadPoolExecutor(_threads()) as pool:  # Pillow decodes and resizes outside Python's lock
        for row, image in enumerate(pool.map(lambda path: fitted(root / str(path), shape), raw.images)):
            pixels[row] = image
    notes = {**raw.notes, "resized": RESIZED, "files": raw.images.tolist()}
    return raw._replace(images=pixels, root=None, notes=notes)


def fitted(path: Path, shape: Sequence[int]) -> np.ndarray:
    """One file as uint8 of `shape` (height, width, channels). DataError for a file that cannot be read."""
    from PIL import Image, ImageOps

    pixels = read_image(path, shape[2])
    if pixels.shape == tuple(shape):
        return pixels
    image = Image.fromarray(pixels[:, :, 0] if shape[2] == 1 else pixels)
    size = (shape[1], shape[0])
    return np.asarray(ImageOps.fit(image, size, Image.Resampling.BILINEAR)).reshape(shape)


def _threads() -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, int(os.environ.get("BENCH_WORKERS", cores)))
