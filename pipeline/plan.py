"""The plan: what the Snakefile asks of the ground floor. It checks a suite's configuration and answers for every job.

Pure configuration work without torch or Snakemake. The tables' plan files tell the table stage what to expect, and so
let it name results that a lost or bypassed workflow state left stale (pipeline/record.py).
"""

import functools
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pipeline import catalogue, claims, gpus, parts, places
from pipeline.checks import check_run, check_suite, check_table
from pipeline.claim_plans import claims_plan
from pipeline.command import command_of
from pipeline.data_files import DataFiles, Sources
from pipeline.figures import Figures
from pipeline.locks import alone, take_results
from pipeline.naming import ConfigError
from pipeline.processes import of_this_process
from pipeline.provenance import ROOT, canonical_json, code_version, fingerprint
from pipeline.record import StageError, sha256, whole
from pipeline.runs import Run, Runs
from pipeline.selection_plans import selection_plan, selection_runs
from pipeline.stages import Stage, Stages
from pipeline.suites import typed
from pipeline.tables import plan_name, results_plan, table_plan, table_runs


class Plan:
    """Everything that follows from a suite's configuration. Raises ConfigError before any job exists."""

    def __init__(self, config: dict[str, Any], main: bool = True, files: Iterable[Path] = ()):
        """`main`: whether this is the process that plans. Jobs on a cluster read the configuration again, but neither
        hash data files nor need to know what tables expect. `files`: those that --configfile names.
        """
        self.config = config = parts.whole({key: typed(key, value) for key, value in config.items()})
        check_suite(config)
        self.results = config["results"]
        self.tables = {name: parts.table(config, name) for name in config["tables"]}
        self.claims = claims.Claims(config, self.tables)
        self.runs = Runs(config, {**self.tables, **self.claims.tables()})
        root = os.environ.get("BENCH_DATA_ROOT") or config["data_root"]
        found = DataFiles(root, f"{self.results}/.sources.json")
        self.sources = Sources(found, self.results, os.environ.get("BENCH_WEIGHTS_ROOT"))
        self.stages = Stages(self.runs, self.sources if main else None)
        for name, table in self.tables.items():
            check_table(name, table, self.runs.datasets(table), self.runs.protocols(table))
        self.files = [Path(file) for file in files]
        self.owner = places.owner(config, self.files)
        places.check_overrides(config, self.owner, self.files)
        self.place = places.folder(config, self.owner)  # of figures and results.csv
        self.paths = {
            name: f"{places.folder(config, self.owner, table)}/{table.get('path', name)}"
            for name, table in self.tables.items()
        }
        places.check_apart(self.paths, self.place)
        # Seeds have no part in what is refused.
        for run in {(run.dataset, run.protocol, run.recipe): run for run in self.runs.all()}.values():
            check_run(run, self.runs.recipe(run), self.runs.assigners(run), self.runs.probes(run))
        if config["selection"]:
            self.selection_metrics()
        self.figures = Figures(self.runs)
        for name in config["figures"]:
            self.figures.entry(name)

    def run(self, wildcards: Any) -> Run:
        """The run that a job's wildcards name."""
        return Run(wildcards.dataset, wildcards.protocol, wildcards.recipe, int(wildcards.seed))

    def prepare_sources(self, dataset: str) -> list[str]:
        """Options of the job `prepare`: the hash that its files must have, and the hashes that are known already."""
        found = self.sources.of_dataset(dataset)
        return [f"--sources={found}", f"--sources-cache={self.sources.files.cache}"] if found else []

    def base_files(self, run: Run) -> list[str]:
        """Model and record of the base run, or nothing."""
        base = self.runs.base(run)
        return [] if base is None else [f"{self.results}/{base.path}/{name}" for name in ("model.pt", "train.json")]

    def neighbour_files(self, run: Run, use: str) -> list[str]:
        """The mined neighbours of a run for a `use` ("neighbours", "watched") and their record, or nothing."""
        base, neighbours = self.runs.base(run), self.runs.neighbours(run).get(use)
        if base is None or neighbours is None:
            return []
        return [f"{self.results}/{base.path}/{neighbours.path}.{ending}" for ending in ("npz", "json")]

    def cluster_files(self, run: Run, ending: str) -> list[str]:
        """The clusters (npz) or their records (json) of every assigner asked of a run."""
        return [f"{self.results}/{run.path}/clusters/{name}.{ending}" for name in self.runs.assigners(run)]

    def probe_settings(self, run: Run) -> list[str]:
        """The probes asked of a run, each as JSON with its name."""
        return [canonical_json(self.stages.probe(run, name).settings["probe"]) for name in self.runs.probes(run)]

    def evaluated(self, run: Run) -> str:
        """Code and settings of every score and probe asked of a run, as JSON: what the job `evaluate` depends on."""
        stages = {f"clustering/{name}": self.stages.score(run, name) for name in self.runs.assigners(run)}
        stages |= {name: self.stages.probe(run, name) for name in self.runs.probes(run)}
        return canonical_json({key: [stage.code, stage.settings] for key, stage in stages.items()})

    def table_path(self, name: str) -> str:
        """Path of a table's csv, without ending."""
        return self.paths[name]

    def check_targets(self, words: Iterable[str]) -> None:
        """Raise ConfigError for a table or figure of other data sets or protocols, and for one that cannot be drawn."""
        words = list(words)
        asked = {"claims": bool(self.claims.asked), "selection": self.config["selection"]}
        needed = {"claims": f"claims=[{','.join(claims.names())}]", "selection": "selection=true"}
        for name in (name for name in asked if f"{self.place}/{name}.csv" in words and not asked[name]):
            raise ConfigError(f"{self.place}/{name}.csv: no {name} asked for; add --config {needed[name]}")
        figures = [path for path in map(Path, words) if path.parent.name == "figures" and path.suffix in places.FIGURE]
        names = {*catalogue.names("figure"), *(figure.stem for figure in figures)}
        own = ("results", "claims", "selection", *(f"figures/{name}" for name in sorted(names)))
        outputs = [(self.place, name) for name in own]
        for name, path in self.paths.items():
            below = self.tables[name].get("path", name)
            outputs.append((path.removesuffix(f"/{below}"), below))
        places.check_targets(words, outputs, self.config)
        for figure in figures:
            if figure.parent == Path(self.place, "figures"):
                self.figures.entry(figure.stem)

    def table_metrics(self, name: str) -> list[str]:
        """metrics.json of every run behind a table."""
        return [f"{self.results}/{run.path}/metrics.json" for run in table_runs(self.stages, self.tables[name])]

    def claim_metrics(self) -> list[str]:
        """metrics.json of every run behind a claim of the suite."""
        return [f"{self.results}/{run.path}/metrics.json" for run in self.claims.runs()]

    def selection_metrics(self) -> list[str]:
        """metrics.json of every run among which selection.csv picks."""
        return [f"{self.results}/{run.path}/metrics.json" for run in selection_runs(self.runs, self.tables)]

    def metrics(self) -> list[str]:
        """metrics.json of every run behind a table of the suite."""
        return list(dict.fromkeys(path for name in self.tables for path in self.table_metrics(name)))

    def figure_words(self, name: str) -> list[str]:
        """What the stage that draws a figure is told of its data: folders of data sets and runs, or a table's plan."""
        if "table" in (figure := self.figures.entry(name)):
            return ["--table", self.plan_path(figure["table"])]
        shown = self.figures.shown(name)
        data = dict.fromkeys(f"{self.results}/data/{of.run.dataset}" for of in shown)
        return ["--data", *data, "--runs", *(f"{of.label}={self.results}/{of.run.path}" for of in shown)]

    def figure_path(self, name: str) -> str:
        """Path of a figure, without ending."""
        return f"{self.place}/figures/{name}"

    def figure_files(self, name: str) -> list[str]:
        """The files that a figure is drawn from: of its runs and data sets, or all behind its table."""
        if "table" in (figure := self.figures.entry(name)):
            return [self.plan_path(figure["table"]), *self.table_metrics(figure["table"])]
        files: dict[str, None] = {}
        for _, run, assigner in self.figures.shown(name):
            of_data = (f"data/{run.dataset}/{file}" for file in ("card.json", "images.npy", "labels.npy"))
            clusters = (f"clusters/{assigner}.npz", f"clusters/{assigner}.json") if assigner else ()
            of_run = (f"{run.path}/{file}" for file in ("features.npz", "history.csv", "snapshots.npz", *clusters))
            files |= dict.fromkeys([*of_data, *of_run])
        return [f"{self.results}/{file}" for file in files]

    def figure_code(self, name: str) -> str:
        """Code hash of a figure: of the stage that draws, and of the file of its kind."""
        return self.stages.code_version("report.plot", f"report.figures.{self.figures.entry(name)['kind']}")

    def gpus(self) -> int:
        """GPUs that a training job asks for."""
        device = self.config["device"]
        return self.config["devices"] * (device == "cuda" or (device == "auto" and bool(gpus.usable())))

    def code(self, stage: str) -> str:
        """Code hash of a stage of the report, which belongs to no single run."""
        return self.stages.code_version(f"report.{stage}")

    @staticmethod
    def page_code() -> str:
        """Hash of the code of the report page and of the files that it is laid out with."""
        files = {path.name: sha256(path) for path in (ROOT / "report" / "web").glob("[a-z]*")}
        return fingerprint(code=code_version("report.page"), files=files)

    @staticmethod
    def splits(stage: Stage) -> str:
        """The part of the protocol that a stage uses, as JSON: splits it never reads do not make it stale."""
        return canonical_json(stage.settings["protocol"])

    def environment(self) -> dict[str, str]:
        """Environment variables for the stages: device, folders, limits. They change how a stage runs but not what it
        computes, so a change of them makes no result stale.
        """
        config = self.config
        files = self.sources.files
        return {
            **of_this_process(),
            **({"BENCH_DATA_ROOT": str(files.root)} if files.root else {}),
            "BENCH_SOURCES_CACHE": os.path.abspath(f"{self.results}/.sources.json"),
            "BENCH_DOWNLOAD": str(int(config["download"])),
            "BENCH_DEVICE": config["device"],
            "BENCH_DEVICES": str(config["devices"]),
            "BENCH_COMPILE": str(int(config["compile"])),
            "BENCH_STRICT": str(int(config["strict"])),
            "BENCH_CHECKPOINT_MINUTES": str(config["checkpoint_minutes"]),
            "BENCH_COMMAND": os.environ.get("BENCH_COMMAND") or command_of(sys.argv),
        }

    # ---- plan files

    def table_plan(self, name: str) -> dict[str, Any]:
        """The plan of a table (pipeline/tables.py)."""
        return table_plan(self.stages, self.results, name, self.tables[name], f"{self.table_path(name)}.csv")

    def results_plan(self) -> dict[str, Any]:
        """The plan of results.csv (pipeline/tables.py)."""
        return results_plan(self.stages, self.results, self.tables)

    def suite_plan(self) -> dict[str, Any]:
        """All that the tracking stage needs to know."""
        shown = self.runs.shown()
        runs = [
            {"folder": f"{self.results}/{run.path}", **run.__dict__, "shown": shown.get(run, {})}
            for run in self.runs.all()
        ]
        made = {"tables": list(self.paths.values()), "figures": f"{self.place}/figures"}
        return {"suite": self.config["suite"], "results": self.results, "runs": runs, **made}

    @functools.cached_property
    def plan_texts(self) -> dict[str, str]:
        """File name -> content of the plan of every table, of results.csv and of the suite. A plan is named by its
        content, so that runs with other plans, at the same time or later, never read each other's.
        """
        plans = {name: self.table_plan(name) for name in self.tables}
        plans |= {"results": self.results_plan(), "suite": self.suite_plan()}
        if self.config["selection"]:
            plans["selection"] = selection_plan(self.stages, self.results, self.tables, f"{self.place}/selection.csv")
        if self.claims.asked:
            plans["claims"] = claims_plan(self.stages, self.results, self.claims, f"{self.place}/claims.csv")
        # On one line: with an indent Python writes JSON many times as slowly.
        texts = {name: json.dumps(plan, ensure_ascii=False) + "\n" for name, plan in plans.items()}
        return {plan_name(name, text): text for name, text in texts.items()}

    def plan_path(self, name: str) -> str:
        """Where the plan of a table, of the "results" or of the "suite" lies."""
        found = next((key for key in self.plan_texts if key.rpartition("-")[0] == name), name)
        return f"{self.results}/.plan/{found}.json"

    def made(self, plan: str) -> str:
        """Where a plan lies for the rule that puts it into the results folder."""
        return f".snakemake/plans/{plan}.json"

    def leave_plans(self) -> None:
        """Write the plans where `made` says: among Snakemake's own notes, the one place that a dry run may write to.

        Only a file that is newer than a table makes Snakemake look again where it has lost its notes.
        """
        for plan, text in self.plan_texts.items():
            if not Path(self.made(plan)).is_file():
                with whole(self.made(plan), "w") as file:
                    file.write(text)

    def begin(self, here: bool) -> None:
        """What the main process does once it has Snakemake's locks and before the first job: it writes to the results
        folder no sooner. `here`: whether the jobs run on this machine.

        Raises StageError while another checkout is at work in the results folder, where the folder has become that
        of another suite since the plan was made, and for device=cuda without a GPU.
        """
        if here:
            gpus.refuse_without(self.config["device"])
        take_results(self.results)
        if places.owner(self.config, self.files) != self.owner:
            raise StageError(f"{self.results}: another suite has taken this folder since; run the same command again")
        places.take(self.results, self.owner)
        self.sources.files.save()

    def sweep(self) -> None:
        """Remove the plans of runs that have ended, and the page of one that failed. A plan that stayed would be older
        than the table, and so hide from a later run that asks for it again that the table is of another.
        """
        Path(self.place, "report", "index.partial.html").unlink(missing_ok=True)
        if alone(self.results):
            for folder in (Path(self.results, ".plan"), Path(".snakemake", "plans")):
                for path in folder.glob("*.json"):
                    # Those of another results folder, which may lie below this one, are its own runs' business.
                    own = f'"{self.results}/runs/' in path.read_text(encoding="utf-8")
                    if own and path.stem not in self.plan_texts:
                        path.unlink(missing_ok=True)

    def write_plan(self, name: str) -> str:
        """Put a plan into the results folder without a job, and return its path."""
        path = Path(self.plan_path(name))
        if not path.is_file():
            with whole(path, "w") as file:
                file.write(self.plan_texts[path.stem])
        return str(path)
