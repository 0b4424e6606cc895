"""Targets of a snakemake command that nothing makes: one line with the nearest one, before any job is looked for."""

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pipeline import catalogue, recipes
from pipeline.command import of_snakemake
from pipeline.naming import ConfigError, require, suggestion
from pipeline.plan import Plan

NAMED = {"dataset": "data set", "protocol": "protocol", "assigner": "assigner"}  # wildcard -> kind of the catalogue


def check(workflow: Any, plan: Plan, parser: Callable[[], argparse.ArgumentParser]) -> None:
    """Raise ConfigError for a target that no rule of Snakemake's `workflow` makes, or that has an unknown name in it.

    Snakemake tells a Snakefile nothing of the targets, so they are read again with its own `parser`.
    """
    if not workflow.is_main_process or not of_snakemake(sys.argv):
        return
    rules = list(workflow.rules)
    for target in parser().parse_known_args(sys.argv[1:])[0].targets or ():
        if workflow.is_rule(target) or Path(target).exists():
            continue
        found = next((match for rule in rules for file in rule.products() if (match := file.match(target))), None)
        if found is None:
            raise ConfigError(f"unknown target {target!r}; {suggestion(target, known(plan))}")
        _check_names(found.groupdict(), plan)


def known(plan: Plan) -> Iterable[str]:
    """What people ask for: tables of the suite, and figures."""
    yield from ("all", f"{plan.place}/report/index.html")
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
