"""Catalogues of tests: things that have a name each."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

Named = TypeVar("Named", bound=Any)


def gathered(*lists: Iterable[Named]) -> Mapping[str, Named]:
    """The things by their `name`. Raises ValueError for a name that stands twice."""
    found: dict[str, Named] = {}
    for one in (one for some in lists for one in some):
        if one.name in found:
            raise ValueError(f"{type(one).__name__.lower()} {one.name!r} stands twice")
        found[one.name] = one
    return found
