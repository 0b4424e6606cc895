"""The plan: which runs a suite's tables need, with which settings, and what their records must say.

Pure configuration work without torch or Snakemake. The Snakefile asks it for the parameters of every job; the tables'
plan files tell the table stage what to expect, and so let it name results that a lost or bypassed workflow state left
stale (pipeline/record.py).
"""

import csv
import functools
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from pipeline import catalogue, recipes
from pipeline.catalogue import ConfigError
from pipeline.checks import check_run, check_table
from pipeline.command import command_of
from pipeline.provenance import ROOT, canonical_json, code_version
from pipeline.record import stage_fingerprint, whole
from pipeline.wings import wing_modules


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


class Plan:
    """Everything that follows from a suite's configuration. Raises ConfigError before any job exists."""

    def __init__(self, config: dict[str, Any]):
        config = {key: _typed(key, value) for key, value in config.items()}
        catalogue.check(config, "suite", "configuration")
        self.config = config
        self.results = config["results"]
        for kind, key in (("data set", "datasets"), ("protocol", "protocols"), ("table", "tables")):
            for name in config[key]:
                catalogue.require(kind, name, catalogue.names(kind))
        for key in ("datasets", "protocols", "seeds", "tables"):
            repeated = [value for value in config[key] if config[key].count(value) > 1]
            if repeated:
                raise ConfigError(f"configuration: {key}: {repeated[0]!r} stands twice; every entry counts once")
        for name in config["overrides"]:
            if name != "*":
                catalogue.require("recipe in overrides", name, recipes.names())
        self.tables = {name: catalogue.entry("table", name) for name in config["tables"]}
        for name, table in self.tables.items():
            check_table(name, table, self._of(table, "datasets"), self._of(table, "protocols"))
        shown = [run for name in config["figures"] for run in self._figure_runs(name).values()]
        for run in dict.fromkeys([*self.runs(), *(each for last in shown for each in self._with_bases(last))]):
            check_run(run.dataset, run.protocol, self.recipe(run), self.assigners(run), self.probes(run))

    # ---- what a suite is made of

    def runs(self) -> list[Run]:
        """Every run that a table asks for, and the base runs they start from, without repetition."""
        found: dict[Run, None] = {}
        for table in self.tables.values():
            for row in table["rows"]:
                for run in self.row_runs(table, row):
                    found |= dict.fromkeys(self._with_bases(run))
        return list(found)

    def _with_bases(self, run: Run) -> list[Run]:
        """The run, after the runs that it starts from."""
        base = self.base(run)
        return [*(self._with_bases(base) if base else []), run]

    def figure(self, name: str) -> dict[str, Any]:
        """The configuration of a figure, its recipes known."""
        found = catalogue.entry("figure", name)
        for recipe in self._shown(found).values():
            catalogue.require(f"recipe in config/figures/{name}.yaml", recipe, recipes.names())
        return found

    @staticmethod
    def _shown(figure: dict[str, Any]) -> dict[str, str]:
        """label -> recipe of a figure's configuration."""
        return {label: r if isinstance(r, str) else r["recipe"] for label, r in figure["recipes"].items()}

    def _figure_runs(self, name: str) -> dict[str, Run]:
        first = [self.config[key][0] for key in ("datasets", "protocols")]
        shown = self._shown(self.figure(name))
        return {label: Run(*first, recipe, self.config["seeds"][0]) for label, recipe in shown.items()}

    def figure_runs(self, name: str) -> dict[str, str]:
        """label -> folder of the runs that a figure shows: the suite's first data set, protocol and seed."""
        return {label: f"{self.results}/{run.path}" for label, run in self._figure_runs(name).items()}

    def figure_files(self, name: str) -> list[str]:
        """The files of those runs that figures read."""
        files = ("features.npz", "history.csv", "snapshots.npz")
        return [f"{folder}/{file}" for folder in self.figure_runs(name).values() for file in files]

    def row_runs(self, table: dict[str, Any], row: dict[str, Any]) -> list[Run]:
        """The runs behind one row of a table, none for a row of reported values only."""
        if "recipe" not in row:
            return []
        return [
            Run(dataset, protocol, row["recipe"], seed)
            for dataset in self._of(table, "datasets")
            if dataset in row.get("datasets", [dataset])
            for protocol in self._of(table, "protocols")
            if protocol == row.get("protocol", protocol)
            for seed in self.config["seeds"]
        ]

    def _of(self, table: dict[str, Any], key: str) -> list[str]:
        """The data sets or protocols of a table: its own, or the suite's."""
        return table.get(key, self.config[key])

    @functools.cache  # noqa: B019 - a plan lives as long as the process
    def _recipe(self, name: str, dataset: str) -> str:
        overrides = self.config["overrides"]
        layers = recipes.merge(overrides.get("*", {}), overrides.get(name.partition("-")[0], {}))
        if "-" in name:
            layers = recipes.merge(layers, overrides.get(name, {}))
        return canonical_json(recipes.resolve(name, dataset, layers))

    def recipe(self, run: Run) -> dict[str, Any]:
        """The resolved recipe of a run, with the suite's overrides."""
        return json.loads(self._recipe(run.recipe, run.dataset))

    def base(self, run: Run) -> Run | None:
        """The run whose backbone this one starts from."""
        base = self.recipe(run).get("base")
        if base is None:
            return None
        protocol = run.protocol if base["protocol"] == "same" else base["protocol"]
        return Run(base.get("dataset", run.dataset), protocol, base["recipe"], run.seed)

    @functools.cache  # noqa: B019
    def _asked(self, recipe: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        rows = [row for table in self.tables.values() for row in table["rows"] if row.get("recipe") == recipe]
        return tuple(sorted({r["assigner"] for r in rows if "assigner" in r})), tuple(
            sorted({r["probe"] for r in rows if "probe" in r})
        )

    def assigners(self, run: Run) -> tuple[str, ...]:
        """Assigners that any table of the suite asks of this recipe."""
        return self._asked(run.recipe)[0]

    def probes(self, run: Run) -> tuple[str, ...]:
        """Probes that any table of the suite asks of this recipe."""
        return self._asked(run.recipe)[1]

    # ---- files and parameters of jobs

    def run(self, wildcards: Any) -> Run:
        """The run that a job's wildcards name."""
        return Run(wildcards.dataset, wildcards.protocol, wildcards.recipe, int(wildcards.seed))

    def base_files(self, run: Run) -> list[str]:
        """Model and record of the base run, or nothing."""
        base = self.base(run)
        return [] if base is None else [f"{self.results}/{base.path}/{name}" for name in ("model.pt", "train.json")]

    def neighbour_files(self, run: Run, use: str) -> list[str]:
        """The mined neighbours of a run for a `use` (below), and their record, or nothing."""
        name = self._neighbours(run).get(use)
        folder = f"{self.results}/{self.base(run).path}/neighbours" if name else ""
        return [f"{folder}/{name}.{ending}" for ending in ("npz", "json")] if name else []

    def _neighbours(self, run: Run) -> dict[str, str]:
        """use -> name of a file of neighbours (array, count, splits): "neighbours", from which a run draws partners,
        and "watched", the scored images' own.
        """
        recipe, protocol = self.recipe(run), catalogue.entry("protocol", run.protocol)
        wanted = recipe.get("neighbours", {})
        rows = {
            "neighbours": ("count", recipes.train_splits(recipe, protocol)),
            "watched": ("watched", protocol["score"]),
        }
        return {
            use: f"{wanted['array']}{wanted[key]}-{'+'.join(splits)}"
            for use, (key, splits) in rows.items()
            if key in wanted
        }

    def cluster_files(self, run: Run, ending: str) -> list[str]:
        """The clusters (npz) or their records (json) of every assigner asked of a run."""
        return [f"{self.results}/{run.path}/clusters/{assigner}.{ending}" for assigner in self.assigners(run)]

    def evaluations(self, run: Run) -> dict[str, str]:
        """What the evaluate stage is asked of a run: key (its record's path below metrics/) -> stage."""
        scores = {f"clustering/{name}": f"score/{name}" for name in self.assigners(run)}
        return scores | {name: f"probe/{name}" for name in self.probes(run)}

    def evaluated(self, run: Run) -> str:
        """Code and settings of all that, as JSON: what makes the evaluate job stale besides its files."""
        stages = {key: self.stage(stage, run) for key, stage in self.evaluations(run).items()}
        return canonical_json({key: [stage.code, stage.settings] for key, stage in stages.items()})

    def probe_settings(self, run: Run) -> list[str]:
        """The probes asked of a run, each as JSON with its name."""
        return [canonical_json(self.stage(f"probe/{name}", run).settings["probe"]) for name in self.probes(run)]

    def table_metrics(self, name: str) -> list[str]:
        """metrics.json of every run behind a table."""
        table = self.tables[name]
        runs = dict.fromkeys(run for row in table["rows"] for run in self.row_runs(table, row))
        return [f"{self.results}/{run.path}/metrics.json" for run in runs]

    def gpus(self) -> int:
        """GPUs that a training job asks for."""
        device = self.config["device"]
        return self.config["devices"] * (device == "cuda" or (device == "auto" and Path("/dev/nvidia0").exists()))

    # ---- what each stage gets, and must record

    def code(self, stage: str, *loaded: str) -> str:
        """Code hash of a stage that belongs to no single run, with the modules it loads by name."""
        return code_version(f"report.{stage}", *loaded)

    def figure_code(self, name: str) -> str:
        """Code hash of a figure's stage."""
        return self.code("plot", f"report.figures.{self.figure(name)['kind']}")

    def prepare_stage(self, dataset: str) -> "Stage":
        """The stage that prepares a data set, whichever runs use it."""
        return self.stage("prepare", Run(dataset, "", "", 0))

    @functools.cache  # noqa: B019
    def stage(self, stage: str, run: Run) -> "Stage":
        """`stage`: "prepare", "train", "embed", "mine/{neighbours}", "assign/{assigner}", "score/{assigner}" or
        "probe/{probe}".
        """
        kind, _, detail = stage.partition("/")
        code = code_version(*self.roots(kind, run, detail))
        settings, inputs, seed = getattr(self, f"_{kind}")(run, detail)
        return Stage(code, settings, stage_fingerprint(kind, code, settings, inputs, seed))

    def roots(self, kind: str, run: Run, detail: str = "") -> tuple[str, ...]:
        """The modules whose code, with all they import, makes the stage stale."""
        if kind == "assign":
            return "evaluation.assign", f"evaluation.assigners.{catalogue.entry('assigner', detail)['algorithm']}"
        if kind == "score":
            return "evaluation.evaluate", *wing_modules("metric")
        if kind == "probe":
            return "evaluation.evaluate", f"evaluation.probes.{catalogue.entry('probe', detail)['algorithm']}"
        if kind in ("train", "embed"):
            return f"training.{kind}", f"methods.{self.recipe(run)['method']}"
        return ({"prepare": "preparation.prepare", "mine": "training.mine"}[kind],)

    def splits(self, stage: str, run: Run) -> str:
        """The part of the protocol that a stage uses, as JSON: splits it never reads do not make it stale."""
        return canonical_json(self.stage(stage, run).settings["protocol"])

    def _prepare(self, run: Run, _: str) -> tuple[dict, dict, None]:
        return {"name": run.dataset, **catalogue.entry("data set", run.dataset)}, {}, None

    def _train(self, run: Run, _: str) -> tuple[dict, dict, int]:
        protocol = catalogue.entry("protocol", run.protocol)
        inputs = {"data": self.stage("prepare", run).fingerprint}
        if (base := self.base(run)) is not None:
            inputs["base"] = self.stage("train", base).fingerprint
            for use, name in self._neighbours(run).items():
                inputs[use] = self.stage(f"mine/{name}", base).fingerprint
        recipe = self.recipe(run)
        settings = {"recipe": recipe, "protocol": recipes.splits_read(recipe, run.protocol, protocol)}
        return settings, inputs, run.seed

    def _embed(self, run: Run, _: str) -> tuple[dict, dict, None]:
        return {}, {"model": self.stage("train", run).fingerprint}, None

    def _mine(self, run: Run, name: str) -> tuple[dict, dict, None]:
        array, count, splits = name[0], name[1:].partition("-")[0], name.partition("-")[2].split("+")
        return (
            {"array": array, "count": int(count), "splits": splits},
            {"features": self.stage("embed", run).fingerprint},
            None,
        )

    def _assign(self, run: Run, assigner: str) -> tuple[dict, dict, int]:
        protocol = catalogue.entry("protocol", run.protocol)
        splits = {"name": run.protocol, "fit": protocol["fit"], "score": protocol["score"]}
        if "seen" in protocol:
            splits["seen"] = protocol["seen"]
        settings = {"assigner": {"name": assigner, **catalogue.entry("assigner", assigner)}, "protocol": splits}
        return settings, {"features": self.stage("embed", run).fingerprint}, run.seed

    def _score(self, run: Run, assigner: str) -> tuple[dict, dict, None]:
        protocol = catalogue.entry("protocol", run.protocol)
        splits = {"name": run.protocol, **{key: protocol[key] for key in ("score", "seen") if key in protocol}}
        return {"protocol": splits}, {"clusters": self.stage(f"assign/{assigner}", run).fingerprint}, None

    def _probe(self, run: Run, probe: str) -> tuple[dict, dict, int]:
        protocol = catalogue.entry("protocol", run.protocol)
        splits = {"name": run.protocol, "score": protocol["score"], "probe": protocol["probe"]}
        settings = {"probe": {"name": probe, **catalogue.entry("probe", probe)}, "protocol": splits}
        return settings, {"features": self.stage("embed", run).fingerprint}, run.seed

    def expected(self, run: Run, row: dict[str, Any]) -> dict[str, list[str]]:
        """stage -> [fingerprint, code] that an up-to-date record of this row of the run holds, upstream first."""
        own = (
            [f"assign/{row['assigner']}", f"score/{row['assigner']}"]
            if "assigner" in row
            else [f"probe/{row['probe']}"]
        )
        stages = ["prepare", "train", "embed", *own]
        return {name: [self.stage(name, run).fingerprint, self.stage(name, run).code] for name in stages}

    def sources(self, run: Run, row: dict[str, Any]) -> list[dict[str, str]]:
        """Everything that a row of a run is made from, upstream first: an output of each job, the file of its record,
        the stage and the fingerprint that the record should hold.
        """
        folder, data = f"{self.results}/{run.path}", f"{self.results}/data/{run.dataset}/card.json"
        found = [self._source(data, data, "prepare", run), *self._train_sources(run)]
        found.append(self._source(f"{folder}/features.npz", f"{folder}/features.json", "embed", run))
        key = row["probe"] if "probe" in row else f"clustering/{row['assigner']}"
        if "assigner" in row:
            clusters = f"{folder}/clusters/{row['assigner']}"
            found.append(self._source(f"{clusters}.npz", f"{clusters}.json", f"assign/{row['assigner']}", run))
        stage = f"probe/{key}" if "probe" in row else f"score/{row['assigner']}"
        return [*found, self._source(f"{folder}/metrics.json", f"{folder}/metrics/{key}.json", stage, run)]

    def _train_sources(self, run: Run) -> list[dict[str, str]]:
        """The base's, if there is one, and the run's own training."""
        found: list[dict[str, str]] = []
        if (base := self.base(run)) is not None:
            folder, data = f"{self.results}/{base.path}", f"{self.results}/data/{base.dataset}/card.json"
            found = [self._source(data, data, "prepare", base), *self._train_sources(base)]
            if mined := self._neighbours(run).values():
                found.append(self._source(f"{folder}/features.npz", f"{folder}/features.json", "embed", base))
            for name in mined:
                path = f"{folder}/neighbours/{name}"
                found.append(self._source(f"{path}.npz", f"{path}.json", f"mine/{name}", base))
        folder = f"{self.results}/{run.path}"
        return [*found, self._source(f"{folder}/model.pt", f"{folder}/train.json", "train", run)]

    def _source(self, output: str, record: str, stage: str, run: Run) -> dict[str, str]:
        own = stage.partition("/")[0] if stage.startswith("mine/") else stage  # the name in its record
        return {"output": output, "record": record, "stage": own, "fingerprint": self.stage(stage, run).fingerprint}

    def environment(self) -> dict[str, str]:
        """Where and how, not what: environment variables for the stages, so that a change makes no result stale."""
        config = self.config
        root = os.environ.get("BENCH_DATA_ROOT") or config["data_root"]
        return {
            **({"BENCH_DATA_ROOT": root} if root else {}),
            # Stages are `python -m ...` from any working directory, here and on a cluster node.
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
            "BENCH_COMMAND": os.environ.get("BENCH_COMMAND") or command_of(sys.argv),
            "BENCH_DOWNLOAD": str(int(config["download"])),
            "BENCH_DEVICE": config["device"],
            "BENCH_DEVICES": str(config["devices"]),
            "BENCH_COMPILE": str(int(config["compile"])),
            "BENCH_STRICT": str(int(config["strict"])),
            "BENCH_CHECKPOINT_MINUTES": str(config["checkpoint_minutes"]),
        }

    # ---- plan files

    def table_path(self, name: str) -> str:
        """Path of a table's csv, without ending."""
        return f"{self.results}/{self.tables[name].get('path', name)}"

    def table_plan(self, name: str) -> dict[str, Any]:
        """All that the table stage needs to know; written to a file, it is one of that stage's inputs."""
        table = self.tables[name]
        rows = []
        for row in table["rows"]:
            runs = [
                {
                    "folder": f"{self.results}/{run.path}",
                    **run.__dict__,
                    "expected": self.expected(run, row),
                    "sources": self.sources(run, row),
                }
                for run in self.row_runs(table, row)
            ]
            rows.append({**row, "runs": runs})
        return {
            "name": name,
            **{key: table.get(key) for key in ("title", "note", "verdicts")},
            "reported": self._reported(table),
            "suite": self.config["suite"],
            "metrics": {metric: catalogue.entry("metric", metric) for metric in table["metrics"]},
            "datasets": {d: catalogue.entry("data set", d)["title"] for d in self._of(table, "datasets")},
            "protocols": {p: catalogue.entry("protocol", p)["title"] for p in self._of(table, "protocols")},
            "rows": rows,
        }

    def _reported(self, table: dict[str, Any]) -> list[dict[str, str]]:
        """The paper's values for the methods that the table's rows name: rows of config/reported/*.csv."""
        if "reported" not in table:
            return []
        path = catalogue.CONFIG / "reported" / f"{table['reported']['file']}.csv"
        if not path.is_file():
            known = [p.stem for p in path.parent.glob("*.csv")]
            raise ConfigError(f"no reported values {path.name}; {catalogue.suggestion(path.stem, known)}")
        wanted = {row.get("reported") for row in table["rows"]} - {None}
        with open(path, encoding="utf-8", newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["table"] == table["reported"]["table"]]
        for method in wanted:
            catalogue.require(f"reported method in {path.name}", method, {row["method"] for row in rows})
        return [row for row in rows if row["method"] in wanted]

    def suite_plan(self) -> dict[str, Any]:
        """All that the tracking stage needs to know."""
        runs = [{"folder": f"{self.results}/{run.path}", **run.__dict__} for run in self.runs()]
        tables = [self.table_path(name) for name in self.tables]
        return {"suite": self.config["suite"], "results": self.results, "runs": runs, "tables": tables}

    def write(self) -> None:
        """Write the plan files that changed; one that did not keeps its time, so nothing that reads it is stale."""
        folder = Path(self.results) / ".plan"
        plans = {name: self.table_plan(name) for name in self.tables} | {"suite": self.suite_plan()}
        for name, plan in plans.items():
            text = json.dumps(plan, indent=1, ensure_ascii=False) + "\n"
            path = folder / f"{name}.json"
            if not path.is_file() or path.read_text(encoding="utf-8") != text:
                with whole(path, "w") as file:
                    file.write(text)


def _typed(key: str, value: Any) -> Any:
    """Command-line values (`--config seeds=[0,1] strict=true`) reach Snakemake's config partly as text: read them."""
    wanted = catalogue.read_yaml(catalogue.CONFIG / "schemas" / "suite.yaml")["properties"].get(key, {})
    if isinstance(value, list):
        text = wanted.get("items", {}).get("type") == "string"
        return [yaml.safe_load(item) if isinstance(item, str) and not text else item for item in value]
    text = "string" in wanted.get("type", "string") or "enum" in wanted
    return yaml.safe_load(value) if isinstance(value, str) and not text else value


@dataclass(frozen=True)
class Stage:
    """Code hash, settings and fingerprint of one stage of one run."""

    code: str
    settings: dict[str, Any]
    fingerprint: str
