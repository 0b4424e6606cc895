"""Command lines: what is wrong with one is one line with the nearest option, and `--help` shows every default."""

import argparse
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from pipeline.naming import ConfigError, suggestion


class Help(argparse.RawDescriptionHelpFormatter):
    """The description as it stands, and the default of every option that has one."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        text = action.help or ""
        # None, False and [] say nothing; a text may tell its default in words.
        shown = action.default not in (None, False, [], argparse.SUPPRESS)
        return f"{text} (default: %(default)s)" if shown and "default" not in text else text


class Parser(argparse.ArgumentParser):
    """Raises ConfigError for words that it cannot read, where argparse prints its usage and ends the process."""

    def __init__(self, **settings: Any):
        super().__init__(**{"formatter_class": Help, **settings})

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """As argparse does; an unknown option is told with the nearest one."""
        found, unknown = self.parse_known_intermixed_args(sys.argv[1:] if args is None else args, namespace)
        if unknown:
            option = next((word for word in unknown if word.startswith("-")), unknown[0]).partition("=")[0]
            if not option.startswith("-"):
                self.error(f"{option!r} is one word too many")
            self.error(f"unknown option {option!r}; {suggestion(option, self._option_string_actions)}")
        return found

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{self.prog}: {message} (--help tells more)")
