"""Published results, and the comparison of others with them."""

import csv
import json

import pytest

from pipeline import record
from pipeline.record import StageError, write_json
from report import publish, reference, verify
from report.verify import BITS, DIFFERENT, DIGITS, NOISE, compared, judged
from tests.report.folders import probed, run


def results(folder, *runs, probes=(), suite="mine"):
    """A results folder whose newest plan expects these runs."""
    rows = [{"recipe": "r", "assigner": "kmeans", "metrics": ["ACC"], "runs": list(runs)}]
    rows += [{"recipe": "r", "probe": "probe", "metrics": ["ACC"], "runs": list(probes)}] if probes else []
    (folder / ".plan").mkdir(parents=True)
    (folder / ".plan/results-1.json").write_text(json.dumps({"name": "results", "rows": rows}))
    write_json(folder / ".suite.json", {"suite": suite})
    return folder


def dirty(folder, found):
    """The run's record of the score says in which state the sources were."""
    path = folder / "metrics/clustering/kmeans.json"
    stored = json.loads(path.read_text())
    stored["records"]["score/kmeans"] |= {"stage": "score", **found}
    path.write_text(json.dumps(stored))


def line(value, seed=0, metric="ACC", status="ok", **more):
    """A line of a reference."""
    own = {"dataset": "d", "protocol": "full", "recipe": "r", "kind": "assigner", "name": "kmeans", "metric": metric}
    own |= {"seed": str(seed), "value": str(value), "seconds": "1", "fingerprint": "f", "status": status}
    return own | dict.fromkeys(reference.PLACE, "") | more


def published(out):
    with open(out, newline="") as file:
        return list(csv.DictReader(file))


def test_publish_writes_every_number_with_where_it_comes_from(tmp_path, capsys):
    made = run(tmp_path / "r/a", 10, 0.1 + 0.2), run(tmp_path / "r/b", 2, 0.5)
    dirty(tmp_path / "r/a", {"git": {"commit": "c0ffee", "dirty": False}, "processor": "AMD avx2",
                             "versions": {"torch": "2", "numpy": "1"}})  # fmt: skip
    folder, out = results(tmp_path / "r", *made, probes=[probed(tmp_path / "r/p", 2, 0.9)]), tmp_path / "mine.csv"
    publish.main(["--results", str(folder), "--out", str(out)])
    found = published(out)
    assert "3 runs" not in capsys.readouterr().out  # seed 2 is one run, of an assigner and of a probe
    accuracies = [row for row in found if row["metric"] == "ACC"]
    assert [(row["kind"], row["seed"], row["value"]) for row in accuracies] == [
        ("assigner", "2", "0.5"), ("probe", "2", "0.9"), ("assigner", "10", "0.30000000000000004"),
    ]  # fmt: skip
    assert [accuracies[2][key] for key in ("fingerprint", "commit", "processor", "versions")] == [
        "s", "c0ffee", "AMD avx2", "torch=2 numpy=1",
    ]  # fmt: skip
    assert reference.read_reference(out) == found
    before = out.read_bytes()
    publish.main(["--results", str(folder), "--out", str(out)])
    assert out.read_bytes() == before


def test_the_reference_is_named_by_the_suite(tmp_path, monkeypatch):
    monkeypatch.setattr(publish, "REFERENCE", tmp_path / "reference")
    publish.main(["--results", str(results(tmp_path / "r", run(tmp_path / "r/a", 0, 0.5)))])
    assert [path.name for path in (tmp_path / "reference").iterdir()] == ["mine.csv"]


@pytest.mark.parametrize("how", ["missing", "stale", "failed", "edited", "no plan"])
def test_what_is_not_finished_or_not_what_ran_is_not_published(tmp_path, how):
    folder = tmp_path / "r"
    made = run(folder / "a", 0, 0.5) if how != "failed" else run(folder / "a", 0, 0.5, status="failed", reason="x")
    if how == "missing":
        (folder / "a/metrics/clustering/kmeans.json").unlink()
    if how == "stale":
        made["expected"]["train"] = ["another", "c"]
    if how == "edited":
        dirty(folder / "a", {"git": {"commit": "c0ffee", "dirty": True}})
    results(folder, made)
    if how == "no plan":
        (folder / ".plan/results-1.json").unlink()
    said = {"edited": "edited sources, so no commit", "no plan": "no finished suite"}.get(how, "1 results cannot be")
    with pytest.raises(StageError, match=said):
        publish.main(["--results", str(folder), "--out", str(tmp_path / "out.csv")])
    assert not (tmp_path / "out.csv").exists()


def test_a_diverged_run_is_published_without_a_number_and_is_the_same_again(tmp_path):
    made = run(tmp_path / "r/a", 0, 0.5, train={"status": "diverged", "diverged": {"epoch": 3, "term": "push"}})
    out = tmp_path / "out.csv"
    publish.main(["--results", str(results(tmp_path / "r", made)), "--out", str(out)])
    (row,) = published(out)
    assert (row["metric"], row["value"], row["status"]) == ("", "", "diverged")
    assert compared([row], [row])[1] == {BITS: 1}
    assert compared([row], [row | {"status": "not possible"}])[1] == {DIFFERENT: 1}


def cell(*values):
    return {seed: line(value, seed) for seed, value in enumerate(values)}


@pytest.mark.parametrize(
    ("metric", "mine", "theirs", "level"),
    [
        ("ACC", [0.5, 0.75], [0.5, 0.75], BITS),
        ("ACC", [0.5], [0.5, 0.9], BITS),  # the seeds that both have
        ("ACC", [0.500001], [0.5], DIGITS),  # 50.00 in a table
        ("ACC", [0.5001], [0.5], DIFFERENT),  # one seed: nothing is known of its noise
        ("RRE", [0.0500001], [0.05], DIGITS),
        ("inertia", [1000.0001], [1000.0], DIGITS),  # in no table: six significant digits
        ("inertia", [1001.0], [1000.0], DIFFERENT),
        ("seen/ACC", [0.500001], [0.5], DIGITS),
        ("ACC", [0.60, 0.70, 0.65], [0.62, 0.66, 0.70], NOISE),
        ("ACC", [0.60, 0.61, 0.62], [0.80, 0.81, 0.82], DIFFERENT),
        ("ACC", [0.7, 0.8], [0.7, 0.7], NOISE),  # difference .05, twice the error .1
        ("ACC", [0.7, 0.7], [0.8, 0.8], DIFFERENT),
    ],
)
def test_levels(metric, mine, theirs, level):
    """Whichever side is whose; the noise is |difference| <= 2 sqrt(s1^2/n1 + s2^2/n2)."""
    assert judged(metric, cell(*mine), cell(*theirs)) == level
    assert judged(metric, cell(*theirs), cell(*mine)) == level


def test_a_number_beside_a_failure_is_different():
    failed = {0: line("", metric="", status="diverged")}
    assert judged("ACC", cell(0.5), failed) == judged("ACC", failed, cell(0.5)) == DIFFERENT


def test_what_is_told(capsys):
    ours = [line(0.5), line(0.4, metric="NMI"), line(1, recipe="here"), line(0.7, dataset="e")]
    theirs = [line(0.5), line(0.3, metric="NMI", processor="Intel avx512f", fingerprint="g"), line(1, recipe="there")]
    told, counts = compared(ours, theirs)
    assert counts == {BITS: 1, DIFFERENT: 1}
    assert told == [
        "different: d full r assigner kmeans NMI: seed 0: 0.4 here, 0.3 published",
        "results of other code, settings or data than published: 1",
        "processor: unknown here, Intel avx512f published",
        "2 cells compared: 1 same bits, 0 same printed digits, 0 within the noise of seeds, 1 different; 2 only here, "
        "1 only published",
    ]
    with pytest.raises(StageError, match="no cell of these results is in the reference"):
        compared(ours, [line(0.5, recipe="there")])


def test_verify_ends_with_the_counts_and_the_status(tmp_path, capsys):
    folder, out = results(tmp_path / "r", run(tmp_path / "r/a", 0, 0.5)), tmp_path / "mine.csv"
    publish.main(["--results", str(folder), "--out", str(out)])
    verify.main(["--results", str(folder), "--reference", str(out)])
    assert capsys.readouterr().out.splitlines()[-1].startswith("3 cells compared: 3 same bits, 0 same printed")
    out.write_text(out.read_text().replace(",0.5,", ",0.75,"))
    with pytest.raises(SystemExit) as end:
        verify.main(["--results", str(folder), "--reference", str(out)])
    assert end.value.code == 1
    assert "1 different" in capsys.readouterr().out.splitlines()[-1]


@pytest.mark.parametrize(("text", "said"), [("a,b\n1,2\n", "columns a, b found, dataset, "), ("", "columns  found"),
                                            (None, "not found")])  # fmt: skip
def test_a_file_that_is_no_reference_is_refused(tmp_path, text, said):
    path = tmp_path / "x.csv"
    if text is not None:
        path.write_text(text)
    with pytest.raises(StageError, match=said):
        reference.read_reference(path)


def test_a_line_that_is_no_result_is_named(tmp_path):
    reference.write_reference([line("half")], tmp_path / "x.csv")
    with pytest.raises(StageError, match=r"x.csv, line 2: no result"):
        reference.read_reference(tmp_path / "x.csv")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("vendor_id\t: AuthenticAMD\nflags\t\t: fpu avx avx2\n", "AuthenticAMD avx2"),
        ("vendor_id\t: GenuineIntel\nflags\t: avx avx2 avx512f\nbugs\t: a:b\n", "GenuineIntel avx512f"),
        ("vendor_id : Other\n", "Other"),
    ],
)
def test_the_kind_of_processor(tmp_path, text, kind):
    (tmp_path / "cpuinfo").write_text(text)
    assert record.processor(tmp_path / "cpuinfo") == kind
    assert record.processor(tmp_path / "none")  # where the system does not tell, what Python knows
    assert record.surroundings()["processor"] == record.processor()
