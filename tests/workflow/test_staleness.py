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


def made(smoke, *words):
    """A real run of the main target; MLflow has tests of its own."""
    return smoke.snakemake(TARGET, "--config", "track=false", *words)


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
    """The jobs of these stages and recipes, and those of the table, which then expects something else."""
    table = {("write_plan", ""), ("tabulate_table2", "")}
    return {(stage, recipe) for stage in names for recipe in recipes} | table | {*more}


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


@contextlib.contextmanager
def several(smoke, edits):
    """(file, old text, new text) of each edit."""
    with contextlib.ExitStack() as stack:
        for file, old, new in edits:
            stack.enter_context(edited(smoke.root / file, lambda text, old=old, new=new: text.replace(old, new, 1)))
        yield


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
        ("config/recipes/scan.yaml", "count: 20}", "count: 19}", stages(STAGES, ("scan", "selflabel"), MINED)),
        ("evaluation/metrics/sizes.py", '"n": int(rows.sum()),', '"n": int(sum(rows)),', stages(("evaluate",), EVERY)),
        ("config/recipes/mixem.yaml", "comp_ent: 2.0", "comp_ent: 2.5", stages(STAGES, ("mixem",))),
        ("config/assigners.yaml", "finalists: 3\nkmeans_raw", "finalists: 4\nkmeans_raw",
         stages(("assign", "evaluate"), ("untrained", "simclr_base", "simclr"))),
        ("config/augmentations/digits.yaml", "degrees: 15", "degrees: 16",
         stages(STAGES, ("supervised", *CONTRAST), MINED)),
    ],
    ids=["method", "block", "count", "metric", "recipe", "assigner", "views"],
)  # fmt: skip
def test_an_edit_makes_exactly_this_stale(smoke, file, old, new, expected):
    """What the edit before left behind would be planned here as well."""
    with edited(smoke.root / file, lambda text: text.replace(old, new, 1)):
        assert planned(smoke) == expected


def test_edits_of_several_places_make_stale_what_each_of_them_does(smoke):
    """No two of them touch the same run, so what one makes stale beyond its own would be seen."""
    edits = [
        ("methods/scan.py", "views = 1", "views = 1 + 0"),
        ("evaluation/probes/linear.py", "= -1.0, 0, None", "= -2.0, 0, None"),
        ("evaluation/assigners/spectral.py", "return self.labels", "return +self.labels"),
        ("evaluation/assigners/kmeans_components.py", '"stable"', '"mergesort"'),
        ("config/protocols.yaml", "title: train+test / test", "title: both / test"),
    ]
    assigned = stages(("assign", "evaluate"), ("pixels", "mixem"), ("evaluate", "simclr"))
    with several(smoke, edits):
        assert planned(smoke) == stages(STAGES, ("scan", "selflabel")) | assigned


def test_edits_that_change_no_number_make_nothing_stale(smoke):
    edits = [
        ("evaluation/probes/knn.py", "k = min(settings.k", "k = 0 + min(settings.k"),  # a probe that no row asks for
        ("report/figures/history.py", "SIDE = 2.3", "SIDE = 2.4"),
        ("methods/mixem.py", "# [B, M]", "# shape [B, M]"),
        ("methods/mixem.py", '"""Eq. 4: minus', '"""Equation 4: minus'),
        ("config/recipes/mixem.yaml", "push: 5.6e-3", "push: 5.7e-3"),  # of a variant that no table asks for
        ("config/families/cifar.yaml", "lr: 0.06", "lr: 0.07"),  # no digit is a photograph
        ("pipeline/catalogue.py", "stands twice", "is there twice"),  # the ground floor computes no number
    ]
    with several(smoke, edits):
        assert planned(smoke) == set()


def test_a_changed_data_card_reruns_all_that_reads_it(smoke):
    card = smoke.root / "results/smoke/data/digits_200/card.json"
    with edited(card, lambda text: text.replace('"made_up": 0', "", 1).replace('"classes": 10', '"classes": 10 ', 1)):
        assert planned(smoke) == stages(STAGES, EVERY, MINED) - {("write_plan", "")}


def test_another_seed_adds_its_jobs_only(smoke):
    added = planned(smoke, "--config", "seeds=[0,1]")
    assert added == stages(STAGES, [f"{recipe} 1" for recipe in EVERY], ("mine", "simclr_base 1"))


def printed_command(done):
    """The command that a table printed to mend what is stale."""
    return re.search(r"make what is stale or missing anew:\n(.*--forcerun .*)", done.stdout + done.stderr)[1]


def cells(table):
    with open(table, newline="") as file:
        return {row["method"]: (row["digits (200) ACC"], row["notes"]) for row in csv.DictReader(file)}


def test_without_snakemakes_notes_the_records_name_stale_rows_and_what_mends_them(smoke):
    """A lost .snakemake folder blinds Snakemake to edited code; the table stage must not print what is stale. The one
    command that it prints, run as it stands, fills the row again and computes nothing else.
    """
    aside = smoke.root / "aside"
    shutil.move(smoke.root / ".snakemake", aside)
    table = smoke.root / TARGET
    before = table.read_text()
    edit = lambda text: text.replace('"stable"', '"mergesort"')  # noqa: E731
    try:
        with edited(smoke.root / "evaluation/assigners/kmeans_components.py", edit):
            done = made(smoke)
            assert done.returncode == 0, done.stderr
            said = done.stdout + done.stderr
            assert "full/mixem/seed0: stale, stage assign/kmeans_components ran with other code" in said
            found = cells(table)
            assert found["MIX'EM + K-means"][0] == ""
            assert "stale" in found["MIX'EM + K-means"][1]
            assert found["SimCLR + K-means"][0] != ""
            strict = made(smoke, "strict=true")
            assert strict.returncode == 1
            assert "runs cannot be printed" in strict.stdout + strict.stderr
            assert "strict=true" in printed_command(strict)
            command = printed_command(done)
            clusters = "results/smoke/runs/digits_200/full/mixem/seed0/clusters/kmeans_components.npz"
            assert command.endswith(f"{TARGET} --forcerun {clusters}")
            mended = smoke.run("bash", "-c", command)
            assert mended.returncode == 0, mended.stdout + mended.stderr
            jobs = re.findall(r"rule (\w+):", mended.stdout + mended.stderr)
            assert sorted(jobs) == ["assign", "evaluate", "tabulate_table2"]
            assert table.read_text() == before
        # The code is back; Snakemake has notes of the jobs that it just ran, and sees by itself that they are stale.
        assert made(smoke).returncode == 0
        assert table.read_text() == before
    finally:
        shutil.rmtree(smoke.root / ".snakemake")
        shutil.move(aside, smoke.root / ".snakemake")
        made(smoke)
    assert planned(smoke) == set()


def test_a_stale_base_is_what_the_command_makes_anew(smoke):
    """The base's own record says whether it is the base or the run that must be trained again."""
    changed = json.loads(smoke.plan("table2").read_text())
    base = smoke.root / "results/smoke/runs/digits_200/full/simclr_base/seed0/train.json"
    run = next(row for row in changed["rows"] if row["label"] == "SCAN")["runs"][0]
    run["expected"]["train"][0] = "another"
    training = next(source for source in run["sources"] if source["output"] == f"{run['folder']}/model.pt")
    training["fingerprint"] = "another"
    asked = smoke.root / "changed.json"
    asked.write_text(json.dumps(changed))

    def command():
        done = smoke.stage("report.tabulate", "--plan", str(asked), "--out", str(smoke.root / "changed.csv"))
        return printed_command(done)

    assert command().endswith("--forcerun results/smoke/runs/digits_200/full/scan/seed0/model.pt")
    fingerprint = json.loads(base.read_text())["records"]["train"]["fingerprint"]
    with edited(base, lambda text: text.replace(fingerprint, "x")):
        assert "--forcerun results/smoke/runs/digits_200/full/simclr_base/seed0/model.pt" in command()
        assert "scan/seed0" not in command()


def test_an_edited_probe_leaves_every_other_record_alone(smoke):
    """Editing one probe runs the evaluate jobs that use it, and in them computes that probe only."""
    folder = smoke.root / "results/smoke/runs/digits_200/full/simclr/seed0/metrics"
    probe, clustering = folder / "linear_mixem.json", folder / "clustering/kmeans.json"
    before = [path.stat().st_mtime_ns for path in (probe, clustering)]
    with edited(smoke.root / "evaluation/probes/linear.py", lambda text: text.replace("= -1.0, 0", "= -2.0, 0")):
        assert made(smoke).returncode == 0
        assert probe.stat().st_mtime_ns > before[0]
        assert clustering.stat().st_mtime_ns == before[1]
    assert made(smoke).returncode == 0
    assert clustering.stat().st_mtime_ns == before[1]
    assert planned(smoke) == set()


def test_records_hold_what_really_ran(smoke):
    folder = smoke.root / "results/smoke/runs/digits_200/full/mixem/seed0"
    stored = json.loads((folder / "metrics/clustering/kmeans_components.json").read_text())
    records = stored["records"]
    assert list(records) == ["prepare", "train", "embed", "assign/kmeans_components", "score/kmeans_components"]
    for record in records.values():
        assert {"code", "settings", "fingerprint", "versions", "lock", "seconds", "machine"} <= set(record)
    assert records["train"]["settings"]["recipe"]["settings"]["follow"] == "code"
    assert records["train"]["base_seed"] == 0
    assert stored["result"]["status"] == "ok"
    index = json.loads((folder / "metrics.json").read_text())["evaluations"]
    assert index["clustering/kmeans_components"] == records["score/kmeans_components"]["fingerprint"]
    assert set(index) == {f"clustering/{name}" for name in ("argmax", "kmeans_components", "sinkhorn", "sinkhorn_p")}


def test_bad_configuration_is_one_clear_error_before_any_job(smoke):
    done = smoke.snakemake(TARGET, "--config", "datasets=[digitz]")
    assert done.returncode == 1
    said = done.stdout + done.stderr
    assert "unknown data set 'digitz'; did you mean 'digits'?" in said
    assert "Traceback" not in said


def test_missing_data_files_stop_before_any_training_and_cost_the_table_that_was_asked_for(smoke):
    words = ("--config", "datasets=[mnist]", "tables=[table2,pixels]", "results=results/other")
    done = smoke.snakemake("results/other/table2.csv", *words)
    assert done.returncode == 1
    said = done.stdout + done.stderr
    assert "set BENCH_DATA_ROOT" in said
    assert "rule train" not in said
    assert "results/other/table2.csv was not made" in said
    assert "results/other/pixels.csv was not made" not in said


def test_cluster_jobs_do_not_rewrite_the_plan(smoke):
    """Only the main process writes plan files: a job that reads an edited configuration must not change them."""
    plans = smoke.root / "results/smoke/.plan"
    before = {path: path.read_text() for path in plans.iterdir()}
    done = smoke.snakemake(TARGET, "--dry-run", "--mode", "remote", "--config", "seeds=[0,1]", "suite=smoke")
    assert done.returncode == 0, done.stderr
    assert {path: path.read_text() for path in plans.iterdir()} == before


def test_results_csv_follows_every_command_and_is_a_target(smoke):
    out, suite = smoke.root / "results/smoke/results.csv", smoke.root / "results/smoke/.suite.json"
    before = out.read_text()
    with open(out, newline="") as file:
        lines = list(csv.DictReader(file))
    with open(smoke.root / TARGET, newline="") as file:
        table = {(row["recipe"], row["assigner"]): row["digits (200) ACC"] for row in csv.DictReader(file)}
    found = {(line["recipe"], line["name"]): line["value"] for line in lines if line["metric"] == "ACC"}
    assert {key: f"{100 * float(value):.2f}" for key, value in found.items()} == {
        key: value for key, value in table.items() if value
    }
    assert json.loads(suite.read_text())["suite"] == "smoke"
    out.unlink()
    done = smoke.snakemake("results/smoke/results.csv")
    said = done.stdout + done.stderr
    assert (done.returncode, "1 of 1 steps" in said) == (0, True), said
    assert out.read_text() == before
    done = smoke.snakemake("all", "--dry-run", "--forcerun", "collect", "--config", "track=false")
    planned = set(re.findall(r"rule (\w+):", done.stdout + done.stderr))
    assert planned - {"report"} == {"collect", "all"}  # the page is made where no test before this one asked for it


def test_a_figure_is_drawn_from_finished_runs(smoke):
    """The .pdf is made with the .png; a figure that cannot be drawn is refused before any job."""
    figure = "results/smoke/figures/digits_history.png"
    done = smoke.snakemake(figure)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 steps" in done.stdout + done.stderr
    assert (smoke.root / figure).read_bytes().startswith(b"\x89PNG")
    assert (smoke.root / figure).with_suffix(".pdf").read_bytes().startswith(b"%PDF")
    done = smoke.snakemake(figure.replace("digits_history", "gallery-mixen-argmax"), "--dry-run")
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert "unknown recipe in figure 'gallery-mixen-argmax': 'mixen'; did you mean 'mixem'?" in said
    assert "Traceback" not in said
