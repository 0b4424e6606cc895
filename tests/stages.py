"""The stages of a small suite in this process: a finished run in a second or two, without snakemake."""

import csv
import sys
import unittest.mock

import evaluation.assign
import evaluation.evaluate
import preparation.prepare
import report.tabulate
import training.embed
import training.train
from pipeline.provenance import canonical_json
from pipeline.record import run_stage
from preparation.prepared import open_prepared


class Stages:
    """Every stage in this process, with what the plan passes to it, for one data set and table `mine`."""

    def __init__(self, plan, dataset="mine"):
        self.plan, self.dataset, self.data = plan, dataset, f"{plan.results}/data/{dataset}"

    def stage(self, main, *words):
        with unittest.mock.patch.object(sys, "argv", ["stage", *map(str, words)]):
            run_stage(main)

    def prepare(self):
        spec = canonical_json(self.plan.stages.prepare(self.dataset).settings)
        self.stage(preparation.prepare.main, "--dataset", spec, "--out", self.data)
        return open_prepared(self.data)

    def model(self, run):
        folder, base = f"{self.plan.results}/{run.path}", self.plan.base_files(run)[:1]
        recipe, resume = canonical_json(self.plan.runs.recipe(run)), f"{self.plan.results}/.resume"
        common = ["--data", self.data, "--protocol", run.protocol, "--seed", run.seed]
        words = [*common, "--recipe", recipe, "--out", folder, "--resume", resume]
        self.stage(training.train.main, *words, *[word for path in base for word in ("--base", path)])
        self.stage(training.embed.main, "--data", self.data, "--model", f"{folder}/model.pt", "--out", folder)
        features = [*common, "--features", f"{folder}/features.npz"]
        for name, path in zip(self.plan.runs.assigners(run), self.plan.cluster_files(run, "npz"), strict=True):
            self.stage(evaluation.assign.main, *features, "--assigner", name, "--out", path)
        asked = ["--clusters", *self.plan.cluster_files(run, "npz"), "--probes", *self.plan.probe_settings(run)]
        self.stage(evaluation.evaluate.main, *features, *asked, "--out", f"{folder}/metrics.json")

    def table(self):
        out = self.plan.table_path("mine") + ".csv"
        self.stage(report.tabulate.main, "--plan", self.plan.write_plan("mine"), "--out", out, "--strict")
        with open(out, newline="") as file:
            return list(csv.DictReader(file))
