"""The command that was given, without its targets: what a table prints, so that a user can mend stale rows with it."""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

SEVERAL = {"--configfile": "--configfile", "--configfiles": "--configfile", "--config": "--config", "-C": "--config"}
ONE = {
    "--cores": "--cores",
    "-c": "--cores",
    "--jobs": "--jobs",
    "-j": "--jobs",
    "--profile": "--profile",
    "--workflow-profile": "--workflow-profile",
    "--executor": "--executor",
    "-e": "--executor",
    "--snakefile": "--snakefile",
    "-s": "--snakefile",
    "--directory": "--directory",
    "-d": "--directory",
}
COUNTED = ("--cores", "--jobs", "--profile", "--workflow-profile")  # without any of them Snakemake starts nothing


def command_of(words: Sequence[str]) -> str:
    """`snakemake` with the options of `words` (sys.argv) that say what is run and where; others count once only.

    Options that take several values come first, so that targets may follow. BENCH_RUN, set by ./run, goes before.
    """
    several: dict[str, list[str]] = {}
    one: dict[str, str] = {}
    if of_snakemake(words):
        option = ""
        for word in words[1:]:
            name, _, value = word.partition("=")
            if word.startswith("-") and not (name in SEVERAL or name in ONE or word[:2] in ONE):
                option = ""
            elif name in SEVERAL and name.startswith("-"):
                option = name
                several.setdefault(SEVERAL[name], []).extend([value] if value else [])
            elif name in ONE:
                option = "" if value else name
                one |= {ONE[name]: value} if value else {}
            elif word.startswith("-"):  # -c2
                one[ONE[word[:2]]], option = word[2:], ""
            elif option in SEVERAL:
                several[SEVERAL[option]].append(word)
            elif option:
                one[ONE[option]], option = word, ""
    if not set(one) & set(COUNTED):
        one["--cores"] = "all"
    pairs = [word for name, values in several.items() for word in (name, *values)]
    pairs += [word for name, value in one.items() for word in (name, value)]
    before = os.environ.get("BENCH_RUN")
    return shlex.join([*([before] if before else []), "snakemake", *pairs])


def of_snakemake(words: Sequence[str]) -> bool:
    """Whether `words` (sys.argv) are a command line of snakemake: of its script, or of `python -m snakemake`."""
    return "snakemake" in Path(words[0]).name or "snakemake" in Path(words[0]).parts
