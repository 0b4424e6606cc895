"""Control: the network with its random initial weights. What a trained encoder must beat to have learned anything."""

from methods.method import Method


class Untrained(Method):
    """h = f(x) with random f; the recipe says `epochs: 0`."""


METHOD = Untrained
