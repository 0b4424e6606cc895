"""What profiles/slurm asks of SLURM, read off the command lines: `sbatch` is a stand-in that notes them and refuses."""

import os
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from tests.conftest import copy_project

RUNS = "results/smoke/runs/digits_200/full"
# One program for all that the executor calls; only sbatch says anything.
SLURM = """#!/bin/sh
case $0 in *sbatch) for word; do echo "$word"; done > "$FAKE/$$.asked"; echo refused >&2; exit 1 ;; esac
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory, digits_200):
    """A project in which one training is ready to run, and one is done, so that what follows it is ready."""
    copied = copy_project(tmp_path_factory.mktemp("sbatch") / "project")
    shutil.copytree(digits_200, copied.root / "results/smoke/data/digits_200")
    run = copied.root / RUNS / "simclr_base/seed0"
    run.mkdir(parents=True)
    for name in ("model.pt", "history.csv", "snapshots.npz", "train.json"):
        (run / name).touch()
    return copied


def submitted(project, folder, *words):
    """Comment (which names the job) -> the words of its sbatch command."""
    (folder / "bin").mkdir()
    for name in ("sbatch", "squeue", "sacct", "sacctmgr", "sinfo", "scontrol"):
        (folder / "bin" / name).write_text(SLURM)
        (folder / "bin" / name).chmod(0o755)
    project.snakemake(
        f"{RUNS}/supervised/seed0/model.pt",
        f"{RUNS}/simclr_base/seed0/metrics.json",
        *("--workflow-profile", "profiles/slurm", "--retries=0", "--slurm-init-seconds-before-status-checks=1"),
        *words,
        env={"PATH": f"{folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}", "FAKE": str(folder)},
        timeout=60,
    )
    asked = [path.read_text().splitlines() for path in folder.glob("*.asked")]
    return {words[words.index("--comment") + 1].partition("_wildcards")[0]: words for words in asked}


@pytest.mark.parametrize("gpus", [1, 2])
def test_a_training_and_all_that_follows_it_ask_for_their_gpus_on_one_node(project, tmp_path, gpus):
    site = tmp_path / "site"
    site.mkdir()
    (site / "profile.yaml").write_text("default-resources: {slurm_partition: gpu}")
    asked = submitted(project, tmp_path, "--profile", str(site), "--config", "device=cuda", f"devices={gpus}")
    assert len(asked) == 2
    train, after = asked["rule_train"], asked["rule_run_simclr_base_assign_embed_evaluate"]
    for words in (train, after):
        assert {f"--gpus={gpus}", "--nodes=1", "--cpus-per-task=1", "--requeue"} <= set(words), shlex.join(words)
        assert words[words.index("-p") + 1] == "gpu"
        assert words[words.index("--mem") + 1] == "8000"
    assert [words[words.index("-t") + 1] for words in (train, after)] == ["720", "180"]
