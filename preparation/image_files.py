"""Image files: which are taken, and how their pixels become bytes of RGB or grey."""

import contextlib
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipeline.data_files import MISSING, DataFiles
from preparation.prepared import RIGHTS, DataError, Prepared

if TYPE_CHECKING:  # slow to import, and images in memory do without
    from PIL.Image import Image

EIGHT_BITS = ("1", "L", "P", "RGB", "RGBX", "CMYK", "YCbCr", "LA", "La", "PA", "RGBA", "RGBa")
ORIENTATION, SIDEWAYS = 0x0112, (5, 6, 7, 8)  # the EXIF tag, and its values that swap height and width
SIXTEEN_BITS = ("I;16", "I;16B", "I;16L", "I;16N")
# What a card says of how its files are read.
NOTES = {
    "orientation": "as the EXIF tag says, as viewers show the photograph",
    "transparency": "shown on white",
    "16 bits": "divided by 257",
}


def check_unchanged(data: Prepared) -> None:
    """Raise DataError where the image files of a data set are no longer those that it was prepared from.

    They are read by every stage anew, and may be edited between two stages of one run. The pipeline's own cache of
    hashes makes this a look at sizes and times; without it, by hand, all content is read.
    """
    expected = data.card["record"].get("sources")
    if data.root is None or expected is None:
        return
    cache = os.environ.get("BENCH_SOURCES_CACHE")
    found = DataFiles(data.data_root, cache).hash(data.card["record"]["settings"])
    if found != expected:
        happened, mend = ("are gone", "put them back, and ") if found == MISSING else ("changed", "")
        raise DataError(
            f"{data.root}: image files of data set {data.card['name']!r} {happened} since it was prepared "
            f"({expected} expected, {found} found): {mend}run the same command again"
        )


def check_image(path: Path) -> None:
    """Raise DataError for a file whose header says that it is no image, or none that `read_image` takes."""
    with _opened(path):
        pass


def image_size(path: Path) -> tuple[int, int]:
    """(height, width) of the image as `read_image` turns it; decodes nothing. Raises DataError as `check_image`."""
    with _opened(path) as image:
        sideways = image.getexif().get(ORIENTATION) in SIDEWAYS
        return (image.width, image.height) if sideways else (image.height, image.width)


def read_image(path: Path, channels: int = 3) -> np.ndarray:
    """The file as uint8 [H, W, channels], 3 for RGB or 1 for grey, turned upright as its EXIF tag says.

    Values of 16 bits are divided by 257; transparent parts are shown on white. Raises DataError for a file that is
    damaged, has several pages, or values whose range nobody knows (32 bits).
    """
    from PIL import Image, ImageOps

    with _opened(path) as image:
        ImageOps.exif_transpose(image, in_place=True)
        if image.mode in SIXTEEN_BITS or image.mode == "I":
            grey = (np.asarray(image).astype(np.int64) + 128) // 257
            return np.repeat(grey.clip(0, 255).astype(np.uint8)[:, :, None], channels, axis=2)
        if image.has_transparency_data:
            image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image.convert("RGBA"))
        pixels = np.array(image.convert("L" if channels == 1 else "RGB"))
        return pixels.reshape(*pixels.shape[:2], channels)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator["Image"]:
    """The opened file, its header checked; whatever a decoder raises becomes one line with the cure."""
    from PIL import Image, UnidentifiedImageError

    # A picture of a size that only an attack would have is no OSError.
    damaged = (OSError, ValueError, SyntaxError, EOFError, TypeError, LookupError, struct.error)
    try:
        with Image.open(path) as image:
            # A phone's MPO holds the photograph and then its previews.
            pages = 1 if image.format == "MPO" else getattr(image, "n_frames", 1)
            if pages > 1:
                raise DataError(f"{path}: holds {pages} pages or frames, one image expected; store each as a file")
            # Pillow gives the 16 bits of some PNG and PGM files as 32-bit integers.
            known = image.mode in (*EIGHT_BITS, *SIXTEEN_BITS) or (image.mode == "I" and image.format in ("PNG", "PPM"))
            if not known:
                raise DataError(
                    f"{path}: pixels of mode {image.mode} (32 bits or another colour space), whose range is not known; "
                    "store 8 or 16 bits a channel"
                )
            yield image
    except PermissionError as problem:
        raise DataError(f"{path}: {problem.strerror}; {RIGHTS}") from None
    except (*damaged, Image.DecompressionBombError) as problem:
        if path.is_symlink() and not path.exists():
            raise DataError(f"{path}: a link to what does not exist; mend or delete it") from None
        reason = "of no known format" if isinstance(problem, UnidentifiedImageError) else problem
        raise DataError(f"{path}: cannot be decoded ({reason}); replace the file and prepare the data again") from None
