"""A case: what goes wrong on a user's machine, and what came of it: nothing lost, and one line that tells it."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

LONGEST = 400  # characters of a told line: Snakemake's reasons hold whole recipes


class Lost(Exception):
    """What a case lost, or did not tell."""


class Skipped(Exception):
    """Why a case cannot happen on this machine."""


@dataclass(frozen=True)
class Setting:
    """What a case works with: a folder of its own, a finished project that it copies and leaves as it is, and chance
    (the same for one seed, whichever other cases run).
    """

    folder: Path
    finished: Path
    chance: random.Random


@dataclass
class Outcome:
    """`seen`: what happened, in words; `told`: the exact lines that a user got, each once."""

    seen: str = ""
    told: dict[str, None] = field(default_factory=dict)

    def tell(self, line: str) -> None:
        """Keep a line that a user got."""
        line = line.strip()
        self.told[line if len(line) <= LONGEST else f"{line[:LONGEST]}..."] = None


@dataclass(frozen=True)
class Case:
    """`happens` makes it happen in a setting. Raises Lost for anything that must not be, Skipped where it cannot be."""

    name: str
    what: str
    happens: Callable[[Setting], Outcome]


def require(held: bool, otherwise: str) -> None:
    """Raise Lost with the words of `otherwise` unless `held`."""
    if not held:
        raise Lost(otherwise)
