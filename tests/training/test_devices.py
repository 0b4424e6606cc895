"""Processes that share a machine's GPUs each take their own. Real processes and locks; the GPUs are names only."""

import os
import re
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from pipeline import gpus
from pipeline.record import StageError
from tests.conftest import ROOT
from training import devices, embed, train

# Takes GPUs, says which, and holds them until its standard input closes.
TAKER = """
import signal, sys
from pipeline import gpus
from training import devices
signal.alarm(20)  # a test that waits in vain ends
devices.POLL, gpus.NODES = 0.05, sys.argv[1]
devices.claim("auto", int(sys.argv[2]))
print("took", devices.os.environ.get(devices.VISIBLE), flush=True)
sys.stdin.read()
"""
SCHEDULERS = dict.fromkeys(devices.JOB_IDS)


@pytest.fixture
def take(tmp_path):
    """Starts processes that each take `count` GPUs; `env` changes their environment, None removes a variable."""
    started = []

    def start(count=1, nodes="/nowhere", **env):
        merged = {**os.environ, **SCHEDULERS, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT), **env}
        process = subprocess.Popen(
            [sys.executable, "-c", TAKER, nodes, str(count)],
            env={key: value for key, value in merged.items() if value is not None},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def took(process):
    """The GPUs that a process was left with, once it has them."""
    for line in process.stdout:
        if line.startswith("took "):
            return line.removeprefix("took ").strip()
    raise AssertionError("it ended without GPUs")


def waits(process):
    return process.stdout.readline().startswith("waiting for")


def test_processes_take_different_gpus_and_a_killed_one_frees_its_own(take):
    first, second = take(CUDA_VISIBLE_DEVICES="0,1"), take(CUDA_VISIBLE_DEVICES="0,1")
    names = {took(first): first, took(second): second}
    assert set(names) == {"0", "1"}
    third = take(CUDA_VISIBLE_DEVICES="0,1")
    assert waits(third)
    names["1"].send_signal(signal.SIGKILL)
    assert took(third) == "1"
    assert names["0"].poll() is None


def test_gpus_are_those_of_the_machine_where_nobody_names_them(take, tmp_path):
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    assert {took(take(nodes=str(tmp_path), CUDA_VISIBLE_DEVICES=None)) for _ in range(2)} == {"0", "1"}


def test_uuids_and_mig_names_are_taken_as_given(take):
    given = "GPU-5d1e, MIG-GPU-5d1e/1/0"
    assert {took(take(CUDA_VISIBLE_DEVICES=given)) for _ in range(2)} == {"GPU-5d1e", "MIG-GPU-5d1e/1/0"}


def test_several_gpus_are_taken_together_or_not_at_all(take):
    whole = take(CUDA_VISIBLE_DEVICES="0,1,2")
    assert took(whole) == "0"
    pair = take(2, CUDA_VISIBLE_DEVICES="2,0,1")
    assert took(pair) == "2,1"
    another = take(2, CUDA_VISIBLE_DEVICES="0,1,2")
    assert waits(another)
    pair.kill()
    assert took(another) == "1,2"
    last = take(2, CUDA_VISIBLE_DEVICES="0,1,2")
    whole.kill()
    assert waits(last)
    # The one that waits for two holds not even the one that is free.
    assert took(take(CUDA_VISIBLE_DEVICES="0,1,2")) == "0"


def test_rivals_for_several_gpus_all_get_them_in_turn(take):
    rivals = [take(2, CUDA_VISIBLE_DEVICES="0,1,2") for _ in range(4)]
    for process in rivals:  # each ends, and frees its own, as soon as it has them
        process.stdin.close()
        process.stdin = None
    said = [process.communicate(timeout=30)[0] for process in rivals]
    assert all(re.search(r"^took \d,\d$", each, re.MULTILINE) for each in said)


@pytest.mark.parametrize("scheduler", devices.JOB_IDS)
def test_jobs_of_a_scheduler_number_their_gpus_from_0_each(take, scheduler):
    def job(name):
        return take(CUDA_VISIBLE_DEVICES="0,1", **{scheduler: name})

    assert [took(job("7")), took(job("8"))] == ["0", "0"]
    assert took(job("7")) == "1"  # two processes of one job share what it was given


@pytest.mark.parametrize(
    ("device", "visible", "count"),
    [
        ("auto", None, 1),
        ("auto", "", 1),
        ("cpu", "0,1", 1),
        ("cuda", "3", 1),
        ("cuda", "0,1", 2),
        ("auto", "NoDevFiles", 1),
        ("auto", "0,-1,1", 1),
    ],
)
def test_nothing_is_done_where_there_is_nothing_to_choose(tmp_path, monkeypatch, capsys, device, visible, count):
    monkeypatch.setattr(gpus, "NODES", str(tmp_path))
    monkeypatch.setattr(devices.tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv(devices.VISIBLE, raising=False)
    if visible is not None:
        monkeypatch.setenv(devices.VISIBLE, visible)
    devices.claim(device, count)
    assert os.environ.get(devices.VISIBLE) == visible
    assert not list(tmp_path.iterdir())
    assert capsys.readouterr().out == ""


def test_more_gpus_than_there_are_is_an_error(monkeypatch):
    monkeypatch.setenv(devices.VISIBLE, "0,1")
    with pytest.raises(StageError, match=re.escape("devices=4 asks for 4 GPUs, found 2 (0, 1); ask for fewer with")):
        devices.claim("cuda", 4)


def test_a_lock_folder_that_cannot_be_written_is_an_error(tmp_path, monkeypatch):
    (tmp_path / f"bench-gpus-{os.getuid()}").touch()
    monkeypatch.setattr(devices.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv(devices.VISIBLE, "0,1")
    with pytest.raises(StageError, match="the lock files of the GPUs cannot be written"):
        devices.claim("cuda", 1)


@pytest.fixture(params=[train, embed])
def begun(request, monkeypatch):
    """Starts a stage on a device, with `claim` and the answer of CUDA as given."""
    stage = request.param
    recipe = {"method": "pixels", "precision": "auto"}
    records = {"train": {"fingerprint": "", "settings": {"recipe": recipe}}}
    given = {
        "read_inputs": lambda _: SimpleNamespace(recipe=recipe, settings={}, fingerprints={}),
        "read_records": lambda *_: records,
        "open_prepared": lambda _: None,
        "check_made_from": lambda *_: None,
    }
    for name in given.keys() & vars(stage).keys():
        monkeypatch.setattr(stage, name, given[name])
    words = {"data": "d", "model": "m", "recipe": "r", "protocol": "p", "seed": "0", "out": "o", "devices": "1"}
    wanted = words.keys() - ({"model"} if stage is train else {"recipe", "protocol", "seed"})

    def start(device, claim, available):
        monkeypatch.setattr(sys, "argv", ["stage", *(f"--{name}={words[name]}" for name in wanted)])
        monkeypatch.setenv("BENCH_DEVICE", device)
        monkeypatch.setattr(stage, "claim", claim)
        monkeypatch.setattr("torch.cuda.is_available", available)
        stage.main()

    return start


def test_training_and_embedding_take_theirs_before_they_ask_cuda(begun):
    def asked():
        raise AssertionError("CUDA was asked first")

    class Taken(Exception):
        pass

    def claim(device, count):
        assert (device, count) == ("auto", 1)
        raise Taken

    with pytest.raises(Taken):
        begun("auto", claim, asked)


def test_cuda_without_a_gpu_is_refused_when_the_stage_starts(begun, monkeypatch):
    monkeypatch.delenv(gpus.VISIBLE, raising=False)
    with pytest.raises(StageError, match=r"device=cuda, but CUDA finds no GPU here .*not set.*--device auto or cpu"):
        begun("cuda", lambda *_: None, lambda: False)


@pytest.mark.parametrize(("device", "available"), [("auto", False), ("cpu", False), ("cuda", True)])
def test_any_other_device_is_not_refused(monkeypatch, device, available):
    monkeypatch.setattr("torch.cuda.is_available", lambda: available)
    devices.refuse_missing(device)
