# The pipeline: configuration, targets, and one file per stage. See README.md for its use, docs/extending.md for its parts.
import os
import sys
from os.path import dirname

from snakemake.cli import get_argument_parser
from snakemake.utils import min_version

min_version("9.20")
sys.path.insert(0, str(workflow.basedir))

from pipeline.live import attach

attach(workflow)


configfile: os.path.join(workflow.basedir, "config", "config.yaml")


from pipeline import targets
from pipeline.locks import jobs_run_elsewhere, take_working_directory
from pipeline.plan import Plan
from pipeline.provenance import canonical_json
from pipeline.record import StageError
from pipeline.runs import Neighbours

try:
    plan = Plan(dict(config), workflow.is_main_process, workflow.overwrite_configfiles)
    config.update(plan.config)
    os.environ.update(plan.environment())  # before the plans, which hash files below the data root
    if workflow.is_main_process:
        plan.check_targets(sys.argv[1:])  # Snakemake's own list of them comes after this file
        take_working_directory()
        plan.leave_plans()
except StageError as problem:
    sys.exit(f"error: {problem}")

RESULTS = config["results"]
DATA = f"{RESULTS}/data/{{dataset}}"
PREPARED = [f"{DATA}/card.json", f"{DATA}/images.npy", f"{DATA}/labels.npy"]
RUN = f"{RESULTS}/runs/{{dataset}}/{{protocol}}/{{recipe}}/seed{{seed}}"
LOG = f"{RESULTS}/logs/{{dataset}}_{{protocol}}_{{recipe}}_seed{{seed}}"


wildcard_constraints:
    dataset="[a-z0-9_]+",
    protocol="[a-z0-9_]+",
    recipe="[a-z0-9_-]+",
    seed="[0-9]+",
    assigner="[a-z0-9_]+",
    figure="[a-z0-9_-]+",
    plan="[^/]+-[0-9a-f]{16}",
    array="[hz]",
    number="[0-9]+",
    splits="[a-z+]+",


rule all:
    default_target: True
    input:
        [f"{plan.table_path(name)}.csv" for name in plan.tables],
        f"{plan.place}/results.csv",
        [f"{plan.figure_path(name)}.png" for name in config["figures"]],
        f"{plan.place}/report/index.html",
        f"{plan.place}/claims.csv" if config["claims"] else [],
        f"{plan.place}/selection.csv" if config["selection"] else [],
        f"{RESULTS}/mlflow.json" if config["track"] else [],
    localrule: True


# In the order of the work, in which it is also shown.
ORDER = "plan prepare train embed mine assign evaluate tabulate collect claims selection plot report track"
for stage in ORDER.split():

    include: f"rules/{stage}.smk"


try:
    targets.check(workflow, plan, get_argument_parser)
except StageError as problem:
    sys.exit(f"error: {problem}")


onstart:
    if workflow.is_main_process:
        try:
            plan.begin(here=workflow.local_exec)
            if workflow.non_local_exec:
                jobs_run_elsewhere()
        except StageError as problem:
            sys.exit(f"error: {problem}")


onsuccess:
    # results.csv follows whichever target was asked for, and also a run that failed.
    if workflow.is_main_process:
        plan.sweep()
        asked, out = plan.write_plan("results"), f"{plan.place}/results.csv"
        shell("python -m report.collect --plan {asked:q} --out {out:q} --new || true")
    # The tables are there; mirror what is new. Only here can it follow whichever table was asked for.
    if config["track"] and workflow.is_main_process:
        suite, index = plan.write_plan("suite"), f"{RESULTS}/mlflow.json"
        strict = "--strict" if config["strict"] else ""
        shell("python -m report.track --plan {suite:q} --out {index:q} --new {strict}")


onerror:
    # A failed run costs its own cells: what there is of each table that was asked for goes beside it, with the causes.
    if workflow.is_main_process:
        asked_rules = {job.rule.name for job in workflow.dag.jobs}
        for name in (name for name in plan.tables if f"tabulate_{name}" in asked_rules):
            asked, out = plan.write_plan(name), f"{plan.table_path(name)}.csv"
            shell("python -m report.tabulate --plan {asked:q} --out {out:q} --partial || true")
        if "claims" in asked_rules:
            asked, out = plan.write_plan("claims"), f"{plan.place}/claims.csv"
            shell("python -m report.claims --plan {asked:q} --out {out:q} --partial || true")
        if "selection" in asked_rules:
            asked, out = plan.write_plan("selection"), f"{plan.place}/selection.csv"
            shell("python -m report.selection --plan {asked:q} --out {out:q} --partial || true")
        asked, out = plan.write_plan("results"), f"{plan.place}/results.csv"
        shell("python -m report.collect --plan {asked:q} --out {out:q} --new || true")
        if "report" in asked_rules:
            asked = [plan.write_plan(name) for name in ("suite", *plan.tables)]
            drawn = [f"{plan.figure_path(name)}.png" for name in config["figures"]]
            out = f"{plan.place}/report/index.html"
            shell(
                "python -m report.page --results {RESULTS:q} --plans {asked:q} --figures {drawn:q} --out {out:q}"
                " --partial || true"
            )
