"""Cells against the paper's: verdicts, cells that are lost, errata."""

from report.layouts import to_markdown
from report.tables import build
from tests.report.folders import plan, read, row, run


def test_verdicts_compare_cell_by_cell(tmp_path):
    runs = [run(tmp_path / str(s), s, acc) for s, acc in enumerate([0.50, 0.52])]
    reported = [
        {"table": "x", "method": m, "dataset": "Data", "setting": "", "metric": "ACC", "mean": str(mean), "std": "",
         "unit": "fraction", "source": "p", "note": ""}
        for m, mean in (("a", 0.52), ("b", 0.4), ("c", 0.7))
    ]  # fmt: skip
    rows = [
        row("in the band", runs, reported="a", bands={"Data": {"ACC": 1.0}}),
        row("over it", runs, reported="b", bands={"Data": {"ACC": 1.0}}),
        row("under it", runs, reported="c", bands={"Data": {"ACC": 1.0}}),
        row("no band", runs, reported="a"),
        {"label": "paper only", "runs": [], "reported": "a"},
        row("ours only", runs),
    ]
    table = build(plan(rows, reported=reported, verdicts=True))
    found = read(table)
    verdicts = [line["Data ACC verdict"] for line in found]
    assert verdicts == ["within", "above", "below", "no verdict", "not run", ""]
    assert [line["Data ACC difference"] for line in found] == ["-1.0", "11.0", "-19.0", "-1.0", "", ""]
    assert "[52.0] within" in to_markdown(table)
    assert "Data ACC verdict" not in read(build(plan(rows, reported=reported)))[0]


def test_the_papers_spread_decides_where_it_is_known_and_lost_cells_are_named(tmp_path):
    """Ours: 50 and 52 percent, so s^2 / n = 1; the paper's with s = 2 of 4 runs as well: 2 SE = 2.83."""
    runs = [run(tmp_path / str(s), s, acc) for s, acc in enumerate([0.50, 0.52])]
    reported = [
        {"table": "x", "method": m, "dataset": "Data", "setting": "", "metric": "ACC", "mean": mean, "std": std,
         "unit": "percent", "source": source, "note": ""}
        for m, mean, std, source in (
            ("near", "53.8", "2", "p"), ("far", "53.9", "2", "p"), ("bare", "53.8", "", "p"),
            ("lost", "", "", "missing"), ("dash", "", "", "p"),
        )
    ]  # fmt: skip
    rows = [
        row("near", runs, reported="near"),
        row("far", runs, reported="far", bands={"Data": {"ACC": 50.0}}),
        row("one run of the paper", runs, reported="far", reported_runs=1),
        row("no spread", runs, reported="bare"),
        row("one run of ours", runs[:1], reported="near"),
        row("lost", runs, reported="lost"),
        row("a dash", runs, reported="dash"),
    ]
    table = build(plan(rows, reported=reported, verdicts=True, reported_runs=4))
    verdicts = [line["Data ACC verdict"] for line in read(table)]
    assert verdicts == ["within", "below", "within", "no verdict", "no verdict", "paper lost", ""]
    assert "[paper lost]" in to_markdown(table)
    assert "paper lost" not in to_markdown(build(plan(rows, reported=reported)))
    only_lost = build(plan(rows[5:6], reported=reported, verdicts=True))
    assert [line["Data ACC verdict"] for line in read(only_lost)] == ["paper lost"]


def test_errata_stand_below_a_table_that_shows_their_cells(tmp_path):
    value = {"table": "x", "method": "m", "dataset": "Data", "setting": "", "metric": "ACC", "mean": "65.6", "std": "",
             "unit": "percent", "source": "p", "note": ""}  # fmt: skip
    wrong = {"method": "m", "dataset": "Data", "metric": "ACC", "says": "is another's", "evidence": "Table 1"}
    rows = [{"label": "theirs", "runs": [], "reported": "m"}, row("ours", [run(tmp_path / "a", 0, 0.5)])]

    def note(*errata, reported=(value,)):
        return build(plan(rows, reported=list(reported), errata=list(errata))).note

    assert "Erratum, theirs, Data ACC: is another's (Table 1)." in note(wrong)
    assert "Erratum, theirs, Data: " in note(wrong | {"metric": ""})
    assert "Erratum" not in note(wrong | {"metric": "NMI"}) + note(wrong | {"method": "n"}) + note(wrong, reported=())
    assert "Erratum" not in note(wrong | {"dataset": "Other"})
