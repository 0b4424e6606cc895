"""Every command that the documentation shows is one that would be taken: programs, modules, options, targets, names."""

import argparse
import functools
import importlib
import importlib.util
import inspect
import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from snakemake.cli import get_argument_parser, parse_config

from pipeline import catalogue, make, preview, targets
from pipeline.naming import ConfigError
from pipeline.options import Parser
from pipeline.plan import Plan
from report import papers, publish, verify
from tests.conftest import ROOT
from tests.written import FENCE, PAGES, blocks

VARIABLES = re.compile(r"^(\w+=(\"[^\"]*\"|\S*) +)+")
OPTIONS = "(config|configfile|workflow-profile|resources|quiet) .|(verbose|printshellcmds|debug-dag)$"
BEGINS = re.compile(rf"\./run .|python -m|snakemake --|--({OPTIONS})")
PLACE = re.compile(r"^[A-Z_.]+$|[{}~]|/[A-Z]+\b")  # a word that stands for another: NAME, ~/birds, own/suites/NAME.yaml
RULES = {"all", *(path.stem for path in (ROOT / "rules").glob("*.smk"))}


class Read(Exception):
    """A program has read its command line."""


def commands():
    """(page, command) of every line of a block and every `span` that begins as a command does; a span that begins
    with an option or with ... goes on `./run snakemake`.
    """
    found = {}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        lines = [line for block in blocks(text, "bash", "sh", "") for line in block.splitlines()]
        spans = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", FENCE.sub("", text))]
        for line in lines + [re.sub(r"^\.\.\. (?=--)", "", span) for span in spans]:
            rest = VARIABLES.sub("", line.strip())
            if BEGINS.match(rest):
                found.setdefault(line.strip(), page.name)
    return [(page, command) for command, page in found.items()]


COMMANDS = commands()


def check(command):
    """Raise an error for a command that would not be taken."""
    variables = VARIABLES.match(command)
    known = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in re.findall(r"(\w+)=", variables[0]) if variables else ():
        assert f"`{name}`" in known, f"{name} is no variable of README.md"
    text = re.sub(r"\[(--[^]]*)\]", lambda may: "" if "..." in may[1] else may[1], command)
    words = shlex.split(text, comments=True)[len(shlex.split(variables[0])) if variables else 0 :]
    if words[0] == "./run":
        assert os.access(ROOT / "run", os.X_OK)
        words = words[1:]
    if words[0].startswith("-"):
        words = ["snakemake", *words]
    program, *words = words
    if program == "bench":
        program, words = "python", ["-m", "pipeline.bench", *words]
    if program == "python":
        assert words[0] == "-m", command
        check_module(words[1], words[2:])
    elif program == "snakemake":
        check_snakemake(words)
    elif program == "pytest":
        check_pytest(words)
    else:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        assert shutil.which(program, path=path), f"no program {program}"


def check_module(name, words):
    """Let the module's `main` read the words, and no more; where they name what there is, look it up, too."""
    if PLACE.search(name):
        return
    spec = importlib.util.find_spec(name)
    assert spec, f"no module {name}"
    try:
        module = importlib.import_module(f"{name}.__main__" if spec.submodule_search_locations else name)
    except ModuleNotFoundError:
        if name.startswith("benchmarks."):  # a library to compare with, which is no part of the environment
            return
        raise
    elided, words = "..." in words, [word for word in words if word != "..."]
    whole = name in ("pipeline.bench", "pipeline.show") and not any(map(PLACE.search, words))

    def reading(original):
        def parse_args(self, *given):
            for action in self._actions if elided else ():
                action.required = False
            found = original(self, *given)
            if whole:
                return found
            raise Read

        return parse_args

    with pytest.MonkeyPatch.context() as patch:
        for kind in (argparse.ArgumentParser, Parser):
            patch.setattr(kind, "parse_args", reading(kind.parse_args))
        patch.setattr(sys, "argv", ["command", *words])
        patch.setattr(preview, "main", stop)
        for command in (publish, verify):  # a finished suite to read is no part of the project
            patch.setattr(command, "newest_plan", stop)
        patch.setattr(papers, "gather", stop)
        patch.setattr(make.os, "execv", lambda _, line: check_snakemake(line[3:]) or stop())
        taken = inspect.signature(module.main).parameters
        try:
            module.main(*([words] if taken else []))
        except Read:
            return
        except SystemExit as end:
            if end.code:
                raise
        assert whole or "--help" in words, f"{name} reads no command line"


def stop(*_):
    raise Read


def check_snakemake(words):
    """Options, configuration files, profiles, values of the suite and targets, without a job."""
    try:
        told = [re.sub("=N$", "=1", word) for word in words if word != "..."]
        given = snakemake_parser().parse_args(told)
    except SystemExit:
        raise ConfigError(f"snakemake does not take {shlex.join(words)}") from None
    for profile in filter(None, (given.workflow_profile, given.profile)):
        assert (ROOT / profile / "profile.yaml").is_file() or profile == "site", f"no profile {profile}"
    files = [Path(file) for file in given.configfile or ()]
    own = [file for file in (*words, *map(str, files)) if str(file).startswith("own/")]
    if own:  # a user's own suite, of which nothing is known here
        return
    plan = planned(tuple(files), tuple(given.config or ()))
    for target in given.targets or ():
        if PLACE.search(target) or target in RULES or target in targets.known(plan):
            continue
        assert Path(target).suffix == ".png", f"unknown target {target}"
        plan.figures.entry(Path(target).stem)
        assert target == f"{plan.figure_path(Path(target).stem)}.png"


@functools.cache
def snakemake_parser():
    return get_argument_parser()


@functools.cache
def planned(files, values):
    """The plan of a command; a data root that it needs is a folder of nothing."""
    config = catalogue.read_yaml(catalogue.CONFIG / "config.yaml")
    for file in files:
        config |= catalogue.read_yaml(ROOT / file)
    return Plan(config | parse_config(list(values)), files=[ROOT / file for file in files])


def check_pytest(words):
    markers = re.findall(r'^  "(\w+): ', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    for before, word in zip(["", *words], words, strict=False):
        assert before != "-m" or word in markers, f"no marker {word}"
        assert not word.startswith("tests") or (ROOT / word.partition("::")[0]).exists(), f"no file {word}"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Results that lie in the project are no business of these tests."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BENCH_DATA_ROOT", raising=False)


def test_commands_are_found():
    found = {command for _, command in COMMANDS}
    assert len(found) > 40
    assert {"./run snakemake --cores all results/table2.csv", "./run bench show --list", "snakemake --unlock"} <= found
    assert {"--config strict=true", "--configfile config/suites/digits_all.yaml", "--quiet all"} <= found
    assert {"README.md", "CONTRIBUTING.md", "data.md", "cluster.md", "extending.md"} <= {page for page, _ in COMMANDS}


@pytest.mark.parametrize(("page", "command"), COMMANDS)
def test_a_documented_command_is_taken(page, command):
    check(command)


@pytest.mark.parametrize(
    "command",
    [
        "./run snakemake --cores all results/table22.csv",
        "./run snakemake --coresall",
        "./run snakemake --configfile config/suites/smok.yaml",
        "./run snakemake --configfile config/suites/smoke.yaml results/table2.csv",
        "./run snakemake results/figures/gallery-nothing-argmax.png",
        "./run snakemake --workflow-profile profiles/slum",
        "... --config seedz=[0]",
        "--config datasets=[minst]",
        "BENCH_DATAROOT=/path ./run snakemake",
        "./run python -m training.trian --help",
        "./run python -m training.train --dat x",
        "./run python -m pipeline.show mixen cifar10",
        "./run python -m tests.mutants --onyl x",
        "./run python -m methods.simclr",
        "./run bench table tabel2",
        "./run bench show mixem --dif simclr",
        "./run pytest -m slrum",
        "./run pytest tests/test_nothing.py",
        "./run mlflo ui",
    ],
)
def test_a_command_that_would_not_be_taken_is_noticed(command):
    with pytest.raises((AssertionError, ConfigError, SystemExit, AttributeError)):
        check(command)
