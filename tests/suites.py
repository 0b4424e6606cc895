"""The plans of all suites, made once for every test that goes through them."""

import functools

from pipeline import catalogue
from pipeline.plan import Plan


@functools.cache
def plans() -> dict[str, Plan]:
    """Suite -> plan; "default" is the configuration without a suite."""
    default = catalogue.read_yaml(catalogue.CONFIG / "config.yaml")
    files = sorted((catalogue.CONFIG / "suites").glob("*.yaml"))
    suites = {"default": {}, **{path.stem: catalogue.read_yaml(path) for path in files}}
    return {name: Plan(default | suite) for name, suite in suites.items()}
