"""Names: is this one known, and if not, which one was meant?"""

import difflib
from collections.abc import Iterable

from pipeline.record import StageError


class ConfigError(StageError):
    """A name, key or value in the configuration that cannot be."""


def require(kind: str, name: str, known: Iterable[str]) -> None:
    """Raise ConfigError, naming the nearest known name, unless `name` is known."""
    known = list(known)
    if name not in known:
        raise ConfigError(f"unknown {kind} {name!r}; {suggestion(name, known)}")


def suggestion(name: str, known: Iterable[str]) -> str:
    """Words that name the nearest known name, or list all of them."""
    known = sorted(set(known))
    near = difflib.get_close_matches(str(name), known, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"known are: {', '.join(known) or 'none'}"
