"""Control: no network at all, an image is its own feature vector. The floor of every clustering table."""

from methods.method import Method


class Pixels(Method):
    """h = flattened normalised pixels; the recipe says `backbone: none` and `epochs: 0`."""


METHOD = Pixels
