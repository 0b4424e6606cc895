"""Images as they are looked at: whole, upright, in their colours."""

from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from preparation.prepared import DataError
from preparation.thumbnails import thumbnails


def data(images, shape, root=None):
    return SimpleNamespace(card={"name": "d", "shape": list(shape)}, images=images, root=root)


def test_small_images_keep_their_pixels():
    x = np.random.default_rng(0).integers(0, 256, (5, 8, 6, 1), dtype=np.uint8)
    found = thumbnails(data(x, (8, 6, 1)), [3, 0])
    assert (found.shape, found.dtype) == ((2, 8, 6, 3), np.uint8)
    for channel in range(3):
        np.testing.assert_array_equal(found[..., channel], x[[3, 0], ..., 0])
    colour = np.random.default_rng(0).integers(0, 256, (2, 4, 4, 3), dtype=np.uint8)
    np.testing.assert_array_equal(thumbnails(data(colour, (4, 4, 3)), [1])[0], colour[1])
    np.testing.assert_array_equal(thumbnails(data(x[:, :1, :1], (1, 6, 3)), []), np.empty((0, 1, 6, 3)))


def test_numbers_from_0_to_1_are_brightness():
    x = np.array([0, 0.5, 1, 1.2], np.float32).reshape(1, 2, 2, 1)
    assert thumbnails(data(x, (2, 2, 1)), [0])[0, ..., 1].tolist() == [[0, 128], [255, 255]]


def test_large_images_are_made_small_and_stay_whole():
    x = np.zeros((1, 300, 200, 3), np.uint8)
    x[:, :150] = 200
    found = thumbnails(data(x, (300, 200, 3)), [0])[0]
    assert found.shape == (96, 64, 3)
    assert found[:47].min() == 200
    assert found[49:].max() == 0


def test_a_file_of_another_aspect_stands_on_white(tmp_path):
    Image.new("RGB", (80, 20), (10, 20, 30)).save(tmp_path / "wide.png")
    found = thumbnails(data(np.array(["wide.png"]), (32, 32, 3), tmp_path), [0])[0]
    assert found.shape == (32, 32, 3)
    assert (found[12:20] == [10, 20, 30]).all()
    assert (found[:11] == 255).all()
    assert (found[21:] == 255).all()
    with pytest.raises(DataError, match=r"gone\.png"):
        thumbnails(data(np.array(["gone.png"]), (32, 32, 3), tmp_path), [0])


@pytest.mark.parametrize("shape", [(1, 12, 1), (8, 8, 2), (8, 8, 4)])
def test_what_is_no_image_is_refused(shape):
    with pytest.raises(DataError, match=r"data set 'd': rows of shape .* are no images"):
        thumbnails(data(np.zeros((2, *shape), np.float32), shape), [0])
