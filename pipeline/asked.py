"""What is asked for by name: tables and figures, the targets that they are, and the runs behind them."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pipeline import catalogue, suites
from pipeline.naming import ConfigError, require
from pipeline.plan import Plan
from pipeline.runs import Run

KINDS = ("table", "figure")
ENDINGS = (".csv", ".md", ".tex", ".png", ".pdf")  # of targets, which may be given as paths
Wanted = list[tuple[str, str]]  # (kind, name)


def kinds_of(word: str) -> list[str]:
    """The kinds that have something of this name, or of the name of this file."""
    return [kind for kind in KINDS if name_of(word) in catalogue.names(kind)]


def name_of(word: str) -> str:
    """The name in the path of a table or figure; any other word as it is."""
    return Path(word).stem if word.endswith(ENDINGS) else word


def wanted(kind: str, words: Iterable[str], config: Mapping[str, Any]) -> Wanted:
    """Each name with what it is, a table where it is both; `kind` says which. Raises ConfigError for a name of nothing
    or of the other kind, and for a table that is another suite's. Whether a figure can be drawn the plan knows.
    """
    found: dict[tuple[str, str], None] = {}
    for word in words:
        name, kinds = name_of(word), kinds_of(word)
        if not kinds and name in suites.names():
            raise ConfigError(f"{name!r} is a suite: ./run bench {kind or 'table'} --suite {name}")
        if kinds and kind not in ("", *kinds):
            raise ConfigError(f"{name!r} is a {kinds[0]}: ./run bench {kinds[0]} {name}")
        if not kinds and kind != "figure":
            known = [name for each in KINDS if kind in ("", each) for name in catalogue.names(each)]
            require(kind or "table or figure", name, known)
        what = kind or kinds[0]
        if what == "table":
            _refuse_of_another_suite(name, config)
        found[what, name] = None
    return list(found)


def of_suite(kind: str, plan: Plan) -> Wanted:
    """Everything of a kind that a suite lists, nothing for both kinds: snakemake knows what all of it is."""
    if kind == "figure" and not plan.config["figures"]:
        raise ConfigError(
            f"suite {plan.config['suite']!r} lists no figures; name one: {', '.join(catalogue.names('figure'))}"
        )
    return [(kind, name) for name in plan.config[f"{kind}s"]] if kind else []


def target(kind: str, name: str, plan: Plan) -> str:
    """The file that snakemake is asked for. Raises ConfigError for a figure that is none."""
    if kind == "table":
        return f"{plan.table_path(name)}.csv"
    plan.figures.entry(name)
    return f"{plan.figure_path(name)}.png"


def runs(wanted: Wanted, plan: Plan) -> list[Run]:
    """The runs behind what is asked for, each after those that it starts from; without names, all of the suite."""
    files = [file for kind, name in wanted for file in _files(kind, name, plan)]
    found: dict[Run, None] = {}
    for file in files:
        below = Path(file).relative_to(plan.results)
        if below.parts[0] == "runs":
            found[Run.at(below.as_posix())] = None
    return plan.runs.with_bases(found) if wanted else plan.runs.all()


def _files(kind: str, name: str, plan: Plan) -> list[str]:
    return plan.table_metrics(name) if kind == "table" else plan.figure_files(name)


def refuse_without_effect(wanted: Wanted, plan: Plan, given: Mapping[str, str]) -> None:
    """Raise ConfigError for data sets or protocols that no table which is asked for looks at."""
    for key in ("datasets", "protocols"):
        own = [name for kind, name in wanted if kind == "table" and key in plan.tables[name]]
        if key in given and own and len(own) == len(wanted):
            listed = ", ".join(plan.tables[own[0]][key])
            raise ConfigError(
                f"table {own[0]!r} has {key} of its own ({listed}), whatever is asked for; leave them out"
            )


def _refuse_of_another_suite(name: str, config: Mapping[str, Any]) -> None:
    """A table of other suites alone is made with their data sets, recipes' scale and seeds, not with this one's."""
    if name in config["tables"]:
        return
    others = []
    for suite in suites.names():
        file = suites.suite_file(suite)
        if name in ((catalogue.read_yaml(file) if file else suites.configuration(None)) or {}).get("tables", []):
            others.append(suite)
    if others:
        more = f" (or {', '.join(others[1:])})" if others[1:] else ""
        raise ConfigError(f"suite {config['suite']!r} does not have table {name!r}; add --suite {others[0]}{more}")
