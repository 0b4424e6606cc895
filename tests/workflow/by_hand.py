"""Where a suite's table `mine` would lie, and that table of a small data set, all its runs included, without snakemake.

python -m tests.workflow.by_hand SUITE.yaml SMALL.yaml    (what is laid over the suite, to make it small)
"""

import os
import sys
from pathlib import Path

from pipeline import catalogue
from pipeline.plan import Plan
from tests.stages import Stages


def main() -> None:
    suite, small = map(catalogue.read_yaml, map(Path, sys.argv[1:]))
    config = catalogue.read_yaml(catalogue.CONFIG / "config.yaml") | suite
    print(f"{Plan(config, files=[Path(sys.argv[1])]).table_path('mine')}.csv")
    plan = Plan(config | small)
    os.environ.update(plan.environment())
    stages = Stages(plan, *small["datasets"])
    stages.prepare()
    for run in plan.runs.all():
        stages.model(run)
    stages.table()


if __name__ == "__main__":
    main()
