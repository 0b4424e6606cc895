"""Words of a snakemake command that it would take for something else, or end with a traceback at: ./run asks first."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from pipeline.command import SEVERAL
from pipeline.naming import ConfigError
from pipeline.record import run_stage


def main(words: Sequence[str] | None = None) -> None:
    """Raise ConfigError for a word of `words`, the command line of snakemake, that cannot be what it stands for."""
    for option, word in taken(sys.argv[1:] if words is None else words):
        if option == "--config" and "=" not in word:
            raise ConfigError(f"{word!r} stands after --config, where KEY=VALUE is expected; give targets first")
        if option == "--configfile":
            _check_file(word)


def taken(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(option, word) of every word that --configfile or --config takes: all up to the next option."""
    option = ""
    for word in words:
        name, equals, value = word.partition("=")
        if word.startswith("-"):
            option = SEVERAL.get(name, "")
            if option and equals:  # --config=a=b takes this one alone
                yield option, value
                option = ""
        elif option:
            yield option, word


def _check_file(word: str) -> None:
    if Path(word).is_file():
        if Path(word).suffix not in (".yaml", ".yml", ".json"):
            raise ConfigError(f"{word!r} stands after --configfile, and is no configuration; give targets first")
        return
    from pipeline import suites  # takes its time, and most commands need it not

    if Path(word).suffix in (".yaml", ".yml", ".json"):
        suites.suite_file(word)  # which names the nearest
    raise ConfigError(f"{word!r} stands after --configfile, and there is no such file; give targets first")


if __name__ == "__main__":
    run_stage(main)
