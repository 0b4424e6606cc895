"""What stages are told beside their words: every setting that changes how they run, and none that changes a number."""

import os
import platform

from pipeline.plan import Plan
from tests.conftest import ROOT
from tests.pipeline.test_plan import config


def test_the_environment_tells_stages_every_setting_that_changes_how_they_run(tmp_path, monkeypatch):
    for key in ("BENCH_DATA_ROOT", "BENCH_COMMAND"):
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setenv("PYTHONPATH", "/more")
    monkeypatch.setattr("sys.argv", ["snakemake", "results/table2.csv"])
    monkeypatch.setattr("pipeline.plan.command_of", " ".join)
    settings = {"results": str(tmp_path), "data_root": "/data", "download": False, "device": "cpu", "devices": 3,
                "compile": True, "strict": False, "checkpoint_minutes": 7}  # fmt: skip
    given = Plan(config(**settings)).environment()
    assert given == {
        "BENCH_DATA_ROOT": "/data",
        "BENCH_SOURCES_CACHE": f"{tmp_path}/.sources.json",
        "PYTHONPATH": f"{ROOT}{os.pathsep}/more",
        "BENCH_DOWNLOAD": "0",
        "BENCH_DEVICE": "cpu",
        "BENCH_DEVICES": "3",
        "BENCH_COMPILE": "1",
        "BENCH_STRICT": "0",
        "BENCH_CHECKPOINT_MINUTES": "7",
        "BENCH_COMMAND": "snakemake results/table2.csv",
        "BENCH_MAIN": f"{platform.node()}:{os.getpid()}",
    }
    other = Plan(config(**settings | {"results": "results/x", "download": True, "compile": False, "strict": True}))
    given = other.environment()
    assert [given[f"BENCH_{key}"] for key in ("DOWNLOAD", "COMPILE", "STRICT")] == ["1", "0", "1"]
    assert given["BENCH_SOURCES_CACHE"] == os.path.abspath("results/x/.sources.json")
    monkeypatch.setenv("BENCH_DATA_ROOT", "/mine")
    monkeypatch.setenv("BENCH_COMMAND", "as typed")
    given = Plan(config(**settings)).environment()
    assert (given["BENCH_DATA_ROOT"], given["BENCH_COMMAND"]) == ("/mine", "as typed")
