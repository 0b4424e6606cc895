"""Every value in config/reported is printed by a table of some suite, or listed in unused.csv with the reason."""

import csv
import functools

from pipeline import catalogue
from pipeline.tables import read_reported, reported_file
from tests.suites import plans

KEYS = ("file", "table", "method", "dataset", "setting", "metric")
FILES = ("cdc_mixem", "pcl_uniclr_dcrl")
Cell = tuple[str, ...]


def of_row(table, row, titles):
    """The cells that a row prints, "" for all data sets that the paper has."""
    names = row.get("reported_metrics", {})
    metrics = [names.get(metric, metric) for metric in row.get("metrics", table["metrics"])]
    own = [row.get("reported_dataset", {}).get(title, title) for title in titles]
    first = (table["reported"]["file"], table["reported"]["table"], row["reported"])
    return {(*first, dataset, row.get("setting", ""), metric) for dataset in own for metric in metrics}


@functools.cache
def printed():
    found: set[Cell] = set()
    for plan in plans().values():
        for table in (table for table in plan.tables.values() if "reported" in table):
            datasets, asked = plan.runs.datasets(table), table.get("paper_columns", False)
            all_of_paper = asked if isinstance(asked, bool) else bool(set(asked) & set(datasets))
            titles = [catalogue.entry("data set", name)["title"] for name in datasets] + [""] * all_of_paper
            for row in (row for row in table["rows"] if "reported" in row):
                found |= of_row(table, row, titles)
    return found


@functools.cache
def cells():
    """Every cell with a value."""
    rows = [(file, row) for file in FILES for row in read_reported(reported_file(file)) if row["mean"]]
    return [(file, *(row[key] for key in KEYS[1:])) for file, row in rows]


@functools.cache
def unused():
    with open(catalogue.CONFIG / "reported" / "unused.csv", newline="") as file:
        return list(csv.DictReader(file, strict=True))


def is_printed(cell):
    return cell in printed() or (*cell[:3], "", *cell[4:]) in printed()


def is_of(cell, listed):
    return all(listed[key] in ("", value) for key, value in zip(KEYS, cell, strict=True))


def test_every_reported_value_is_printed_or_said_to_be_unused():
    forgotten = [cell for cell in cells() if not is_printed(cell) and not any(is_of(cell, row) for row in unused())]
    assert not forgotten, forgotten[:5]


def test_what_is_said_to_be_unused_is_a_value_that_no_table_prints():
    for row in unused():
        of_it = [cell for cell in cells() if is_of(cell, row)]
        assert of_it, f"no such value: {row}"
        assert not any(is_printed(cell) for cell in of_it), f"printed: {row}"
        assert len(row["reason"]) > 20


def test_each_paper_has_values_that_are_printed():
    """The test above would hold as well if nothing was printed and all was said to be unused."""
    counts = {file: sum(is_printed(cell) for cell in cells() if cell[0] == file) for file in FILES}
    assert counts["cdc_mixem"] > 170
    assert counts["pcl_uniclr_dcrl"] > 550
