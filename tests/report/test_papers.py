"""Several results folders beside the papers: what is counted, what is merged, and what is written where."""

from collections import Counter

import pytest

from pipeline import catalogue
from pipeline.claims import names, paper
from pipeline.provenance import ROOT
from pipeline.record import StageError, write_json
from report import gathered, papers
from report.claims import COLUMNS
from report.gathered import Counted, Gathered, gather, merged, paper_of
from report.papers import BEGIN, END, overview, page, score, scored
from tests.report.folders import plan as table_plan
from tests.report.folders import reported, row, run
from tests.suites import plans


def line(claim="cdc.a", verdict="supported", n="3", dataset="d", stand_in="", **more):
    empty = [column for column in COLUMNS if column not in ("claim", "verdict", "n", "dataset", "stand_in")]
    own = {"claim": claim, "verdict": verdict, "n": n, "dataset": dataset, "stand_in": stand_in}
    return dict.fromkeys(empty, "") | own | more


def found(*lines, tables=()):
    return Gathered(list(tables), list(lines))


def test_of_one_claim_on_one_data_set_the_folder_with_most_seeds_counts():
    few, many, more = line(suite="few"), line(suite="many", n="5", verdict="contradicted"), line(suite="more", n="5")
    assert merged([few, many, more]) == [many]
    assert merged([many, more, few]) == [many]
    apart = line(dataset="e", n="2")
    assert merged([few, apart]) == [few, apart]
    assert merged([few, few | {"protocol": "split"}]) == [few, few | {"protocol": "split"}]


def test_what_was_not_run_counts_only_where_nothing_was_and_once():
    missing, elsewhere = line(verdict="not run", n="", dataset="f"), line(stand_in="data set")
    assert merged([missing, elsewhere]) == [elsewhere]
    other = line(verdict="not run", n="", dataset="g")
    assert merged([missing, other]) == [missing]
    assert merged([missing, line("cdc.b")]) == [missing, line("cdc.b")]


def test_every_table_of_a_paper_is_known_by_its_reported_values_or_its_name():
    of = {name: paper_of(name, catalogue.entry("table", name)) for name in catalogue.names("table")}
    assert not of["digits_all"]
    assert all(of[name] for name in plans()["paper"].tables)
    assert [of[name] for name in ("table1", "cdc_table7", "uniclr_solo_cifar", "pcl_voc07", "dcrl_tableA4")] == [
        "mixem", "cdc", "uniclr", "pcl", "dcrl",
    ]  # fmt: skip


def test_without_folders_every_claim_is_told_and_none_is_run():
    of_none = gather([])
    assert [line["claim"] for line in of_none.lines] == [f"{of}.{key}" for of in names() for key in paper(of)["claims"]]
    assert {line["verdict"] for line in of_none.lines} == {"not run"}
    count = len(paper("cdc")["claims"])
    assert score(of_none)[0] == f"- [CDC](docs/results/cdc.md): {count} of {count} claims not run"


def test_the_score_has_a_line_for_each_paper_and_stand_ins_apart():
    lines = [
        line(), line(dataset="e", verdict="contradicted"), line("cdc.b", stand_in="data set", verdict="undecided"),
        line("cdc.c", "not run", ""), line("pcl.a", stand_in="protocol"),
    ]  # fmt: skip
    said = score(found(*lines))
    assert len(said) == len(names()) == 5
    assert said[0].endswith(
        "cdc.md): on its own data 1 supported, 1 contradicted; on stand-ins 1 undecided; 1 of 3 claims not run"
    )
    assert "- [PCL](docs/results/pcl.md): on stand-ins 1 supported" in said


def counted(table, suite, **counts):
    return Counted("cdc", table, f"CDC, {table}", suite, Counter(counts))


def test_pages_hold_the_counts_of_tables_and_the_claims_of_their_paper_alone():
    tables = [counted("t", "s", within=2, below=1), counted("t", "r", **{"paper lost": 4})]
    tables.append(Counted("pcl", "v", "PCL, v", "s"))
    both = found(line(says="it helps", place="Table 1"), line("pcl.a", says="it clusters"), tables=tables)
    text = page(both, "cdc", "CDC", "./run x")
    assert "| CDC, t | s | 2 | 0 | 1 | 0 | 0 | 0 |" in text
    assert "| CDC, t | r | 0 | 0 | 0 | 0 | 4 | 0 |" in text
    assert "| it helps | Table 1 |" in text
    assert "it clusters" not in text
    assert "PCL, v" not in text
    assert "| CDC | CDC, t | s | 2 | 0 | 1 | 0 | 0 | 0 |" in overview(both, "./run x")
    assert "Written by `./run x --docs`" in text


def test_a_table_counts_the_verdicts_of_its_cells(tmp_path):
    runs = [run(tmp_path / f"a{seed}", seed, value) for seed, value in enumerate((0.8, 0.82, 0.84))]
    rows = [row("M", runs, reported="m"), row("P", runs, reported="p"), row("no paper's", runs)]
    theirs = [reported("m", "82", dataset="Data"), reported("p", "", dataset="Data", source="missing")]
    asked = table_plan(rows, reported=theirs, reported_runs=5)
    assert gathered._counts(gathered.build(asked)) == {"within": 1, "paper lost": 1}


def test_a_score_replaces_the_one_between_its_marks_and_nothing_else(tmp_path):
    path = tmp_path / "README.md"
    path.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    assert scored(path, ["- new"]) == f"before\n{BEGIN}\n- new\n{END}\nafter\n"
    path.write_text(f"before\n{BEGIN}\nold\nafter\n")
    with pytest.raises(StageError, match=r"README.md: the lines .* are expected"):
        scored(path, ["- new"])


def test_pages_and_score_of_the_project_are_as_they_were_written():
    """A line for each paper, and all claims of each on its page: whoever adds a claim writes them again."""
    text = (ROOT / "README.md").read_text()
    lines = text.partition(BEGIN)[2].partition(END)[0].split("\n")[1:-1]
    assert [written.partition("]")[0] for written in lines] == [f"- [{paper(name)['title']}" for name in names()]
    for name in names():
        written = (ROOT / "docs/results" / f"{name}.md").read_text()
        missing = [claim["says"] for claim in paper(name)["claims"].values() if claim["says"] not in written]
        assert not missing, f"./run bench papers FOLDERS --docs: {missing}"


def test_folders_and_words_become_files(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(papers, "ROOT", tmp_path)
    (tmp_path / "README.md").write_text(f"{BEGIN}\n{END}\n")
    asked = []
    monkeypatch.setattr(papers, "gather", lambda folders: asked.append(folders) or found(line()))
    papers.main(["a", "b", "a", "--out", str(tmp_path / "papers.md")])
    assert [str(folder) for folder in asked[0]] == ["a", "b"]
    assert not (tmp_path / "docs").exists()
    assert "Written by `./run bench papers a b`" in (tmp_path / "papers.md").read_text()
    papers.main(["a", "--docs", "--out", str(tmp_path / "papers.md")])
    assert {path.stem for path in (tmp_path / "docs/results").iterdir()} == set(names())
    assert "on its own data 1 supported" in (tmp_path / "README.md").read_text()
    assert "papers.md" in capsys.readouterr().out


def test_a_folder_without_a_finished_suite_is_refused(tmp_path):
    with pytest.raises(StageError, match="no finished suite in it"):
        gather([tmp_path])
    (tmp_path / ".plan").mkdir()
    (tmp_path / ".plan/results-1.json").write_text('{"name": "results", "rows": []}')
    write_json(tmp_path / ".suite.json", {"suite": "mine"})
    with pytest.raises(StageError, match=r"\.suite\.json: it does not say whose folder it is"):
        gather([tmp_path])
