"""What plain snakemake is asked for wrongly: one line, too, before it looks for jobs."""

import argparse
import functools
import hashlib
import re
import sys
from types import SimpleNamespace

import pytest

from pipeline import catalogue, suites, targets, traps
from pipeline.naming import ConfigError
from pipeline.plan import Plan
from pipeline.refusals import missing_files
from tests.conftest import ROOT

SMOKE = str(ROOT / "config/suites/smoke.yaml")


class File(str):
    """An output with wildcards, as Snakemake's are matched."""

    def match(self, target):
        return re.fullmatch(re.sub(r"\{(\w+)\}", r"(?P<\1>[a-z0-9_-]+)", self), target)


RULES = [
    [File("results/smoke/table2.csv")],
    [File("results/smoke/figures/{figure}.png")],
    [File("results/smoke/runs/{dataset}/{protocol}/{recipe}/seed{seed}/clusters/{assigner}.npz")],
]
CLUSTERS = "results/smoke/runs/{}/{}/{}/seed0/clusters/{}.npz"


@functools.cache
def plan():
    return Plan(suites.configuration(suites.suite_file("smoke")))


def parser():
    made = argparse.ArgumentParser()
    made.add_argument("targets", nargs="*")
    made.add_argument("--cores")
    return made


def check(monkeypatch, *words, program="/bin/snakemake", main=True):
    workflow = SimpleNamespace(
        is_main_process=main,
        rules=[SimpleNamespace(products=lambda files=files: files) for files in RULES],
        is_rule=lambda name: name == "train",
    )
    monkeypatch.setattr(sys, "argv", [program, *words, "--cores", "2", "--unknown"])
    targets.check(workflow, plan(), parser)


def test_what_rules_make_and_what_is_there_may_be_asked_for(monkeypatch):
    check(monkeypatch)
    check(monkeypatch, "train", str(ROOT / "README.md"), "results/smoke/table2.csv")
    check(monkeypatch, "results/smoke/figures/digits_history.png", CLUSTERS.format("digits", "full", "scan", "argmax"))


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("results/smoke/tabel2", "unknown target 'results/smoke/tabel2'; did you mean 'results/smoke/table2.csv'?"),
        ("results/table2.csv", "unknown target 'results/table2.csv'; did you mean 'results/smoke/table2.csv'?"),
        ("results/smoke/table3.md",
         "target 'results/smoke/table3.md' is of table 'table3', which suite 'smoke' does not make; "
         "add --config tables=[table3]"),
        ("results/smoke/cdc/tabel6.csv",
         "unknown target 'results/smoke/cdc/tabel6.csv'; did you mean 'results/smoke/cdc/table6.csv'? "
         "It needs --config tables=[cdc_table6]"),
        ("al", "unknown target 'al'; did you mean 'all'?"),
        ("results/smoke/figures/digits_histry.png", "unknown figure 'digits_histry'; did you mean 'digits_history'?"),
        (CLUSTERS.format("digit", "full", "scan", "argmax"), "unknown data set 'digit'; did you mean 'digits'?"),
        (CLUSTERS.format("digits", "ful", "scan", "argmax"), "unknown protocol 'ful'; did you mean 'full'?"),
        (CLUSTERS.format("digits", "full", "scam", "argmax"), "unknown recipe 'scam'; did you mean 'scan'?"),
        (CLUSTERS.format("digits", "full", "scan", "armax"), "unknown assigner 'armax'; did you mean 'argmax'?"),
    ],
)  # fmt: skip
def test_an_unknown_target_is_told_with_the_nearest(monkeypatch, target, message):
    with pytest.raises(ConfigError) as problem:
        check(monkeypatch, "train", target)
    assert str(problem.value) == message


def test_only_the_command_line_of_the_process_that_plans_is_looked_at(monkeypatch):
    check(monkeypatch, "nonsense", program="/bin/pytest")
    check(monkeypatch, "nonsense", main=False)
    with pytest.raises(ConfigError):
        check(monkeypatch, "nonsense", program="/lib/snakemake/__main__.py")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "--configfile mine.yaml results/table2.csv",
            "'results/table2.csv' stands after --configfile, and there is no",
        ),
        ("--configfiles mine.yaml table.csv", "'table.csv' stands after --configfile, and is no configuration; give"),
        ("--configfile=smok.yaml", "smok.yaml: no such file; did you mean config/suites/smoke.yaml?"),
        ("--configfile other_thing.yaml", "other_thing.yaml: no such file; suites are in config/suites and own/suites"),
        (
            "--config seeds=[0] table.csv",
            "'table.csv' stands after --config, where KEY=VALUE is expected; give targets",
        ),
        ("-C table.csv", "'table.csv' stands after --config, where KEY=VALUE is expected; give targets first"),
    ],
)
def test_words_that_an_option_would_swallow_are_refused(tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(catalogue, "OWN", tmp_path / "own")
    (tmp_path / "mine.yaml").touch()
    (tmp_path / "table.csv").touch()
    with pytest.raises(ConfigError) as problem:
        traps.main(words.split())
    assert str(problem.value).startswith(message)
    right = "table.csv --configfile mine.yaml --config seeds=[0] a=b --cores 2 --config=c=d table.csv --forcerun y"
    traps.main(right.split())


def test_a_real_command_ends_with_one_line(project, tmp_path):
    words = [
        "--snakefile",
        str(ROOT / "Snakefile"),
        "--directory",
        str(tmp_path),
        "--cores",
        "1",
        "--configfile",
        SMOKE,
    ]
    done = project.run("python", "-m", "snakemake", "results/table2.csv", *words)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1] == (
        "error: unknown target 'results/table2.csv'; did you mean 'results/smoke/table2.csv'?"
    )


@pytest.fixture
def run(project, tmp_path):
    """The script ./run in an environment whose commands say how they were called; `traps` ends with 3 at "bad"."""
    (tmp_path / "bin").mkdir()
    lock = hashlib.sha256((ROOT / "requirements.lock").read_bytes()).hexdigest()
    (tmp_path / ".lock-sha256").write_text(lock + "\n")
    for name in ("python", "snakemake"):
        file = tmp_path / "bin" / name
        file.write_text(f'#!/bin/sh\necho {name} "$@"\ncase "$*" in *bad*) [ {name} = snakemake ] || exit 3;; esac\n')
        file.chmod(0o755)
    return lambda *words: project.run(str(ROOT / "run"), *words, env={"BENCH_VENV": str(tmp_path)})


@pytest.mark.parametrize(
    ("words", "printed", "code"),
    [
        ("bench table --dry", ["python -m pipeline.bench table --dry"], 0),
        ("bench table bad", ["python -m pipeline.bench table bad"], 3),
        ("snakemake a --config b=c", ["python -m pipeline.traps a --config b=c", "snakemake a --config b=c"], 0),
        ("snakemake -C b", ["python -m pipeline.traps -C b", "snakemake -C b"], 0),
        ("snakemake --configfile bad", ["python -m pipeline.traps --configfile bad"], 3),
        ("snakemake bad", ["snakemake bad"], 0),
        ("python --config bad", ["python --config bad"], 3),
    ],
)
def test_the_script_knows_the_front_door_and_asks_for_traps(run, words, printed, code):
    done = run(*words.split())
    assert done.stdout.splitlines() == printed, done.stderr
    assert done.returncode == code


def test_a_real_dry_run_through_the_front_door(project, tmp_path):
    """The format of what Snakemake prints, and that nothing is written into the results."""
    done = project.run("python", "-m", "pipeline.bench", "table", "--suite", "smoke", "--dry", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("$ snakemake results/smoke/table2.csv --snakefile")
    assert lines[1] == "46 jobs would run:"
    assert "  train         9  not made yet" in lines
    assert "  tabulate      1  not made yet" in lines
    assert not (tmp_path / "results").exists()


def test_files_that_are_missing_are_told_with_their_place(monkeypatch, tmp_path):
    monkeypatch.setenv("BENCH_DATA_ROOT", str(tmp_path))
    for name in ("usps/usps_train.jf", "usps/usps_test.jf"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    config = catalogue.read_yaml(catalogue.CONFIG / "config.yaml") | {"results": str(tmp_path / "results")}

    def missing(**changes):
        return missing_files(Plan(config | {"tables": ["pixels"], "protocols": ["all"]} | changes))

    many = ["mnist_full"]
    mnist, imagenet = missing(datasets=many), missing(tables=["pcl_table4"], datasets=["digits"])
    assert mnist == [f"data set 'mnist_full': no files in {tmp_path}/MNIST/raw; --config download=true fetches them"]
    assert imagenet == [
        f"data set 'imagenet1k': no files in {tmp_path}/imagenet/train, {tmp_path}/imagenet/val; nothing fetches them, "
        "see docs/data.md"
    ]
    assert missing(datasets=many, download=True)[0].endswith("will download them")
    assert missing(datasets=["usps", "digits"]) == []
    (tmp_path / "results/data/mnist_full").mkdir(parents=True)
    (tmp_path / "results/data/mnist_full/card.json").touch()
    assert missing(datasets=many) == []
    monkeypatch.delenv("BENCH_DATA_ROOT")
    assert "no files in BENCH_DATA_ROOT/usps/usps_train.jf.gz" in missing(datasets=["usps"])[0]
