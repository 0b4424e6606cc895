"""What each stage of a run gets, and what its record must say: code, settings, inputs, seed, and their fingerprint.

One method per stage. The stage itself makes the same record of what it really ran (pipeline/record.py); a table
compares the two. A change in any of the four makes the stage, and all that it feeds, stale.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline import catalogue, recipes, wings
from pipeline.data_files import Sources
from pipeline.provenance import code_version
from pipeline.record import stage_fingerprint
from pipeline.runs import Neighbours, Run, Runs


@dataclass(frozen=True)
class Stage:
    """Code hash, settings and fingerprint of one stage of one run."""

    code: str
    settings: dict[str, Any]
    fingerprint: str


class Stages:
    """The stages of a suite's runs. `sources` knows the files outside the project; without, none counts."""

    def __init__(self, runs: Runs, sources: Sources | None = None):
        self.runs, self.sources = runs, sources
        self.code_version = functools.cache(code_version)  # one plan sees one state of the code

    def _stage(
        self, kind: str, roots: tuple[str, ...], settings: dict[str, Any], inputs: Mapping[str, str], seed: int | None
    ) -> Stage:
        """`roots`: modules whose code, with all they import, counts, those that are loaded by name among them."""
        code = self.code_version(*roots)
        return Stage(code, settings, stage_fingerprint(kind, code, settings, inputs, seed))

    @functools.cache  # noqa: B019 - a plan lives as long as the process
    def prepare(self, dataset: str) -> Stage:
        """Official files -> prepared data set, whichever runs use it."""
        settings = {"name": dataset, **catalogue.entry("data set", dataset)}
        files = self.sources.of_dataset(dataset) if self.sources else None
        return self._stage("prepare", ("preparation.prepare",), settings, {"sources": files} if files else {}, None)

    @functools.cache  # noqa: B019
    def train(self, run: Run) -> Stage:
        """Data, recipe, base and neighbours -> model."""
        recipe = self.runs.recipe(run)
        inputs = {"data": self.prepare(run.dataset).fingerprint}
        if (base := self.runs.base(run)) is not None:
            inputs["base"] = self.train(base).fingerprint
            for use, neighbours in self.runs.neighbours(run).items():
                inputs[use] = self.mine(base, neighbours).fingerprint
        if self.sources:
            inputs |= self.sources.of_recipe(recipe)
        protocol = catalogue.entry("protocol", run.protocol)
        settings = {"recipe": recipe, "protocol": recipes.splits_read(recipe, run.protocol, protocol)}
        return self._stage("train", ("training.train", f"methods.{recipe['method']}"), settings, inputs, run.seed)

    @functools.cache  # noqa: B019
    def embed(self, run: Run) -> Stage:
        """Model -> features."""
        roots = ("training.embed", f"methods.{self.runs.recipe(run)['method']}")
        return self._stage("embed", roots, {}, {"model": self.train(run).fingerprint}, None)

    @functools.cache  # noqa: B019
    def mine(self, run: Run, neighbours: Neighbours) -> Stage:
        """Features -> neighbours."""
        settings = {"array": neighbours.array, "count": neighbours.count, "splits": list(neighbours.splits)}
        return self._stage("mine", ("training.mine",), settings, {"features": self.embed(run).fingerprint}, None)

    @functools.cache  # noqa: B019
    def assign(self, run: Run, assigner: str) -> Stage:
        """Features -> clusters."""
        entry, protocol = catalogue.entry("assigner", assigner), catalogue.entry("protocol", run.protocol)
        splits = {"name": run.protocol} | {key: protocol[key] for key in ("fit", "score", "seen") if key in protocol}
        settings = {"assigner": {"name": assigner, **entry}, "protocol": splits}
        roots = ("evaluation.assign", f"evaluation.assigners.{entry['algorithm']}")
        return self._stage("assign", roots, settings, {"features": self.embed(run).fingerprint}, run.seed)

    @functools.cache  # noqa: B019
    def score(self, run: Run, assigner: str) -> Stage:
        """Clusters of one assigner -> clustering metrics."""
        protocol = catalogue.entry("protocol", run.protocol)
        splits = {"name": run.protocol} | {key: protocol[key] for key in ("score", "seen") if key in protocol}
        roots = ("evaluation.evaluate", *wings.wing_modules("metric"))
        inputs = {"clusters": self.assign(run, assigner).fingerprint}
        return self._stage("score", roots, {"protocol": splits}, inputs, None)

    @functools.cache  # noqa: B019
    def probe(self, run: Run, probe: str) -> Stage:
        """Features -> what one probe finds in them."""
        entry, protocol = catalogue.entry("probe", probe), catalogue.entry("protocol", run.protocol)
        splits = {"name": run.protocol, "score": protocol["score"], "probe": protocol["probe"]}
        roots = ("evaluation.evaluate", f"evaluation.probes.{entry['algorithm']}")
        settings = {"probe": {"name": probe, **entry}, "protocol": splits}
        return self._stage("probe", roots, settings, {"features": self.embed(run).fingerprint}, run.seed)

    def expected(self, run: Run, row: Mapping[str, Any]) -> dict[str, Stage]:
        """The stages behind a table's row, by the names of their records, in order."""
        stages = {"prepare": self.prepare(run.dataset), "train": self.train(run), "embed": self.embed(run)}
        if "assigner" in row:
            name = row["assigner"]
            return stages | {f"assign/{name}": self.assign(run, name), f"score/{name}": self.score(run, name)}
        return stages | {f"probe/{row['probe']}": self.probe(run, row["probe"])}
