"""Where the tables, figures and results.csv of a command lie, so that no command writes over those of another.

A results folder has an owner: the suite whose file names it, else the command that was first to write there. A command
with the data sets and protocols of the owner writes to the top, results/table2.csv. With other data sets it writes into
a folder named by them, results/mnist/table2.csv; with other protocols into one below, results/digits/split/table2.csv.
Seeds have no part in it: they change n alone. Runs and prepared data have data set and protocol in their own paths, but
not the values of recipes, so a suite with other `overrides` than the owner's is refused.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pipeline import catalogue, parts, suites
from pipeline.naming import ConfigError
from pipeline.record import StageError, read_json, whole

DECIDE = ("datasets", "protocols")  # keys of a suite that decide which cells a table has
OWNER = ("suite", *DECIDE, "overrides", "files")  # what is kept of an owner
RECORD = ".suite.json"  # in the results folder: its owner
LONGEST = 120  # characters of a folder's name
TAKEN = ("data", "runs", "logs", "figures", "report", "mlartifacts")  # folders of every results folder
TABLE, FIGURE = (".csv", ".md", ".tex"), (".png", ".pdf", ".svg")


def owner(config: Mapping[str, Any], files: Iterable[Path] = ()) -> dict[str, Any]:
    """Whose the results folder of a command is: the keys OWNER, `files` being those that state the folder.

    `files`: those of --configfile. Raises StageError where the folder's record cannot be read.
    """
    if held := parts.owning(_of_folder(config["results"]), config["suite"]):
        file, suite = held
        return _owner(suite, [file] if file else [])
    stated = suites.configuration(None)
    for file in files:
        stated |= catalogue.read_yaml(Path(file)) or {}
    own = _owner(stated, files) if _same(stated["results"], config["results"]) else _owner(config, [])
    path = Path(config["results"], RECORD)
    first = read_json(path) if path.is_file() else own
    if not isinstance(first, dict) or set(OWNER) - set(first):
        raise StageError(f"{path}: keys {', '.join(OWNER)} expected; delete it and run the same command again")
    return own if own["files"] and own["files"] == first["files"] else first  # its file may have been edited


def take(results: str, found: Mapping[str, Any]) -> None:
    """Record the owner of a results folder."""
    path, text = Path(results, RECORD), json.dumps(found, indent=1) + "\n"
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        with whole(path, "w") as file:
            file.write(text)


def check_overrides(config: Mapping[str, Any], found: Mapping[str, Any], files: Iterable[Path]) -> None:
    """Raise ConfigError for a suite that would replace the owner's runs by its own, of the same names."""
    given = [os.path.abspath(file) for file in files]
    if not given or set(found["files"]) & set(given) or found["overrides"] == config["overrides"]:
        return
    name = config["suite"] if config["suite"] != found["suite"] else Path(given[-1]).stem
    raise ConfigError(
        f"{catalogue.short(Path(given[-1]))}: {config['results']} is the results folder of suite {found['suite']}, "
        f"whose `overrides` are others: the runs of both would replace each other; give this suite a folder and a name "
        f"of its own, `results: results/{name}` and `suite: {name}`"
    )


def folder(config: Mapping[str, Any], found: Mapping[str, Any], table: Mapping[str, Any] | None = None) -> str:
    """The folder of a table, of figures and results.csv without one; `found`: the owner of the results folder.

    A table with its own data sets or protocols has the same cells whatever those of the suite are. Raises ConfigError
    for a folder that is that of something else.
    """
    table = table or {}
    top = config["results"] if table else _top(config)
    other = [key for key in DECIDE if key not in table and config[key] != found[key]]
    if not other:
        return top
    first = _joined(table.get("datasets", config["datasets"]))
    _refuse_taken(config, first)
    return "/".join([top, first, *([_joined(config["protocols"])] if "protocols" in other else [])])


def _top(config: Mapping[str, Any]) -> str:
    """The folder of figures and results.csv: that of its name for a part, which would write over the other parts'."""
    of_whole = [suite for _, suite in _of_folder(config["results"]) if suite.get("parts")]
    is_part = any(config["suite"] in suite["parts"] for suite in of_whole)
    return f"{config['results']}/{config['suite']}" if is_part else config["results"]


def _of_folder(results: str) -> list[tuple[Path | None, dict[str, Any]]]:
    """(file, content) of every suite with this results folder."""
    return [(file, suite) for file, suite in _suites() if _same(suite["results"], results)]


def check_apart(paths: Mapping[str, str], place: str) -> None:
    """Raise ConfigError for two tables in one file (`paths`: table -> path without ending), or one in results.csv."""
    held = {f"{place}/results": "results.csv, which has all numbers", f"{place}/claims": "claims.csv, of verdicts"}
    held |= {f"{place}/selection": "selection.csv, of runs picked without labels"}
    for name, path in paths.items():
        if path in held:
            raise ConfigError(
                f"{catalogue.short(catalogue.places('tables')[name])}: its file is {path}.csv, and so is that of "
                f"{held[path]}; give it another `path` or name"
            )
        held[path] = f"table {name}"


def check_targets(words: Iterable[str], outputs: Iterable[tuple[str, str]], config: Mapping[str, Any]) -> None:
    """Raise ConfigError for a target among the words of a command that is the table or figure of other data sets or
    protocols than the command's.

    `outputs`: (folder, path below it without ending) of each table and figure. Snakemake would call such a target
    unknown, or, where another command has made it, say that there is nothing to be done.
    """
    outputs = list(outputs)
    made = {os.path.abspath(f"{place}/{name}") for place, name in outputs}
    top = os.path.abspath(config["results"])
    for target in words:
        path, ending = os.path.splitext(os.path.abspath(target))
        if ending not in (*TABLE, *FIGURE) or path in made or not path.startswith(f"{top}/"):
            continue
        for place, name in outputs:
            if path.endswith(f"/{name}"):
                words = "; ".join(f"{key} {', '.join(config[key])}" for key in DECIDE)
                raise ConfigError(
                    f"{target} is not of this command ({words}): ask for {place}/{name}{ending}"
                    + _asked_with(path.removesuffix(f"/{name}"), config["results"])
                )


def _asked_with(place: str, results: str) -> str:
    """What to add to a command for tables in the folder `place`; empty where that is not known."""
    for file, suite in _suites():
        if file is not None and _same(suite["results"], place):
            return f", or add --configfile {catalogue.short(file)}"
    parts = [part.split("+") for part in Path(os.path.relpath(place, results)).parts]
    known = [set(catalogue.names(kind)) for kind in ("data set", "protocol")]
    if not 0 < len(parts) <= 2 or not all(set(part) <= names for part, names in zip(parts, known, strict=False)):
        return ""
    words = (f"{key}=[{','.join(part)}]" for key, part in zip(DECIDE, parts, strict=False))
    return f", or add --config {' '.join(words)}"


def _refuse_taken(config: Mapping[str, Any], first: str) -> None:
    place = f"{config['results']}/{first}"
    for file, suite in _suites():
        if file is not None and _same(suite["results"], place):
            raise ConfigError(
                f"tables of {first} would go into {place}, the results folder of suite {suite['suite']}: run that "
                f"suite, --configfile {catalogue.short(file)} --config tables=[{','.join(config['tables'])}], or give "
                "another folder, --config results=..."
            )
    tables = (catalogue.read_yaml(path) for path in catalogue.places("tables").values())
    of_tables = {table.get("path", "").partition("/")[0] for table in tables if "/" in table.get("path", "")}
    if first in {*TAKEN, *of_tables}:
        raise ConfigError(
            f"tables of {first} would go into {place}, where other files of the results folder lie; give the data set "
            "another name"
        )


def _owner(suite: Mapping[str, Any], files: Iterable[Path]) -> dict[str, Any]:
    return {**{key: suite[key] for key in OWNER[:-1]}, "files": [os.path.abspath(file) for file in files]}


def _suites() -> Iterator[tuple[Path | None, dict[str, Any]]]:
    """(file, content) of every suite, over the default suite, which comes first and without a file of its own."""
    yield None, suites.configuration(None)
    for path in catalogue.places("suites").values():
        with contextlib.suppress(ConfigError):  # one that is broken is told when it is run
            yield path, suites.configuration(path)


def _same(one: str, other: str) -> bool:
    return os.path.abspath(str(one)) == os.path.abspath(str(other))


def _joined(names: list[str]) -> str:
    """One name of several."""
    text = "+".join(names)
    if len(text) <= LONGEST:
        return text
    return f"{names[0]}+{len(names) - 1}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
