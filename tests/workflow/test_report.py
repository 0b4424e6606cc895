"""The report page as a target of the pipeline, and what makes it stale."""

import shutil

import pytest

from pipeline import plan as planning
from pipeline.plan import Plan
from tests.conftest import ROOT
from tests.workflow.test_staleness import edited


def test_the_whole_suite_has_a_page_of_its_table_that_a_change_of_its_layout_makes_anew(smoke):
    page = smoke.root / "results/smoke/report/index.html"
    done = smoke.snakemake("--config", "track=false")
    assert done.returncode == 0, done.stderr
    text = page.read_text()
    assert "Results of the suite smoke" in text
    assert "not printed" not in text
    assert (page.parent / "tables/table2.csv").read_bytes() == (smoke.root / "results/smoke/table2.csv").read_bytes()
    with edited(smoke.root / "report/web/page.css", lambda css: css.replace("1.6rem", "1.7rem")):
        done = smoke.snakemake("results/smoke/report/index.html", "--dry-run")
    planned = {
        line.split()[1].rstrip(":") for line in done.stdout.splitlines() if line.startswith(("rule", "localrule"))
    }
    assert planned == {"report"}


def test_snakemakes_own_report_has_the_page_and_the_tables_with_captions(smoke, tmp_path):
    if not (smoke.root / "results/smoke/report/index.html").is_file():
        assert smoke.snakemake("--config", "track=false").returncode == 0
    done = smoke.snakemake("--config", "track=false", "--report", str(tmp_path / "report.html"))
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "report.html").read_text()
    for said in ("index.html", "table2.csv", "Results of the suite", "provenance of every number"):
        assert said in text, said


@pytest.mark.parametrize("name", ["page.css", "page.js", "page.html", "parts.html"])
def test_the_files_that_the_page_is_laid_out_with_are_part_of_its_code(tmp_path, monkeypatch, name):
    shutil.copytree(ROOT / "report/web", tmp_path / "report/web")
    monkeypatch.setattr(planning, "ROOT", tmp_path)
    before = Plan.page_code()
    file = tmp_path / "report/web" / name
    file.touch()
    assert Plan.page_code() == before
    file.write_text(file.read_text() + " ")
    assert Plan.page_code() != before
