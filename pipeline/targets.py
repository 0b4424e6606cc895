"""Targets of a snakemake command that nothing makes: one line with the nearest one, before any job is looked for."""

import argparse
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pipeline import catalogue, recipes
from pipeline.command import of_snakemake
from pipeline.naming import ConfigError, require, suggestion
from pipeline.plan import Plan
from pipeline.refusals import missing_files

NAMED = {"dataset": "data set", "protocol": "protocol", "assigner": "assigner"}  # wildcard -> kind of the catalogue


def check(workflow: Any, plan: Plan, parser: Callable[[], argparse.ArgumentParser]) -> None:
    """Raise ConfigError for a target that no rule of Snakemake's `workflow` makes, or that has an unknown name in it.

    Snakemake tells a Snakefile nothing of the targets, so they are read again with its own `parser`. A dry run also
    says which files of its data sets are missing.
    """
    if not workflow.is_main_process or not of_snakemake(sys.argv):
        return
    arguments = parser().parse_known_args(sys.argv[1:])[0]
    if getattr(arguments, "dryrun", False):
        for line in missing_files(plan):
            print(f"missing: {line}", file=sys.stderr)
    rules = list(workflow.rules)
    for target in arguments.targets or ():
        if workflow.is_rule(target) or Path(target).exists():
            continue
        found = next((match for rule in rules for file in rule.products() if (match := file.match(target))), None)
        if found is None:
            raise ConfigError(_unknown(target, plan))
        _check_names(found.groupdict(), plan)


def known(plan: Plan) -> Iterable[str]:
    """What people ask for: tables of the suite, figures, verdicts and selection."""
    yield from ("all", f"{plan.place}/report/index.html", f"{plan.place}/claims.csv")
    yield f"{plan.place}/selection.csv"
    yield from (f"{plan.table_path(name)}.csv" for name in plan.tables)
    yield from (f"{plan.figure_path(name)}.png" for name in catalogue.names("figure"))


def _check_names(wildcards: dict[str, str], plan: Plan) -> None:
    for wildcard, kind in NAMED.items():
        if wildcard in wildcards:
            require(kind, wildcards[wildcard], catalogue.names(kind))
    if "recipe" in wildcards:
        require("recipe", wildcards["recipe"], recipes.names())
    if "figure" in wildcards:
        plan.figures.entry(wildcards["figure"])


def _unknown(target: str, plan: Plan) -> str:
    """What is said of a target that nothing makes: the table that it would be of, or the nearest one that is made."""
    entries = {name: catalogue.entry("table", name) for name in catalogue.names("table") if name not in plan.tables}
    outside = {f"{plan.results}/{entry.get('path', name)}": name for name, entry in entries.items()}
    if (name := outside.get(os.path.splitext(target)[0])) is not None:
        return (
            f"target {target!r} is of table {name!r}, which suite {plan.config['suite']!r} does not make; add "
            f"--config tables=[{name}]"
        )
    found = suggestion(target, [*known(plan), *(f"{path}.csv" for path in outside)])
    brings = next((name for path, name in outside.items() if repr(f"{path}.csv") in found), None)
    if brings is None or not found.startswith("did you mean"):
        return f"unknown target {target!r}; {found}"
    return f"unknown target {target!r}; {found} It needs --config tables=[{brings}]"
