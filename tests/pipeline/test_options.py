"""Command lines: every option of every command has a line of help that tells its default."""

import argparse
import importlib
import inspect
import re
import sys

import pytest

from pipeline.naming import ConfigError
from pipeline.options import Parser
from tests.conftest import ROOT

PACKAGES = ("pipeline", "preparation", "training", "evaluation", "report")
COMMANDS = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
    if re.search(r"= (argparse\.Argument)?Parser\(", path.read_text(encoding="utf-8"))
)


class Seen(Exception):
    """A command has told its options."""


@pytest.fixture
def parser_of(monkeypatch):
    """The parser of a module's `main`, caught when it begins to read."""

    def caught(self, *_, **__):
        raise Seen(self)

    def parser(name):
        module = importlib.import_module(name)
        monkeypatch.setattr(argparse.ArgumentParser, "parse_args", caught)
        monkeypatch.setattr(Parser, "parse_args", caught)
        monkeypatch.setattr(sys, "argv", ["command"])
        words = [["word"]] if inspect.signature(module.main).parameters else []
        with pytest.raises(Seen) as seen:
            module.main(*words)
        return seen.value.args[0]

    return parser


def test_there_are_commands():
    assert {"training.train", "evaluation.assign", "report.tabulate", "pipeline.make", "pipeline.show"} <= set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_a_line_that_tells_its_default(parser_of, name):
    parser = parser_of(name)
    assert parser.description
    shown = " ".join(parser.format_help().split())
    for action in parser._actions:
        assert action.help, action.dest
        if action.default not in (None, False, [], argparse.SUPPRESS):
            told = rf"(\(default: |default: ){re.escape(str(action.default))}"
            assert re.search(told, shown), f"{action.dest}: {action.default}"


@pytest.fixture
def parser():
    made = Parser(prog="it")
    made.add_argument("names", nargs="*", help="names")
    made.add_argument("--seeds", default="0-2", help="seeds")
    made.add_argument("--cores", default=2, help="cores; default: two")
    made.add_argument("--out", help="a file")
    made.add_argument("--dry", action="store_true", help="nothing runs")
    return made


def test_help_shows_defaults_once_and_only_those_that_there_are(parser):
    shown = re.sub(r" +", " ", parser.format_help())
    assert "--seeds SEEDS seeds (default: 0-2)\n" in shown
    assert "--cores CORES cores; default: two\n" in shown
    assert "--out OUT a file\n" in shown
    assert "--dry nothing runs\n" in shown


def test_words_and_options_may_stand_in_any_order(parser):
    found = parser.parse_args(["a", "--seeds", "1", "b", "--dry"])
    assert (found.names, found.seeds, found.dry) == (["a", "b"], "1", True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--sedes 1", "it: unknown option '--sedes'; did you mean '--seeds'?"),
        ("--sedes=1", "it: unknown option '--sedes'; did you mean '--seeds'?"),
        ("a --out", "it: argument --out: expected one argument"),
    ],
)
def test_a_mistake_is_an_error_in_one_line(parser, words, message):
    with pytest.raises(ConfigError) as problem:
        parser.parse_args(words.split())
    assert str(problem.value) == f"{message} (--help tells more)"


def test_a_word_too_many_is_named():
    with pytest.raises(ConfigError, match=r"^it: 'b' is one word too many"):
        Parser(prog="it").parse_args(["b"])
