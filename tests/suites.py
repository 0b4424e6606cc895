"""The plans of all suites, each made once for every test that goes through it."""

import functools

from pipeline import catalogue
from pipeline.plan import Plan

DEFAULT = "default"  # the configuration without a suite
SUITES = (DEFAULT, *sorted(path.stem for path in (catalogue.CONFIG / "suites").glob("*.yaml")))


@functools.cache
def plan_of(suite: str) -> Plan:
    default = catalogue.read_yaml(catalogue.CONFIG / "config.yaml")
    file = catalogue.CONFIG / "suites" / f"{suite}.yaml"
    return Plan(default | ({} if suite == DEFAULT else catalogue.read_yaml(file)))


def plans() -> dict[str, Plan]:
    """Suite -> plan. For use inside a test: where tests are collected, every test process would make all of them."""
    return {name: plan_of(name) for name in SUITES}
