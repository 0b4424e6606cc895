"""Columns and rows that no data set of a table can fill are left out."""

import pytest

from pipeline import catalogue
from pipeline.plan import Plan
from report.layouts import to_csv
from report.tables import build
from tests.report.folders import plan, read, reported, row, run

ROWS = ("ours and the paper's", "the paper's alone", "of another data set")


@pytest.fixture
def made(tmp_path):
    """A table of one data set beside a paper's values for another."""

    def table(**more):
        rows = [
            row(ROWS[0], [run(tmp_path / "a", 0, 0.5)], reported="A"),
            {"label": ROWS[1], "runs": [], "reported": "B"},
            row(ROWS[2], []),
        ]
        values = [reported("A", "79.7"), reported("B", "56.1")]
        return build(plan(rows, reported=values, note="always", reported_note="of the paper", **more))

    return table


def test_with_columns_of_the_paper(made):
    table = made(paper_columns=True)
    assert [line["method"] for line in read(table)] == [*ROWS[:2]]
    assert [line["CIFAR10 ACC paper"] for line in read(table)] == ["79.7", "56.1"]
    assert table.note == "always\nof the paper"


def test_without_them(made):
    table = made(paper_columns=False)
    assert table.datasets == {"d": "Data"}
    assert "CIFAR10" not in to_csv(table)
    assert [line["method"] for line in read(table)] == [ROWS[0]]
    assert table.note == "always"  # a note on values that are not shown says nothing


def test_values_of_a_paper_for_our_own_data_set_need_no_key(tmp_path):
    rows = [
        row("ours", [run(tmp_path / "a", 0, 0.5)], reported="A"),
        {"label": "theirs", "runs": [], "reported": "B"},
    ]
    values = [reported("A", "79.7", dataset="Data"), reported("B", "56.1", dataset="Data")]
    table = build(plan(rows, reported=values, reported_note="of the paper"))
    assert [line["Data ACC paper"] for line in read(table)] == ["79.7", "56.1"]
    assert table.note == "of the paper"


def test_a_value_that_the_paper_does_not_give_stays_empty(tmp_path):
    rows = [row("ours", [run(tmp_path / "a", 0, 0.5)], reported="A"), {"label": "b", "runs": [], "reported": "B"}]
    values = [reported("A", "79.7"), reported("B", "")]
    found = read(build(plan(rows, reported=values, paper_columns=True)))
    assert [(line["method"], line["CIFAR10 ACC paper"]) for line in found] == [("ours", "79.7"), ("b", "")]
    assert [line["method"] for line in read(build(plan(rows, reported=values)))] == ["ours"]


def test_a_run_that_is_not_there_keeps_its_row(tmp_path):
    missing = run(tmp_path / "a", 0, 0.5) | {"folder": str(tmp_path / "nowhere")}
    table = build(plan([row("mine", [missing])]))
    assert [line["method"] for line in read(table)] == ["mine"]


@pytest.mark.parametrize(("datasets", "shown"), [(["digits"], True), (["usps"], False), (["usps", "digits"], True)])
def test_the_default_tables_have_the_papers_columns_on_digits_alone(datasets, shown):
    default = catalogue.read_yaml(catalogue.CONFIG / "config.yaml")
    made = Plan(default | {"datasets": datasets, "tables": ["table2"], "protocols": ["full"]})
    table = made.table_plan("table2")
    assert table["paper_columns"] is shown
    titles = list(build(table).datasets.values())
    assert titles == [*table["datasets"].values(), *(["CIFAR10", "CIFAR100-20", "STL10"] if shown else [])]


def test_tables_of_a_papers_values_alone_keep_them():
    """Detection is not run here; without the key such a table would be empty."""
    alone = [
        name
        for name in catalogue.names("table")
        if not any("recipe" in row for row in catalogue.entry("table", name)["rows"])
    ]
    assert {"cdc_table4", "cdc_table5"} <= set(alone)
    assert all(catalogue.entry("table", name).get("paper_columns") is True for name in alone)
