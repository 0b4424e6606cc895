"""selection.csv from run folders: what each criterion reads, what is left out, and tables of a chosen run."""

import csv
import hashlib
import io
import json
import sys

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score, silhouette_samples

from report.criteria import MOST, agreement, instance_entropy, silhouette
from report.layouts import to_markdown as table_to_markdown
from report.selection import main, selected, to_csv, to_markdown
from report.tables import build
from tests.report.folders import plan as table_plan
from tests.report.folders import row as table_row
from tests.report.folders import run, store

ROWS = np.arange(4, 34)
ENTRY = {"algorithm": "kmeans", "features": "h", "normalise": True}


def files(folder, **arrays):
    path = folder
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **arrays)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest()}


def finished(folder, seed, acc, loss=1.0, p=True, entry=ENTRY, **result):
    """A run folder with history, features and clusters, and its entry in a plan."""
    made, generator = run(folder, seed, acc), np.random.default_rng(seed)
    history = "" if loss is None else f"1,9.0\n2,{loss}\n"
    (folder / "history.csv").write_text(("epoch,total\n" if loss is not None else "epoch\n") + history)
    digest = hashlib.sha256((folder / "history.csv").read_bytes()).hexdigest()
    h = generator.normal(size=(40, 5)) + np.arange(40)[:, None] % 3 * (1 + seed)
    arrays = {"h": h} | ({"p": generator.dirichlet(np.ones(3), 40)} if p else {})
    ids = (np.arange(30) + 1) % 3
    ids[: 3 * seed] = 0
    records = {
        "train": {"fingerprint": "f", "code": "c", "status": "ok", "training_seconds": 7.5,
                  "files": {"history.csv": digest}},
        "embed": {"fingerprint": "e", "code": "c", "files": files(folder / "features.npz", **arrays)},
        "assign/kmeans": {"fingerprint": "a", "code": "c",
                          "settings": {"protocol": {"fit": ["test"]}, "assigner": entry},
                          "files": files(folder / "clusters" / "kmeans.npz", rows=ROWS, clusters=ids)},
        "score/kmeans": {"fingerprint": "s", "code": "c"},
    }  # fmt: skip
    scores = {} if acc is None else {"ACC": acc}
    store(
        folder,
        "clustering/kmeans",
        {"status": "ok", "occupied_clusters": 3, "degenerate": False, **scores, **result},
        records,
    )
    return made


def plan(runs, **more):
    row = {"label": "M", "recipe": "r", "assigner": "kmeans", "runs": runs}
    return {"name": "selection", "scale": 100, "datasets": {"d": "Data", "e": "Other"},
            "protocols": {"full": "train+test / test"}, "rows": [row], **more}  # fmt: skip


def lines(runs):
    found = {line["criterion"]: line for line in csv.DictReader(io.StringIO(to_csv(selected(plan(runs))[0])))}
    assert list(found) == ["own loss", "silhouette", "agreement", "entropy"]
    return found


def three(tmp_path, losses=(2.0, 1.0, 3.0), accuracy=(0.8, 0.9, 0.7)):
    return [
        finished(tmp_path / f"seed{s}", s, a, loss) for s, (a, loss) in enumerate(zip(accuracy, losses, strict=True))
    ]


def test_the_lowest_loss_of_the_last_epoch_names_the_run(tmp_path):
    line = lines(three(tmp_path))["own loss"]
    shown = ["dataset", "protocol", "method", "recipe", "assigner", "row", "n", "chosen_seed", "verdict"]
    assert [line[key] for key in shown] == [
        "Data", "train+test / test", "M", "r", "kmeans", "M, lowest own loss of 3", "3", "1", "undecided",
    ]  # fmt: skip
    assert [line[key] for key in ("spearman", "chosen", "mean", "best", "gain")] == ["1", "90", "80", "90", "10"]
    assert line["spearman_low"] == ""  # three seeds have a correlation and no interval


def test_criteria_are_those_of_independent_computations(tmp_path):
    runs = three(tmp_path)
    scores = {}
    for seed in range(3):
        folder = tmp_path / f"seed{seed}"
        with np.load(folder / "features.npz") as held, np.load(folder / "clusters" / "kmeans.npz") as assigned:
            h, p, ids = held["h"][ROWS], held["p"][ROWS], assigned["clusters"]
        unit = h / np.sqrt((h * h).sum(1, keepdims=True))
        entropy = sum(-value * np.log(value) for each in p for value in each) / len(p)
        scores[seed] = silhouette_samples(unit, ids).mean(), -entropy, ids
    found = lines(runs)
    for place, name in ((0, "silhouette"), (1, "entropy")):
        best = max(scores, key=lambda seed: scores[seed][place])
        assert found[name]["chosen_seed"] == str(best), name
    agree = {s: np.mean([adjusted_rand_score(scores[s][2], scores[o][2]) for o in scores if o != s]) for s in scores}
    assert found["agreement"]["chosen_seed"] == str(max(agree, key=agree.get))
    assert agreement({s: scores[s][2] for s in scores}) == pytest.approx(agree)


def test_odd_inputs_have_no_criterion_instead_of_a_number():
    x, p = np.random.default_rng(0).normal(size=(6, 2)), np.eye(3)
    assert silhouette(x, np.zeros(6)) is None
    assert silhouette(x, np.arange(6)) is None
    assert agreement({3: np.zeros(5)}) == {}
    assert instance_entropy(p) == 0
    assert instance_entropy(np.full((2, 4), 0.25)) == pytest.approx(np.log(4))
    many = np.random.default_rng(0).normal(size=(MOST + 100, 1)) + np.arange(MOST + 100)[:, None] % 2 * 50
    assert silhouette(many, np.arange(len(many)) % 2) > 0.9


def test_methods_without_loss_or_probabilities_lack_those_criteria_alone(tmp_path):
    found = lines([finished(tmp_path / f"seed{s}", s, 0.5 + s / 10, loss=None, p=False) for s in range(3)])
    assert [line["n"] for line in found.values()] == ["0", "3", "3", "0"]
    assert found["own loss"]["verdict"] == found["entropy"]["verdict"] == "not run"
    assert found["own loss"]["chosen"] == ""


def test_probabilities_are_clustered_but_looked_at_in_h(tmp_path):
    entry = {"algorithm": "argmax", "features": "p"}
    found = lines([finished(tmp_path / f"seed{s}", s, 0.5 + s / 10, entry=entry) for s in range(3)])
    same = lines([finished(tmp_path / f"other/seed{s}", s, 0.5 + s / 10) for s in range(3)])
    assert found["silhouette"] == same["silhouette"]


def test_a_damaged_run_costs_itself_and_is_named(tmp_path):
    runs = three(tmp_path)
    (tmp_path / "seed1" / "features.npz").write_bytes(b"no")
    (tmp_path / "seed2" / "metrics" / "clustering" / "kmeans.json").unlink()
    said, problems = selected(plan(runs))
    assert [line["n"] for line in said] == ["1", "1", "0", "1"]
    assert len(problems) == 2
    assert "seed 1: unreadable" in said[0]["notes"]
    assert "seed 2: not run" in said[0]["notes"]


def test_without_labels_there_is_nothing_to_judge_by(tmp_path):
    runs = [finished(tmp_path / f"seed{s}", s, 0.5) for s in range(2)]
    for s in range(2):
        path = tmp_path / f"seed{s}/metrics/clustering/kmeans.json"
        stored = json.loads(path.read_text())
        del stored["result"]["ACC"]
        store(tmp_path / f"seed{s}", "clustering/kmeans", stored["result"], stored["records"])
    assert {line["verdict"] for line in selected(plan(runs))[0]} == {"not run"}


def test_data_sets_and_protocols_are_never_mixed(tmp_path):
    runs = three(tmp_path)
    runs[2] = runs[2] | {"dataset": "e"}
    assert [(line["dataset"], line["n"]) for line in selected(plan(runs))[0]][::4] == [("Data", "2"), ("Other", "1")]


def test_the_stage_writes_both_files_or_the_partial_ones(tmp_path, monkeypatch):
    asked, out = tmp_path / "selection.json", tmp_path / "selection.csv"
    asked.write_text(json.dumps(plan(three(tmp_path))))
    monkeypatch.setattr(sys, "argv", ["x", "--plan", str(asked), "--out", str(out), "--partial"])
    main()
    assert not out.exists()
    assert out.with_suffix(".partial.md").exists()
    monkeypatch.setattr(sys, "argv", ["x", "--plan", str(asked), "--out", str(out)])
    main()
    assert out.exists()
    assert not out.with_suffix(".partial.md").exists()
    assert "| lowest own loss | 0 | 0 | 1 | 0 |" in to_markdown(selected(plan(three(tmp_path)))[0])


def test_a_chosen_run_stands_in_a_table_under_its_own_name_and_beats_no_mean(tmp_path):
    runs = three(tmp_path)
    table = build(table_plan([table_row("M", runs), table_row("M", runs, lowest_own_loss=True)]))
    mean, chosen = table.rows
    assert [mean.label, chosen.label] == ["M", "M, lowest own loss of 3"]
    assert mean.cells["d", "ACC"].values == [80.0, 90.0, 70.0]
    assert chosen.cells["d", "ACC"].values == [90.0]
    assert mean.cells["d", "ACC"].rank == 1
    assert chosen.cells["d", "ACC"].rank is None
    assert "lowest own loss of 3" in table_to_markdown(table)


def test_a_chosen_run_is_one_of_those_that_can_be_read(tmp_path):
    runs = three(tmp_path)
    (tmp_path / "seed1" / "history.csv").write_text("epoch,total\n")
    (row,) = build(table_plan([table_row("M", runs, lowest_own_loss=True)])).rows
    assert row.label == "M, lowest own loss of 2"
    assert row.cells["d", "ACC"].values == [80.0]
    assert any("unreadable" in note for note in row.notes)
    runs = [finished(tmp_path / f"none/seed{s}", s, 0.5, loss=None) for s in range(2)]
    (row,) = build(table_plan([table_row("M", runs, lowest_own_loss=True)])).rows
    assert row.label == "M, lowest own loss of 0"
    assert row.cells["d", "ACC"].values == []
