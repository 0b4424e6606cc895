"""Tables and figures by name: which snakemake command makes them, and that command run.

What snakemake would refuse later, or in many lines, is refused here in one.
"""

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from pipeline import asked, catalogue, gpus, preview, suites
from pipeline.naming import ConfigError, require
from pipeline.options import Parser
from pipeline.plan import Plan
from pipeline.provenance import ROOT
from pipeline.refusals import refuse_early

PROFILES = ROOT / "profiles"
ELSEWHERE = ("-e", "--executor", "--profile", "--workflow-profile")  # options of snakemake that may send jobs away


def main(words: Sequence[str], kind: str = "") -> None:
    """Run snakemake for `words`, the command line after the word `kind` ("": tables and figures). Does not return, but
    for `--dry`: snakemake takes the place of this process, and so gets its signals and gives its exit code.
    """
    cut = words.index("--") if "--" in words else len(words)
    arguments, passed = parser(kind).parse_args(words[:cut]), list(words[cut + 1 :])
    file = suites.suite_file(_the_one(arguments.suite or [suites.DEFAULT]))
    names, given = values(arguments)
    config = suites.configuration(file, {key: _parsed(key, value) for key, value in given.items()})
    wanted = asked.wanted(kind, names, config)
    tables = [name for what, name in wanted if what == "table" and name not in config["tables"]]
    if tables:
        config["tables"] = [*config["tables"], *tables]
        given["tables"] = f"[{','.join(config['tables'])}]"
    plan = Plan(config, files=[file] if file else [])
    wanted = wanted or asked.of_suite(kind, plan)
    asked.refuse_without_effect(wanted, plan, given)
    targets = [asked.target(what, name, plan) for what, name in wanted]
    runs = asked.runs(wanted, plan)
    refuse_early(plan, runs, here=_here(arguments.profile, passed))
    command = [*targets, *options(arguments, file, given), *passed]
    print("$", shlex.join([*filter(None, [os.environ.get("BENCH_RUN")]), "snakemake", *command]), flush=True)
    if arguments.dry:
        sys.exit(preview.main(command, plan, runs))
    os.execv(sys.executable, [sys.executable, "-m", "snakemake", *command])


def parser(kind: str) -> Parser:
    """The options of `table` and of `figure`."""
    what = f"{kind}s" if kind else "tables and figures"
    made = Parser(
        prog=f"bench {kind}".rstrip(),
        description=f"Make {what} of a suite by name, all of them without one; words after -- go to snakemake.",
    )
    made.add_argument("names", nargs="*", metavar="NAME", help=f"{what}; KEY=VALUE changes a value of the suite")
    made.add_argument("--suite", action="append", metavar="S", help="a suite of config/ or own/; default: default")
    made.add_argument("--data", metavar="D", help="data sets, with commas between them; default: the suite's")
    made.add_argument("--seeds", metavar="0-4", help="a range 0-4 or a list 0,2,5; default: the suite's")
    made.add_argument("--protocol", metavar="P", help="protocols, with commas between them; default: the suite's")
    made.add_argument("--config", nargs="+", default=[], metavar="KEY=VALUE", help="other values of the suite")
    made.add_argument("--cores", metavar="N", help="cores to use; default: all, on a cluster as its profile says")
    made.add_argument("--profile", metavar="P", help="a profile of profiles/: gpu, slurm, ...; default: one machine")
    made.add_argument("--dry", action="store_true", help="say what would run and why, and run nothing")
    return made


def values(arguments: Any) -> tuple[list[str], dict[str, str]]:
    """(names, values laid over the suite) of a command line, each value as the text that snakemake is given."""
    words = [*arguments.names, *arguments.config]
    given = {}
    for option, key, kind in (("data", "datasets", "data set"), ("protocol", "protocols", "protocol")):
        if (text := getattr(arguments, option)) is not None:
            given[key] = f"[{','.join(suites.listed(kind, text))}]"
    if arguments.seeds is not None:
        given["seeds"] = f"[{','.join(map(str, suites.seeds(arguments.seeds)))}]"
    for word in (word for word in words if "=" in word):
        key, _, value = word.partition("=")
        require("key of the suite", key, catalogue.schema("suite")["properties"])
        if key in given:
            raise ConfigError(f"{key} is given twice, as {given[key]} and as {value}; leave one of them out")
        given[key] = value
    return [word for word in words if "=" not in word], given


def options(arguments: Any, file: Path | None, given: dict[str, str]) -> list[str]:
    """The options of snakemake that say what is run and where; targets go before them, as `--configfile` and `--config`
    take every word that follows.
    """
    here = Path.cwd() == ROOT
    words = [] if here else ["--snakefile", str(ROOT / "Snakefile")]
    cores, folder = arguments.cores, profile(arguments.profile) if arguments.profile else None
    if cores is not None and cores != "all" and not (cores.isdigit() and int(cores)):
        raise ConfigError(f"--cores {cores}: a whole number from 1 is expected, or all")
    if cores or not _away(folder):
        words += ["--cores", cores or "all"]
    if folder:
        words += ["--workflow-profile", os.path.relpath(folder) if here else str(folder.absolute())]
        if not _away(folder) and (found := gpus.usable()):
            words += ["--resources", f"gpu={len(found)}"]
    if file:
        words += ["--configfile", catalogue.short(file) if here else str(file.absolute())]
    if given:
        words += ["--config", *(f"{key}={value}" for key, value in given.items())]
    return words


def profile(name: str) -> Path:
    """The folder of a profile, given by its name or as a path. Raises ConfigError for one that is not there."""
    folder = PROFILES / name
    if not (folder / "profile.yaml").is_file():
        folder = Path(name)
    if not (folder / "profile.yaml").is_file():
        require("profile", name, [path.parent.name for path in PROFILES.glob("*/profile.yaml")])
    return folder


def _away(folder: Path | None) -> bool:
    """Whether a profile sends jobs to a cluster."""
    return folder is not None and "executor" in catalogue.read_yaml(folder / "profile.yaml")


def _here(name: str | None, passed: Sequence[str]) -> bool:
    """Whether jobs surely run on this machine."""
    told = {word.partition("=")[0] for word in passed}
    return not _away(profile(name) if name else None) and not told & set(ELSEWHERE)


def _the_one(given: Sequence[str]) -> str:
    if len(given) > 1:
        raise ConfigError(f"two suites, {given[0]} and {given[1]}: a command runs one; run one after the other")
    return given[0]


def _parsed(key: str, value: str) -> Any:
    """A value of the suite as snakemake's --config reads it."""
    try:
        return yaml.load(value, Loader=yaml.BaseLoader)
    except yaml.YAMLError:
        raise ConfigError(
            f"{key}={value}: cannot be read; write {key}=[a,b] for a list, {key}=a for one value"
        ) from None
