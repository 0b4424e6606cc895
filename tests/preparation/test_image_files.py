"""Image files of every kind that a camera, a scanner or a program writes: rightly read, or refused by name."""

import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from preparation.image_files import check_image, read_image
from preparation.prepared import DataError

GREY = np.array([[0, 64, 128], [192, 250, 255]], np.uint8)
COLOUR = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)


def png_of_16_bits(path, values):
    """A PNG of uint16 [H, W] or [H, W, 3], which Pillow itself cannot write in colour."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    height, width = values.shape[:2]
    head = struct.pack(">IIBBBBB", width, height, 16, 0 if values.ndim == 2 else 2, 0, 0, 0)
    lines = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")
    )


def read(path, channels=3):
    check_image(path)
    found = read_image(path, channels)
    assert found.dtype == np.uint8
    assert found.shape[2] == channels
    return found


@pytest.mark.parametrize("ending", ["png", "tif", "pgm"])
@pytest.mark.parametrize("channels", [1, 3])
def test_sixteen_bits_become_eight(tmp_path, ending, channels):
    path = tmp_path / f"x.{ending}"
    values = GREY.astype(np.uint16) * 257
    values[0, 1] += 100  # rounds down
    values[0, 2] += 200  # and up
    if ending == "pgm":
        path.write_bytes(b"P5 3 2 65535\n" + values.astype(">u2").tobytes())
    else:
        Image.fromarray(values).save(path)
    wanted = GREY.copy()
    wanted[0, 2] += 1
    assert (read(path, channels) == wanted[:, :, None]).all()


def test_sixteen_bits_of_colour_become_eight(tmp_path):
    png_of_16_bits(tmp_path / "x.png", COLOUR.astype(np.uint16) * 257)
    np.testing.assert_array_equal(read(tmp_path / "x.png"), COLOUR)


def test_grey_and_colour_become_each_other(tmp_path):
    Image.fromarray(COLOUR).save(tmp_path / "colour.png")
    Image.fromarray(GREY).save(tmp_path / "grey.png")
    np.testing.assert_array_equal(read(tmp_path / "colour.png"), COLOUR)
    luma = COLOUR @ np.array([0.299, 0.587, 0.114])
    assert np.abs(read(tmp_path / "colour.png", 1)[:, :, 0] - luma).max() <= 0.51
    assert (read(tmp_path / "grey.png") == GREY[:, :, None]).all()
    assert (read(tmp_path / "grey.png", 1)[:, :, 0] == GREY).all()


def test_palettes_two_levels_and_inks(tmp_path):
    palette = Image.fromarray((GREY > 100).astype(np.uint8), "L").convert("P")
    palette.putpalette([10, 20, 30, 200, 100, 50])
    palette.save(tmp_path / "palette.png")
    wanted = np.where((GREY > 100)[:, :, None], [200, 100, 50], [10, 20, 30])
    np.testing.assert_array_equal(read(tmp_path / "palette.png"), wanted)
    Image.fromarray(GREY > 100).save(tmp_path / "levels.png")
    np.testing.assert_array_equal(read(tmp_path / "levels.png", 1)[:, :, 0], (GREY > 100) * 255)
    flat = np.full((16, 16, 3), (200, 90, 30), np.uint8)
    for name in ("ink.jpg", "ink.tif"):
        Image.fromarray(flat).convert("CMYK").save(tmp_path / name)
        assert np.abs(read(tmp_path / name).astype(int) - flat).max() <= 3  # JPEG's own loss


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_what_is_transparent_is_white(tmp_path, mode):
    path = tmp_path / "x.png"
    if mode == "P":
        image = Image.fromarray(np.array([[0, 1]], np.uint8), "L").convert("P")
        image.putpalette([10, 10, 10, 100, 100, 100])
        image.save(path, transparency=0)
        wanted = [255, 100]
    else:
        image = Image.new(mode, (3, 1))
        for x, alpha in enumerate((0, 255, 51)):
            image.putpixel((x, 0), (100, alpha) if mode == "LA" else (100, 100, 100, alpha))
        image.save(path)
        wanted = [255, 100, 224]  # 100 * 0.2 + 255 * 0.8
    for channels in (1, 3):
        assert np.abs(read(path, channels)[0].astype(int) - np.array(wanted)[:, None]).max() <= 1


@pytest.mark.parametrize(("orientation", "turned"), [(1, 0), (3, 2), (6, 3), (8, 1)])
@pytest.mark.parametrize("ending", ["png", "jpg"])
def test_photographs_are_upright(tmp_path, orientation, turned, ending):
    exif = Image.Exif()
    exif[274] = orientation
    big = COLOUR.repeat(8, 0).repeat(8, 1)
    Image.fromarray(big).save(tmp_path / f"x.{ending}", exif=exif, quality=100, subsampling=0)
    wanted = np.rot90(big, turned)
    assert np.abs(read(tmp_path / f"x.{ending}").astype(int) - wanted).max() <= (0 if ending == "png" else 12)


def refuse(path, message):
    for function in (check_image, read_image):
        with pytest.raises(DataError, match=message) as caught:
            function(path)
        assert "\n" not in str(caught.value)


def test_what_has_no_range_or_several_pages_is_refused_by_name(tmp_path):
    path = tmp_path / "x.tif"
    Image.fromarray(np.random.default_rng(0).random((4, 5)).astype(np.float32)).save(path)
    refuse(path, r"x\.tif: pixels of mode F .* whose range is not known; store 8 or 16 bits")
    Image.fromarray(np.arange(20, dtype=np.int32).reshape(4, 5)).save(path)
    refuse(path, r"x\.tif: pixels of mode I ")
    pages = [Image.new("L", (4, 5), level) for level in (0, 100, 200)]
    for name in ("x.tif", "x.webp", "x.png"):
        pages[0].save(tmp_path / name, save_all=True, append_images=pages[1:])
        refuse(tmp_path / name, rf"{name}: holds 3 pages or frames, one image expected; store each as a file")


def test_a_phones_photograph_with_its_preview_is_the_photograph(tmp_path):
    first, preview = (Image.new("RGB", (16, 16), colour) for colour in ("red", "blue"))
    first.save(tmp_path / "x.jpg", format="MPO", save_all=True, append_images=[preview])
    with Image.open(tmp_path / "x.jpg") as image:
        assert image.n_frames == 2
    assert read(tmp_path / "x.jpg")[0, 0, 0] > 250


def test_damaged_files_and_broken_links_are_named(tmp_path):
    path = tmp_path / "x.png"
    path.write_bytes(b"no image")
    refuse(path, r"x\.png: cannot be decoded \(of no known format\); replace the file")
    path.write_bytes(b"")
    refuse(path, r"x\.png: cannot be decoded")
    (tmp_path / "link.png").symlink_to("nowhere.png")
    refuse(tmp_path / "link.png", r"link\.png: a link to what does not exist; mend or delete it")
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    for name in ("cut.png", "cut.jpg"):
        Image.fromarray(noise).save(tmp_path / name)
        content = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(content[: len(content) // 2])
        with pytest.raises(DataError, match=rf"{name}: cannot be decoded"):
            read_image(tmp_path / name)
