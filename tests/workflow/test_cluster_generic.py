"""LSF, PBS and SGE without one: their commands are stand-ins that note what is asked and run jobs on this machine."""

import os
import subprocess

import pytest

from tests.conftest import ROOT, copy_project, warm_python

SCHEDULER = "profiles/cluster-generic/scheduler.sh"
# Runs what is submitted, and kills, as a scheduler would, a job that asked for too little memory before it says a word.
BSUB = """#!/bin/sh
number=$(($(cat "$FAKE/number" 2>/dev/null || echo 0) + 1))
echo $number > "$FAKE/number"
echo "$*" >> "$FAKE/submitted"
for script; do :; done
case "$*" in
*rusage\\[mem=4000MB\\]*) echo 137 > "$FAKE/$number.rc" ;;
*) (
  "$script" > "$FAKE/$number.log" 2>&1
  echo $? > "$FAKE/$number.part"
  mv "$FAKE/$number.part" "$FAKE/$number.rc"
) > /dev/null & ;;
esac
echo "Job <$number> is submitted to default queue <normal>."
"""
BJOBS = """#!/bin/sh
for job; do :; done
echo "$job" >> "$FAKE/asked"
case $(cat "$FAKE/$job.rc" 2>/dev/null) in "") echo RUN ;; 0) echo DONE ;; *) echo EXIT ;; esac
"""


@pytest.fixture
def cluster(tmp_path):
    """Makes commands of a scheduler; gives the environment in which they are found."""
    (tmp_path / "bin").mkdir()

    def make(**commands):
        for name, text in commands.items():
            path = tmp_path / "bin" / name
            path.write_text(text if text.startswith("#!") else f"#!/bin/sh\n{text}\n")
            path.chmod(0o755)
        path = os.pathsep.join([str(tmp_path / "bin"), warm_python(), os.environ["PATH"]])
        return {**os.environ, "PATH": path, "FAKE": str(tmp_path)}

    return make


def ask(env, *words, folder=ROOT):
    done = subprocess.run(
        [str(ROOT / SCHEDULER), *words], env=env, cwd=folder, capture_output=True, text=True, timeout=20, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_job_killed_for_its_memory_is_run_again_with_more(cluster, tmp_path):
    project = copy_project(tmp_path / "project")
    env = cluster(bsub=BSUB, bjobs=BJOBS)
    target = "results/smoke/data/digits_200/card.json"
    words = (
        "--workflow-profile",
        "profiles/cluster-generic",
        "--latency-wait",
        "5",
        "--seconds-between-status-checks",
        "1",
    )
    done = project.snakemake(target, *words, env={**env, "BENCH_SUBMIT": "-q short"}, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (project.root / target).is_file()
    assert (project.root / ".snakemake" / "running").read_text().splitlines()[1:] == ["with a cluster"]
    submitted = (tmp_path / "submitted").read_text().splitlines()
    assert [line.split(" -J ")[0] for line in submitted] == ["-q short", "-q short"]
    assert "rusage[mem=4000MB] -M 4000MB -W 60" in submitted[0]
    assert "rusage[mem=8000MB] -M 8000MB -W 120" in submitted[1]
    assert all("-n 1 -R span[hosts=1]" in line and " -gpu " not in line for line in submitted)
    assert set((tmp_path / "asked").read_text().split()) == {"1", "2"}


NOTE = 'echo "$0 $*" >> "$FAKE/said"; echo "{answer}"'
# Scheduler -> (what its submit command answers, the words for one GPU and two threads)
SUBMITTED = {
    "lsf": (
        "Job <71> is submitted to queue <gpu>.",
        "bsub -q gpu -J train.3 -n 2 -R span[hosts=1] rusage[mem=8000MB] -M 8000MB -W 90"
        " -o .snakemake/cluster/train.3.%J.log -gpu num=1 /tmp/snakejob.train.3.sh",
    ),
    "pbs": (
        "71.head",
        "qsub -q gpu -V -N train.3 -l select=1:ncpus=2:mem=8000mb:ngpus=1 -l walltime=90:00 -j oe"
        " -o .snakemake/cluster/ /tmp/snakejob.train.3.sh",
    ),
    "sge": (
        "71",
        "qsub -q gpu -terse -V -cwd -S /bin/sh -N train.3 -l mem_free=8000M,h_rt=0:90:0 -j y -o .snakemake/cluster/"
        " -l gpu=1 -pe smp 2 /tmp/snakejob.train.3.sh",
    ),
}


@pytest.mark.parametrize("scheduler", SUBMITTED)
def test_each_scheduler_is_asked_in_its_own_words(cluster, tmp_path, scheduler):
    answer, words = SUBMITTED[scheduler]
    note = NOTE.format(answer=answer)
    env = cluster(**({"bsub": note, "bkill": note} if scheduler == "lsf" else {"qsub": note, "qdel": note}))
    env |= {"BENCH_SUBMIT": "-q gpu"} | ({"SGE_ROOT": "/opt/sge"} if scheduler == "sge" else {})
    job = ask(env, "submit", "2", "8000", "90", "1", "/tmp/snakejob.train.3.sh", folder=tmp_path)
    assert job == {"pbs": "71.head"}.get(scheduler, "71")
    ask(env, job, "72", folder=tmp_path)
    said = (tmp_path / "said").read_text().replace(f"{tmp_path}/bin/", "").splitlines()
    assert said == [words, f"{'bkill' if scheduler == 'lsf' else 'qdel'} {job} 72"]
    assert (tmp_path / ".snakemake/cluster").is_dir()
    (tmp_path / "said").unlink()
    ask(env, "submit", "1", "4000", "60", "0", "/tmp/snakejob.assign.4.sh", folder=tmp_path)
    assert "gpu" not in (tmp_path / "said").read_text().replace("-q gpu", "")


PBS = "Job Id: 71.head\n    job_state = {state}\n    queue = gpu\n"
STATES = [
    ("lsf", {"bjobs": "echo PEND"}, "running"),
    ("lsf", {"bjobs": "echo DONE"}, "success"),
    ("lsf", {"bjobs": "echo EXIT"}, "failed"),
    ("lsf", {"bjobs": 'echo "Job <71> is not found" >&2; exit 255'}, "failed"),
    ("lsf", {"bjobs": 'echo "LSF is down. Please wait ..." >&2; exit 255'}, "running"),
    ("pbs", {"qstat": f"printf '{PBS.format(state='Q')}'"}, "running"),
    ("pbs", {"qstat": f"printf '{PBS.format(state='F')}    Exit_status = 0\n'"}, "success"),
    ("pbs", {"qstat": f"printf '{PBS.format(state='F')}    Exit_status = 271\n'"}, "failed"),
    ("pbs", {"qstat": f"printf '{PBS.format(state='F')}'"}, "failed"),
    ("pbs", {"qstat": "echo 'qstat: Unknown Job Id 71.head' >&2; exit 153"}, "failed"),
    ("pbs", {"qstat": "echo 'Connection refused' >&2; exit 111"}, "running"),
    ("sge", {"qstat": "echo 'job_number: 71'"}, "running"),
    ("sge", {"qstat": "echo 'error reason 1: can not open output file'"}, "failed"),
    ("sge", {"qstat": "exit 1", "qacct": "printf 'failed  0\nexit_status  0\n'"}, "success"),
    ("sge", {"qstat": "exit 1", "qacct": "printf 'failed  0\nexit_status  137\n'"}, "failed"),
    (
        "sge",
        {"qstat": "exit 1", "qacct": "printf 'failed  100 : assumedly after job\nexit_status  0\n'"},
        "failed",
    ),
    ("sge", {"qstat": "exit 1", "qacct": "exit 1"}, "running"),
]


@pytest.mark.parametrize(("scheduler", "commands", "state"), STATES)
def test_what_each_scheduler_says_of_a_job_is_understood(cluster, scheduler, commands, state):
    env = cluster(**{"bsub" if scheduler == "lsf" else "qsub": "exit 1"}, **commands)
    env |= {"SGE_ROOT": "/opt/sge"} if scheduler == "sge" else {}
    assert ask(env, "status", "71") == state


def test_a_machine_without_a_scheduler_says_so():
    env = {"PATH": "/nowhere"}
    done = subprocess.run([ROOT / SCHEDULER, "status", "1"], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("scheduler.sh: neither bsub nor qsub on PATH")
