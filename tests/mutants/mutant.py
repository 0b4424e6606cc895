"""A mutant: one line of the project, changed so that a number would be wrong, and the tests that must notice."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """`old` stands in `file` exactly once and becomes `new`; of `tests` (files, folders, file::test) one must fail.

    `equivalent` says why no test can fail, where that is so: such a mutant is listed, not run.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    equivalent: str = ""


def mutants(file: str, tests: str, **changes: tuple[str, ...]) -> list[Mutant]:
    """Mutants of one file under the same tests: name=(old, new) or (old, new, why it is equivalent)."""
    return [Mutant(name, file, old, new, tuple(tests.split()), *why) for name, (old, new, *why) in changes.items()]
