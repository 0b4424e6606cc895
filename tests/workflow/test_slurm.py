"""The smoke suite through SLURM's executor on a one-node SLURM that the test brings up and takes down again."""

import contextlib
import csv
import os
import shutil
import signal
import socket
import subprocess
import time
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
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MinJobAge=300
KillWait=5
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} RealMemory={memory} State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""

# What a site profile adds: its partition, and how to ask for the state of jobs without an accounting database.
SITE = """
executor: slurm
jobs: 4
latency-wait: 10
rerun-incomplete: true
slurm-status-command: squeue
slurm-init-seconds-before-status-checks: 1
seconds-between-status-checks: 1
default-resources: {slurm_partition: main, mem_mb: 500, runtime: 5}
groups: {embed: after, assign: after, evaluate: after}
set-resources:
  prepare: {mem_mb: 2000}
  train: {mem_mb: 2000, runtime: 10}
  embed: {mem_mb: 2000}
  assign: {mem_mb: 2000}
  evaluate: {mem_mb: 2000}
"""


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
        if started_munge:
            with contextlib.suppress(OSError, ValueError):
                os.kill(int(Path("/run/munge/munged.pid").read_text()), signal.SIGTERM)


def ask(*words):
    return subprocess.run(words, capture_output=True, text=True, timeout=30, check=False).stdout


def table(root):
    with open(root / "results/smoke/table2.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_the_smoke_suite_through_slurm_gives_the_local_table(slurm, smoke, tmp_path):
    cluster = copy_project(tmp_path / "project")
    site = cluster.root / "site"
    site.mkdir()
    (site / "profile.yaml").write_text(SITE)
    done = cluster.snakemake(
        "results/smoke/table2.csv",
        "--workflow-profile",
        str(site),
        timeout=900,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    assert "SLURM" in done.stdout + done.stderr
    assert table(cluster.root) == table(smoke.root)
    # The shipped profile parses and plans with the same jobs.
    shipped = cluster.snakemake(
        "results/smoke/table2.csv",
        "--workflow-profile",
        "profiles/slurm",
        "--dry-run",
    )
    assert "Nothing to be done" in shipped.stdout + shipped.stderr, shipped.stderr
