"""A small suite through profiles/slurm on a one-node SLURM that the test brings up and takes down again.

The node has two GPUs in name, and jobs of the partition `urgent` push those of `main` back into the queue.
"""

import contextlib
import csv
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conftest import copy_project

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(
        not all(map(shutil.which, ("slurmctld", "slurmd", "munged", "sbatch"))) or os.geteuid() != 0,
        reason="SLURM (Debian: slurm-wlm, munge) is not installed, or the test does not run as root",
    ),
]

CONF = """
ClusterName=box
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=cred_expire=10
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
SwitchType=switch/none
SlurmctldPidFile={run}/slurmctld.pid
SlurmdPidFile={run}/slurmd.pid
SlurmdSpoolDir={run}/spool
StateSaveLocation={run}/state
SlurmctldLogFile={run}/slurmctld.log
SlurmdLogFile={run}/slurmd.log
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,sched_min_interval=0,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
GresTypes=gpu
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MinJobAge=300
KillWait=5
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} RealMemory={memory} Gres=gpu:2 State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=urgent Nodes={host} MaxTime=INFINITE State=UP PriorityTier=10
"""
# Any two device files do: SLURM counts them and numbers them for CUDA_VISIBLE_DEVICES.
GPUS = "NodeName={host} Name=gpu File=/dev/null\nNodeName={host} Name=gpu File=/dev/zero\n"

# What a site profile adds: its partition, and how to ask for the state of jobs without an accounting database.
SITE = """
slurm-status-command: squeue
slurm-init-seconds-before-status-checks: 1
seconds-between-status-checks: 1
default-resources: {slurm_partition: main}
"""
# The least that has every stage, a run that starts from another, and a training long enough to be pushed aside.
SUITE = """
suite: cluster
results: results/cluster
datasets: [digits_200]
seeds: [0]
tables: [cluster]
device: cpu
track: false
checkpoint_minutes: 0
overrides:
  "*": {batch_size: 64}
  simclr_base: {schedule: {epochs: 60}}
  mixem: {schedule: {epochs: 1, hold_epochs: 0}}
"""
TABLE = """
title: Cluster
metrics: [ACC]
rows:
  - {label: pixels, recipe: pixels, assigner: kmeans_raw}
  - {label: base, recipe: simclr_base, assigner: kmeans}
  - {label: mixem, recipe: mixem, assigner: argmax}
"""
BASE = "digits_200/full/simclr_base/seed0"


@pytest.fixture
def slurm(tmp_path):
    """A running one-node cluster. Its configuration must lie in /etc: jobs start with a clean environment."""
    conf = Path("/etc/slurm/slurm.conf")
    if conf.exists():
        pytest.skip(f"{conf} exists: this machine belongs to a SLURM cluster already")
    host, run = socket.gethostname().split(".")[0], tmp_path / "slurm"
    for folder in ("spool", "state"):
        (run / folder).mkdir(parents=True)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20 - 1000
    conf.parent.mkdir(exist_ok=True)
    conf.with_name("gres.conf").write_text(GPUS.format(host=host))
    conf.write_text(CONF.format(host=host, run=run, cores=os.cpu_count(), memory=memory))
    started_munge = not Path("/run/munge/munge.socket.2").exists()
    if started_munge:
        script = """
            mkdir -p /run/munge /var/log/munge /var/lib/munge /etc/munge
            [ -s /etc/munge/munge.key ] || mungekey -c -f
            chown -R munge: /etc/munge /run/munge /var/log/munge /var/lib/munge; chmod 0755 /run/munge
            su -s /bin/bash munge -c "$(command -v munged)"
        """
        subprocess.run(["bash", "-ec", script], check=True, timeout=60)
    daemons = [
        subprocess.Popen([name, "-D", "-f", str(conf)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for name in ("slurmctld", "slurmd")
    ]
    try:
        limit = time.monotonic() + 60
        while "idle" not in (said := ask("sinfo", "-h", "-o", "%t")):
            assert time.monotonic() < limit, f"SLURM did not come up: {said}"
            time.sleep(1)
        yield
    finally:
        with contextlib.suppress(subprocess.SubprocessError):
            ask("scancel", "-u", "root")
        for process in reversed(daemons):
            process.terminate()
        for process in daemons:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
        conf.unlink()
        conf.with_name("gres.conf").unlink()
        if started_munge:
            with contextlib.suppress(OSError, ValueError):
                os.kill(int(Path("/run/munge/munged.pid").read_text()), signal.SIGTERM)


def ask(*words):
    return subprocess.run(words, capture_output=True, text=True, timeout=30, check=False).stdout


def prepared(folder):
    """A copy of the project with the suite and its table."""
    project = copy_project(folder)
    (project.root / "config/tables/cluster.yaml").write_text(TABLE)
    (project.root / "site").mkdir()
    (project.root / "site/profile.yaml").write_text(SITE)
    (project.root / "site/suite.yaml").write_text(SUITE)
    return project


def snakemake(project, *words):
    command = (sys.executable, "-m", "snakemake", "--configfile", "site/suite.yaml", *words)
    done = project.run(*command, timeout=600)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout + done.stderr


def table(project):
    with open(project.root / "results/cluster/cluster.csv", newline="") as file:
        return list(csv.DictReader(file))


class States:
    """The states of every job, as SLURM shows them: what each is for -> [(seconds, state), ...] at every change."""

    def __init__(self):
        self.seen, self.ids, self.begun = {}, {}, time.monotonic()

    def look(self):
        for line in ask("squeue", "-h", "-t", "all", "-o", "%i|%T|%k").splitlines():
            number, state, comment = line.split("|")
            self.ids[comment] = number
            changes = self.seen.setdefault(comment, [])
            if not changes or changes[-1][1] != state:
                changes.append((round(time.monotonic() - self.begun, 1), state))

    def of(self, comment):
        return [state for _, state in self.seen[comment]]

    def __str__(self):
        return "\n".join(
            f"{self.ids[comment]:>4} {comment}: " + " ".join(f"{seconds} {state}" for seconds, state in changes)
            for comment, changes in self.seen.items()
        )


def visible_gpus(job):
    """CUDA_VISIBLE_DEVICES of a job's training process."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if b"training.train" in (folder / "cmdline").read_bytes().split(b"\0"):
                said = dict(word.split(b"=", 1) for word in (folder / "environ").read_bytes().split(b"\0") if word)
                if said.get(b"SLURM_JOB_ID") == job.encode():
                    return said.get(b"CUDA_VISIBLE_DEVICES", b"").decode()
    return None


def test_a_suite_through_slurm_with_a_training_pushed_aside_gives_the_bits_of_a_local_run(slurm, tmp_path):
    local, cluster = prepared(tmp_path / "local"), prepared(tmp_path / "cluster")
    train, states = "rule_train_wildcards_digits_200_full_simclr_base_0", States()
    words = ("--workflow-profile", "profiles/slurm", "--profile", "site", "--set-resources", "train:gpu=1")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(snakemake, cluster, *words, "--", "results/cluster/cluster.csv")
        gpus = None
        while not running.done():
            states.look()
            if gpus is None and list((cluster.root / "results/cluster/.resume").glob("*/state.pt")):
                gpus = visible_gpus(states.ids[train])
                ask(
                    "sbatch",
                    "-p",
                    "urgent",
                    "--exclusive",
                    "--comment",
                    "urgent",
                    "-o",
                    "/dev/null",
                    "--wrap",
                    "sleep 2",
                )
            time.sleep(0.3)
        states.look()
    print(states)
    said = running.result()
    assert "SLURM" in said
    assert gpus in ("0", "1")
    # Back into the queue, and from there on where it had been.
    assert "PENDING" in states.of(train)[states.of(train).index("RUNNING") :]
    assert states.of("urgent")[-1] == "COMPLETED"
    log = cluster.root / "results/cluster/logs/digits_200_full_simclr_base_seed0_train.log"
    assert "resuming at epoch" in log.read_text()
    # One job for each training, and one for all that follows it.
    kinds = [comment.partition("_wildcards")[0] for comment in states.seen]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "rule_prepare": 1,
        "rule_train": 3,
        "rule_run_pixels_assign_embed_evaluate": 1,
        "rule_run_simclr_base_assign_embed_evaluate": 1,
        "rule_run_mixem_assign_embed_evaluate": 1,
        "urgent": 1,
    }
    assert {of[-1][1] for of in states.seen.values()} == {"COMPLETED"}
    snakemake(local, "--config", "checkpoint_minutes=10", "--cores", "2", "--", "results/cluster/cluster.csv")
    assert table(cluster) == table(local)
    for file in ("features.npz", "clusters/kmeans.npz"):
        here, there = (each.root / "results/cluster/runs" / BASE / file for each in (local, cluster))
        assert here.read_bytes() == there.read_bytes(), file
