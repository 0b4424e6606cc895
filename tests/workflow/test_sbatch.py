"""What profiles/slurm asks of SLURM, read off the command lines: `sbatch` is a stand-in that notes them and refuses."""

import shlex

import pytest
import yaml

from tests.conftest import ROOT, copy_project

RUNS = "results/smoke/runs/digits_200/full"
# One program for all that the executor calls; only sbatch says anything.
SLURM = """#!/bin/sh
case $0 in *sbatch) for word; do echo "$word"; done > "$FAKE/$$.asked"; echo refused >&2; exit 1 ;; esac
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project in which one training is ready to run, and two are done, so that what follows them is ready."""
    copied = copy_project(tmp_path_factory.mktemp("sbatch") / "project")
    data = copied.root / "results/smoke/data/digits_200"
    data.mkdir(parents=True)
    for name in ("card.json", "images.npy", "labels.npy"):
        (data / name).touch()
    for seed in ("seed0", "seed1"):
        run = copied.root / RUNS / "simclr_base" / seed
        run.mkdir(parents=True)
        for name in ("model.pt", "history.csv", "snapshots.npz", "train.json"):
            (run / name).touch()
    return copied


def submitted(project, folder, *words):
    """The words of each sbatch command."""
    (folder / "bin").mkdir()
    for name in ("sbatch", "squeue", "sacct", "sacctmgr", "sinfo", "scontrol"):
        (folder / "bin" / name).write_text(SLURM)
        (folder / "bin" / name).chmod(0o755)
    project.snakemake(
        f"{RUNS}/supervised/seed0/model.pt",
        *(f"{RUNS}/simclr_base/seed{seed}/metrics.json" for seed in (0, 1)),
        *("--workflow-profile", "profiles/slurm", "--retries=0", "--slurm-init-seconds-before-status-checks=1"),
        *words,
        env={"PATH": f"{folder / 'bin'}:{project.environment()['PATH']}", "FAKE": str(folder)},
        timeout=60,
    )
    return [path.read_text().splitlines() for path in folder.glob("*.asked")]


@pytest.mark.parametrize(("gpus", "joined", "minutes"), [(1, 1, 180), (2, 2, 240)])
def test_a_training_and_all_that_follows_it_ask_for_their_gpus_on_one_node(project, tmp_path, gpus, joined, minutes):
    """Where runs are joined in one job, their embeddings take turns: more time, no more GPUs."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "profile.yaml").write_text("default-resources: {slurm_partition: gpu}")
    words = ("--profile", str(site), "--group-components", f"run_{{recipe}}={joined}")
    asked = submitted(project, tmp_path, *words, "--config", "device=cuda", f"devices={gpus}", "seeds=[0,1]")
    assert len(asked) == 2 + (joined == 1)
    train, *after = sorted(asked, key=lambda words: "--comment rule_train" not in shlex.join(words))
    for words in (train, *after):
        assert {f"--gpus={gpus}", "--nodes=1", "--requeue"} <= set(words), shlex.join(words)
        assert words[words.index("-p") + 1] == "gpu"
        assert words[words.index("-t") + 1] == str(720 if words is train else minutes)
        assert words[words.index("--mem") + 1] == str(8000 if words is train else 8000 * joined)
    for words in after:
        assert words[words.index("--comment") + 1] == "rule_run_simclr_base_assign_embed_evaluate"


def test_runs_joined_in_one_job_never_hold_one_that_another_starts_from(project):
    """Snakemake refuses such a job; the names of the groups keep them apart."""
    profile = yaml.safe_load((ROOT / "profiles/slurm/profile.yaml").read_text())
    joined = [f"{name}=8" for name in set(profile["groups"].values())]
    words = ("--workflow-profile", "profiles/slurm", "--group-components", *joined, "--dry-run", "--forceall")
    done = project.snakemake(*words, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
