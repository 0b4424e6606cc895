"""Claims judged on run folders: which figure goes where, what is left out, and what is said beside it."""

import csv
import io
import json
import sys

import pytest

from pipeline.record import StageError
from report.claims import judge, main, to_csv, to_markdown
from tests.report.folders import ACC, run

LOSS = {"title": "loss", "scale": 1, "digits": 2, "better": "lower"}
OURS, THEIRS = [0.80, 0.82, 0.83], [0.70, 0.73, 0.72]


def runs(folder, name, values, **more):
    return [run(folder / f"{name}{seed}", seed, value, **more) for seed, value in enumerate(values)]


def row(name, found):
    return {"label": name, "recipe": "r", "assigner": "kmeans", "dataset": "d", "protocol": "full", "runs": found}


def figure(name, metric="ACC", minus=None):
    return {"row": name, "label": name, "metric": metric, "minus": minus}


def part(first, second=None):
    return {"metrics": ["ACC"], "first": first, "second": second}


def case(parts, **more):
    return {
        "claim": "p.c", "paper": "p", "says": "it is better", "place": "Table 1", "disagrees": "", "kind": "better",
        "dataset": "d", "protocol": "full", "stand_in": "", "why_not": "", "parts": parts, "reported": [], **more,
    }  # fmt: skip


def plan(rows, *cases):
    return {
        "name": "claims", "suite": "s", "metrics": {"ACC": ACC, "loss": LOSS}, "datasets": {"d": "Data"},
        "protocols": {"full": "train+test / test"}, "papers": {"p": "Paper"},
        "rows": {name: row(name, found) for name, found in rows.items()}, "cases": list(cases),
    }  # fmt: skip


def two(tmp_path, ours=OURS, theirs=THEIRS, **more):
    return {"a": runs(tmp_path, "a", ours, **more), "b": runs(tmp_path, "b", theirs)}


def only(found):
    (line,) = csv.DictReader(io.StringIO(to_csv(judge(found))))
    return line


def test_a_line_holds_both_figures_the_effect_and_its_interval(tmp_path):
    line = only(plan(two(tmp_path), case([part(figure("a"), figure("b"))])))
    shown = ["claim", "place", "suite", "dataset", "protocol", "metric", "first", "second"]
    assert [line[key] for key in shown] == ["p.c", "Table 1", "s", "Data", "train+test / test", "ACC", "a", "b"]
    # differences 10, 9, 11: mean 10, s 1, t(.975, 2) = 4.3027
    numbers = ["first_mean", "second_mean", "n", "effect", "low", "high", "holds_if", "verdict"]
    assert [line[key] for key in numbers] == ["81.667", "71.667", "3", "10", "7.5159", "12.484", "> 0", "supported"]


def test_the_other_way_round_is_contradicted(tmp_path):
    assert only(plan(two(tmp_path), case([part(figure("b"), figure("a"))])))["verdict"] == "contradicted"


def test_the_metric_says_which_end_is_better(tmp_path):
    found = {
        name: [run(tmp_path / f"{name}{seed}", seed, 0.5, loss=loss + seed / 10) for seed in range(3)]
        for name, loss in (("a", 1.0), ("b", 2.0))
    }
    line = only(plan(found, case([part(figure("a", "loss"), figure("b", "loss"))])))
    assert [line["effect"], line["holds_if"], line["verdict"]] == ["-1", "< 0", "supported"]


def test_stale_and_missing_results_are_not_there(tmp_path):
    found = two(tmp_path)
    found["a"][2] = run(tmp_path / "a2", 2, 0.83, fingerprint="old")
    line = only(plan(found, case([part(figure("a"), figure("b"))])))
    assert [line["n"], line["verdict"], line["second_mean"]] == ["2", "undecided", "71.5"]
    assert "fewer than 3 seeds" in line["notes"]
    assert "a, seed 2: stale, stage train ran with other settings" in line["notes"]
    found["b"] = [{**entry, "folder": f"{tmp_path}/nowhere{entry['seed']}", "sources": []} for entry in found["b"]]
    line = only(plan(found, case([part(figure("a"), figure("b"))])))
    assert [line["n"], line["verdict"], line["effect"], line["first_mean"]] == ["0", "not run", "", "81"]
    assert len(judge(plan(found, case([part(figure("a"), figure("b"))]))).problems) == 4


def test_a_figure_may_be_a_difference(tmp_path):
    found = two(tmp_path) | {"c": runs(tmp_path, "c", [0.1, 0.1, 0.1])}
    less = figure("a", minus=figure("b"))
    line = only(plan(found, case([part(less)], kind="value", **{"from": 9.5, "to": 20})))
    assert [line["first"], line["effect"], line["verdict"]] == ["a less b", "10", "undecided"]
    line = only(plan(found, case([part(less, figure("c"))], kind="unchanged", within=3)))
    assert [line["effect"], line["holds_if"], line["verdict"]] == ["0", "-3 to 3", "supported"]
    found["b"] = found["b"][:2]
    assert only(plan(found, case([part(less)], kind="value", **{"from": 5})))["n"] == "2"


def test_a_claim_of_several_things_shows_the_one_that_decides(tmp_path):
    found = two(tmp_path) | {"c": runs(tmp_path, "c", [0.85, 0.88, 0.87]), "e": runs(tmp_path, "e", [0.82, 0.86, 0.84])}
    parts = [part(figure("a"), figure(name)) for name in ("b", "e", "c")]
    line = only(plan(found, case(parts)))
    assert [line["verdict"], line["second"], line["parts"]] == ["contradicted", "c", "1 of 3 supported"]
    assert only(plan(found, case(parts[:2])))["second"] == "e"


def test_a_diverged_run_has_failed_as_a_degenerate_one_has(tmp_path):
    diverged = {"status": "diverged", "diverged": {"epoch": 3, "term": "push"}}
    found = {
        "a": [
            run(tmp_path / "a0", 0, 0.1),
            run(tmp_path / "a1", 1, 0.9, train=diverged),
            run(tmp_path / "a2", 2, 0.9, train={"at_chance": True}),
        ]
    }
    nothing = part(figure("a", None)) | {"metrics": []}
    line = only(plan(found, case([nothing], kind="degenerate", **{"is": True})))
    assert [line["n"], line["effect"], line["verdict"]] == ["3", "1", "supported"]
    assert "a, seed 1: diverged in epoch 3, term push" in line["notes"]
    found["a"][1] = run(tmp_path / "a1", 1, 0.9)
    assert only(plan(found, case([nothing], kind="degenerate", **{"is": True})))["verdict"] == "undecided"
    found["a"][1] = {**found["a"][1], "folder": f"{tmp_path}/nowhere", "sources": []}
    assert only(plan(found, case([nothing], kind="degenerate", **{"is": True})))["n"] == "2"


def test_a_stand_in_never_counts_as_the_papers(tmp_path):
    parts = [part(figure("a"), figure("b"))]
    own = {"dataset": "CIFAR10", "metric": "ACC", "first": 81.0, "second": 80.5, "than": "b"}
    more = case(parts, stand_in="data set", reported=[own], disagrees="its table has less")
    found = plan(two(tmp_path), case(parts), more, case([], why_not="no recipe of it"))
    lines, text = judge(found).lines, to_markdown(found, judge(found))
    assert [line["verdict"] for line in lines] == ["supported", "supported", "not run"]
    assert "| Paper | its own data | 1 | 0 | 0 | 1 |" in text
    assert "| Paper | stand-ins | 1 | 0 | 0 | 0 |" in text
    assert "Data, train+test / test (stand-in: data set)" in text
    assert lines[1]["paper"] == "CIFAR10 ACC 81 against 80.5 (b)"
    assert "**The paper disagrees: its table has less**" in text
    assert lines[2]["notes"] == "no recipe of it"


def test_the_stage_writes_both_files_and_a_partial_one_apart(tmp_path, monkeypatch):
    found = plan(two(tmp_path), case([part(figure("a"), figure("b"))]))
    (tmp_path / "claims.json").write_text(json.dumps(found))
    out = tmp_path / "out/claims.csv"

    def stage(*words):
        monkeypatch.setattr(sys, "argv", ["claims", "--plan", f"{tmp_path}/claims.json", "--out", str(out), *words])
        main()
        return sorted(path.name for path in out.parent.iterdir())

    assert stage("--partial") == ["claims.partial.csv", "claims.partial.md"]
    assert stage("--strict") == ["claims.csv", "claims.md"]
    assert out.read_text().splitlines()[1].startswith("p.c,Table 1,it is better,s,Data")
    (tmp_path / "a0/metrics/clustering/kmeans.json").unlink()
    with pytest.raises(StageError, match=r"claims.csv: 1 runs cannot be read \(named above\), and strict is set"):
        stage("--strict")
    assert "claims.partial.csv" in stage("--partial", "--strict")
