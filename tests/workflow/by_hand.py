"""Every run and the table `mine` of a suite of one data set, without snakemake.

python -m tests.workflow.by_hand SUITE.yaml
"""

import os
import sys
from pathlib import Path

from pipeline import catalogue
from pipeline.plan import Plan
from tests.stages import Stages


def main() -> None:
    suite = catalogue.read_yaml(Path(sys.argv[1]))
    plan = Plan(catalogue.read_yaml(catalogue.CONFIG / "config.yaml") | suite)
    os.environ.update(plan.environment())
    stages = Stages(plan, *suite["datasets"])
    stages.prepare()
    for run in plan.runs.all():
        stages.model(run)
    stages.table()


if __name__ == "__main__":
    main()
