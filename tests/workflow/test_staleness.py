"""What makes which stage stale: real dry runs on a finished smoke suite, the exact planned set after each change."""

import contextlib
import csv
import json
import os
import re
import shutil
from pathlib import Path

import pytest

TARGET = "results/smoke/table2.csv"
EVERY = ("pixels", "untrained", "supervised", "simclr_base", "simclr", "mixem", "scan", "selflabel", "cdc")
CONTRAST = ("simclr_base", "simclr", "mixem", "scan", "selflabel", "cdc")
MINED = ("mine", "simclr_base")
STAGES = ("train", "embed", "assign", "evaluate")


def planned(smoke, *more):
    """{(rule, recipe)} that a dry run of the main target plans."""
    done = smoke.snakemake(TARGET, "--dry-run", *more)
    assert done.returncode == 0, done.stdout + done.stderr
    text = done.stdout + done.stderr
    if "Nothing to be done" in text:
        return set()
    jobs = set()
    for block in re.split(r"\n(?=(?:local)?rule )", text)[1:]:
        rule = re.match(r"(?:local)?rule (\w+):", block)[1]
        recipe = re.search(r"wildcards:.*recipe=([\w-]+)", block)
        seed = re.search(r"wildcards:.*seed=(\d+)", block)
        jobs.add((rule, f"{recipe[1]} {seed[1]}" if seed and seed[1] != "0" else recipe[1]) if recipe else (rule, ""))
    return jobs


def stages(names, recipes, *more):
    return {(stage, recipe) for stage in names for recipe in recipes} | {("tabulate_table2", ""), *more}


@contextlib.contextmanager
def edited(path: Path, change):
    """The file with `change` applied to its text; put back afterwards, with its time."""
    before, times = path.read_text(), path.stat()
    after = change(before)
    assert after != before, "the edit found nothing to change"
    path.write_text(after)
    try:
        yield
    finally:
        path.write_text(before)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_a_finished_suite_has_nothing_to_do(smoke):
    assert planned(smoke) == set()


def test_touching_every_file_makes_nothing_stale(smoke):
    for path in smoke.root.rglob("*"):
        if path.is_file() and not {"results", ".snakemake"} & set(path.relative_to(smoke.root).parts):
            path.touch()
    assert planned(smoke) == set()


@pytest.mark.parametrize(
    ("file", "old", "new", "expected"),
    [
        ("methods/mixem.py", "1 - p.max(1).v", "1.0 - p.max(1).v", stages(STAGES, ("mixem",))),
        ("methods/blocks/contrast.py", "images = len(z1), len", "images = z1.shape[0], len",
         stages(STAGES, CONTRAST, MINED)),
        ("methods/scan.py", "views = 1", "views = 1 + 0", stages(STAGES, ("scan", "selflabel"))),
        ("config/recipes/scan.yaml", "count: 20}", "count: 19}", stages(STAGES, ("scan", "selflabel"), MINED)),
        ("evaluation/clustering.py", '"n": len(labels),', '"n": labels.size,', stages(("evaluate",), EVERY)),
        ("methods/mixem.py", "# [B, M]", "# shape [B, M]", set()),
        ("methods/mixem.py", '"""Eq. 4: minus', '"""Equation 4: minus', set()),
        ("config/recipes/mixem.yaml", "comp_ent: 2.0", "comp_ent: 2.5", stages(STAGES, ("mixem",))),
        ("config/recipes/mixem.yaml", "push: 5.6e-3", "push: 5.7e-3", set()),  # of a variant that no table asks for
        ("config/assigners.yaml", "finalists: 3\nkmeans_raw", "finalists: 4\nkmeans_raw",
         stages(("assign", "evaluate"), ("untrained", "simclr_base", "simclr"))),
        ("config/protocols.yaml", "title: train+test / test", "title: both / test", {("tabulate_table2", "")}),
    ],
    ids=["method", "block", "neighbours", "count", "metric", "comment", "docstring", "recipe", "variant", "assigner",
         "title"],
)  # fmt: skip
def test_an_edit_makes_exactly_this_stale(smoke, file, old, new, expected):
    with edited(smoke.root / file, lambda text: text.replace(old, new, 1)):
        assert planned(smoke) == expected
    assert planned(smoke) == set()


def test_a_changed_data_card_reruns_all_that_reads_it(smoke):
    card = smoke.root / "results/smoke/data/digits_200/card.json"
    with edited(card, lambda text: text.replace('"made_up": 0', "", 1).replace('"classes": 10', '"classes": 10 ', 1)):
        assert planned(smoke) == stages(STAGES, EVERY, MINED)


def test_another_seed_adds_its_jobs_only(smoke):
    added = planned(smoke, "--config", "seeds=[0,1]")
    assert added == stages(STAGES, [f"{recipe} 1" for recipe in EVERY], ("mine", "simclr_base 1"))


def test_without_snakemakes_notes_the_records_name_stale_rows(smoke):
    """A lost .snakemake folder blinds Snakemake to edited code; the table stage must not print what is stale."""
    aside = smoke.root / "aside"
    shutil.move(smoke.root / ".snakemake", aside)
    table = smoke.root / TARGET
    before = table.read_text()
    try:
        with edited(
            smoke.root / "methods/mixem.py", lambda text: text.replace("1 - p.max(1).values", "1.0 - p.max(1).values")
        ):
            done = smoke.snakemake(TARGET)
            assert done.returncode == 0, done.stderr
            said = done.stdout + done.stderr
            assert "results/smoke/runs/digits_200/full/mixem/seed0: stale, stage train ran with other code" in said
            with open(table, newline="") as file:
                rows = {row["method"]: row for row in csv.DictReader(file)}
            assert rows["MIX'EM + K-means"]["digits (200) ACC"] == ""
            assert "stale" in rows["MIX'EM + K-means"]["notes"]
            assert rows["SimCLR + K-means"]["digits (200) ACC"] != ""
            strict = smoke.snakemake(TARGET, "--config", "strict=true")
            assert strict.returncode == 1
            assert "runs cannot be printed" in strict.stdout + strict.stderr
        assert smoke.snakemake(TARGET).returncode == 0
        assert table.read_text() == before
    finally:
        shutil.rmtree(smoke.root / ".snakemake")
        shutil.move(aside, smoke.root / ".snakemake")
        smoke.snakemake(TARGET)
    assert planned(smoke) == set()


def test_records_hold_what_really_ran(smoke):
    stored = json.loads((smoke.root / "results/smoke/runs/digits_200/full/mixem/seed0/metrics.json").read_text())
    records = stored["records"]
    assert list(records) == ["prepare", "train", "embed", "assign/argmax", "assign/kmeans_components", "evaluate"]
    for record in records.values():
        assert {"code", "settings", "fingerprint", "versions", "lock", "seconds", "machine"} <= set(record)
    assert records["train"]["settings"]["recipe"]["settings"]["follow"] == "code"
    assert records["train"]["base_seed"] == 0
    assert stored["results"]["clustering/kmeans_components"]["status"] == "ok"


def test_bad_configuration_is_one_clear_error_before_any_job(smoke):
    done = smoke.snakemake(TARGET, "--config", "datasets=[digitz]")
    assert done.returncode == 1
    said = done.stdout + done.stderr
    assert "unknown data set 'digitz'; did you mean 'digits'?" in said
    assert "Traceback" not in said


def test_missing_data_files_stop_before_any_training(smoke):
    done = smoke.snakemake("results/smoke/runs/mnist/full/simclr_base/seed0/model.pt", "--config", "datasets=[mnist]")
    assert done.returncode == 1
    said = done.stdout + done.stderr
    assert "set BENCH_DATA_ROOT" in said
    assert "rule train" not in said


def test_cluster_jobs_do_not_rewrite_the_plan(smoke):
    """Only the main process writes plan files: a job that reads an edited configuration must not change them."""
    plan = smoke.root / "results/smoke/.plan/table2.json"
    before = plan.read_text()
    done = smoke.snakemake(TARGET, "--dry-run", "--mode", "remote", "--config", "seeds=[0,1]", "suite=smoke")
    assert done.returncode == 0, done.stderr
    assert plan.read_text() == before


def test_a_figure_is_drawn_from_finished_runs(smoke):
    figure = "results/smoke/figures/digits_history.png"
    done = smoke.snakemake(figure)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 steps" in done.stdout + done.stderr
    assert (smoke.root / figure).read_bytes().startswith(b"\x89PNG")
