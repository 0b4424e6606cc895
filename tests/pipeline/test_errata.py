"""Errata of reported values: each is of a cell that the file of its paper prints."""

import shutil

import pytest

from pipeline import catalogue, errata
from pipeline.naming import ConfigError
from pipeline.tables import read_reported, reported_file


def asked(file="cdc_mixem", table="mixem_table2_sota", *methods):
    rows = [{"label": method, "reported": method} for method in methods]
    return errata.of_table({"reported": {"file": file, "table": table}, "rows": rows})


def test_a_table_has_the_errata_of_its_methods():
    assert {row["method"] for row in asked("cdc_mixem", "mixem_table2_sota", "PICA", "DAC")} == {"PICA"}
    assert asked("cdc_mixem", "mixem_table4_splits", "PICA") == []
    assert errata.of_table({"rows": [{"label": "PICA", "reported": "PICA"}]}) == []


def test_every_erratum_is_of_a_printed_value():
    path = catalogue.CONFIG / "reported" / "errata.csv"
    rows = errata._read(path, path.stat().st_mtime_ns)
    assert len(rows) >= 5
    for row in rows:
        printed = [
            value for value in read_reported(reported_file(row["file"]))
            if value["mean"] and all(value[key] == row[key] for key in ("table", "method", "dataset"))
            and row["metric"] in ("", value["metric"])
        ]  # fmt: skip
        assert printed, row


def test_a_row_without_evidence_is_named(tmp_path, monkeypatch):
    shutil.copytree(catalogue.CONFIG / "reported", tmp_path / "reported")
    monkeypatch.setattr(catalogue, "CONFIG", tmp_path)
    file = tmp_path / "reported" / "errata.csv"
    file.write_text(",".join(errata.COLUMNS) + "\ncdc_mixem,mixem_table2_sota,PICA,STL10,ACC,wrong,\n")
    with pytest.raises(ConfigError, match=r"errata\.csv, row 2: 7 values are expected, .*evidence"):
        asked("cdc_mixem", "mixem_table2_sota", "PICA")
    file.write_text("file,table\n")
    with pytest.raises(ConfigError, match=r"columns .* found; expected file, table, method"):
        asked("cdc_mixem", "mixem_table2_sota", "PICA")
