"""Which runs a suite asks for, with which recipes, and which runs those start from."""

import functools
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pipeline import catalogue, recipes
from pipeline.data_set import without_labels
from pipeline.provenance import canonical_json
from pipeline.record import StageError


@dataclass(frozen=True)
class Run:
    """One trained model."""

    dataset: str
    protocol: str
    recipe: str
    seed: int

    @property
    def path(self) -> str:
        """Folder under the results folder."""
        return f"runs/{self.dataset}/{self.protocol}/{self.recipe}/seed{self.seed}"

    @classmethod
    def at(cls, path: str) -> "Run":
        """The run in whose folder a file lies. Raises StageError for a path that is in none."""
        if not (found := re.search(r"(?:^|/)runs/([^/]+)/([^/]+)/([^/]+)/seed(\d+)/[^/]", path)):
            raise StageError(f"{path}: not in the folder of a run, runs/DATA SET/PROTOCOL/RECIPE/seedN")
        return cls(found[1], found[2], found[3], int(found[4]))


@dataclass(frozen=True)
class Neighbours:
    """A file of mined neighbours: `count` of them for every row of `splits`, in the array `h` or `z` of a run."""

    array: str
    count: int
    splits: tuple[str, ...]

    @property
    def path(self) -> str:
        """Path under the run's folder, without ending."""
        return f"neighbours/{self.array}-{self.count}-{'+'.join(self.splits)}"


Table = Mapping[str, Any]  # the configuration of one table, config/tables
Row = Mapping[str, Any]  # one entry of its `rows`


class Runs:
    """The runs of a suite. `config` is checked by pipeline.plan; `tables`: name -> configuration."""

    def __init__(self, config: Mapping[str, Any], tables: Mapping[str, Table]):
        self.config, self.tables = config, tables
        self._known: dict[tuple[str, str], dict[str, Any]] = {}  # bases that are resolved already

    def all(self) -> list[Run]:
        """Every run that a table asks for, and the base runs they start from, without repetition."""
        runs: dict[Run, None] = {}
        for table in self.tables.values():
            for row in table["rows"]:
                runs |= dict.fromkeys(self.with_bases(self.of_row(table, row)))
        return list(runs)

    def with_bases(self, runs: Iterable[Run]) -> list[Run]:
        """The runs, each after the runs that it starts from."""
        ordered: dict[Run, None] = {}
        for run in runs:
            base = self.base(run)
            ordered |= dict.fromkeys([*(self.with_bases([base]) if base else []), run])
        return list(ordered)

    def of_row(self, table: Table, row: Row) -> list[Run]:
        """The runs behind one row of a table, none for a row of reported values only."""
        if "recipe" not in row:
            return []
        return [
            Run(dataset, protocol, row["recipe"], seed)
            for dataset in self.datasets(table)
            if dataset in row.get("datasets", [dataset])
            for protocol in self.protocols(table)
            if protocol == row.get("protocol", protocol)
            for seed in self.seeds(table)
        ]

    def shown(self) -> dict[Run, dict[str, list[str]]]:
        """What tables show of each run: "clustering/ASSIGNER" or the probe's name -> metrics, in the order of rows."""
        found: dict[Run, dict[str, list[str]]] = {}
        for table in self.tables.values():
            for row in table["rows"]:
                key = f"clustering/{row['assigner']}" if "assigner" in row else row.get("probe")
                for run in self.of_row(table, row):
                    metrics = found.setdefault(run, {}).setdefault(key, [])
                    metrics += [metric for metric in table["metrics"] if metric not in metrics]
        return found

    def datasets(self, table: Table) -> list[str]:
        """The data sets of a table: its own, or the suite's."""
        return table.get("datasets", self.config["datasets"])

    def protocols(self, table: Table) -> list[str]:
        """The protocols of a table: its own, or the suite's."""
        return table.get("protocols", self.config["protocols"])

    def seeds(self, table: Table) -> list[int]:
        """The seeds of a table: the suite's, or the first of them where the suite gives it a number."""
        return self.config["seeds"][: table.get("seeds")]

    # ---- recipes

    def recipe(self, run: Run) -> dict[str, Any]:
        """The resolved recipe of a run, with the suite's overrides."""
        return json.loads(self.recipe_text(run))

    def recipe_text(self, run: Run) -> str:
        """The resolved recipe of a run as canonical JSON."""
        return self._recipe(run.recipe, run.dataset)

    @functools.cache  # noqa: B019 - a plan lives as long as the process
    def _recipe(self, name: str, dataset: str) -> str:
        found = recipes.resolve(name, dataset, self.config["overrides"], known=self._known)
        self._known[name, dataset] = found
        return canonical_json(found)

    @functools.cache  # noqa: B019
    def base(self, run: Run) -> Run | None:
        """The run whose weights this one starts from."""
        base = self.recipe(run).get("base")
        if base is None:
            return None
        dataset, protocol = base.get("dataset", run.dataset), base["protocol"]
        # Data without labels have one split, so the protocol of the run is the only one there is.
        if protocol == "same" or without_labels(catalogue.entry("data set", dataset)):
            protocol = run.protocol
        return Run(dataset, protocol, base["recipe"], run.seed)

    @functools.cache  # noqa: B019
    def neighbours(self, run: Run) -> Mapping[str, Neighbours]:
        """What a run reads of its base's neighbours: "neighbours", from which it draws partners of the images it trains
        on, and "watched", those of the scored images, by whose loss it chooses what it keeps.
        """
        recipe, protocol = self.recipe(run), catalogue.entry("protocol", run.protocol)
        wanted = recipe.get("neighbours", {})
        rows = {
            "neighbours": ("count", recipes.train_splits(recipe, protocol)),
            "watched": ("watched", protocol["score"]),
        }
        return {
            use: Neighbours(wanted["array"], wanted[key], tuple(splits))
            for use, (key, splits) in rows.items()
            if key in wanted
        }

    # ---- what tables ask of a run

    def assigners(self, run: Run) -> tuple[str, ...]:
        """Assigners that any table of the suite asks of this run."""
        return tuple(sorted(self._asked.get(run, {}).get("assigner", ())))

    def probes(self, run: Run) -> tuple[str, ...]:
        """Probes that any table of the suite asks of this run."""
        return tuple(sorted(self._asked.get(run, {}).get("probe", ())))

    @functools.cached_property
    def _asked(self) -> dict[Run, dict[str, set[str]]]:
        """Run -> "assigner" and "probe" -> those that rows ask of it: another data set's tables may ask for others."""
        found: dict[Run, dict[str, set[str]]] = {}
        for table in self.tables.values():
            for row in table["rows"]:
                for run in self.of_row(table, row):
                    for key in {"assigner", "probe"} & set(row):
                        found.setdefault(run, {}).setdefault(key, set()).add(row[key])
        return found
