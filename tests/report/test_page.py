"""The report page as text: it holds every number and where it comes from, all of it escaped, nothing from elsewhere."""

import base64
import hashlib
import json
import os
import re
from urllib.parse import unquote

import pytest

from pipeline.record import StageError
from report.page import main, newest_plans, render
from tests.report.folders import reported, store
from tests.report.pages import EVIL, LABEL, Page, card, plans, row, suite, tables, trained
from tests.report.pages import plan as table_plan


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(results folder, plans, page) of the suite with runs of all kinds."""
    results, paths = suite(tmp_path_factory.mktemp("page"))
    (results / "figures" / "sub").mkdir(parents=True)
    for name in ("digits_history.png", "digits_history.pdf", "sub/10% <b>.png"):
        (results / "figures" / name).write_bytes(b"\x89PNG")
    folder = results / "report"
    text = render(results, plans(paths), {results / "figures/digits_history.png"}, folder)
    (folder / "index.html").write_text(text)
    return results, paths, Page(text)


def text_of(page):
    return page.all("body")[0][1]


def policy(page):
    """What the page says of what it may load."""
    return next(attrs for attrs, _ in page.all("meta") if attrs.get("http-equiv") == "Content-Security-Policy")


def test_nothing_that_is_told_runs(made):
    _, _, page = made
    (attributes, script), meta = page.all("script")[0], policy(page)
    assert len(page.all("script")) == 1
    assert attributes == {}
    assert not [name for _, attrs in page.elements for name in attrs if name.startswith("on")]
    assert "pwned" not in script
    assert text_of(page).count(EVIL) > 10
    assert "default-src 'none'" in meta["content"]


def test_the_one_script_is_the_one_that_may_run(made):
    results, _, page = made
    content = policy(page)["content"]
    script = re.search("<script>(.*?)</script>", (results / "report/index.html").read_text(), re.S)[1]
    assert base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() in content


def test_every_link_is_to_a_file_of_the_folder_or_a_place_of_the_page(made):
    results, _, page = made
    places = {attrs["id"] for _, attrs in page.elements if "id" in attrs}
    links = [attrs[name] for _, attrs in page.elements for name in ("href", "src") if name in attrs]
    assert [link for link in links if link.startswith("#") and link[1:] not in places] == []
    files = {unquote(link) for link in links if not link.startswith("#")}
    assert [file for file in files if not (results / "report" / file).is_file()] == []
    assert files == {"tables/t.csv", "figures/digits_history.png", "figures/digits_history.pdf",
                     "figures/sub/10% <b>.png"}  # fmt: skip
    assert "http" not in " ".join(links)
    assert "@import" not in (results / "report/index.html").read_text()
    assert "url(" not in (results / "report/index.html").read_text()


def test_every_row_of_every_table_is_there_with_its_notes(made):
    _, paths, page = made
    labels = [text for attrs, text in page.all("th", scope="row") if "data-sort" in attrs]
    for table in tables(paths):
        for each in table.rows:
            assert any(label.startswith(each.label) for label in labels), each.label
            assert all(" ".join(note.split()) in text_of(page) for note in each.notes)
        for problem in table.problems:
            assert problem.folder in text_of(page)
            assert " ".join(problem.reason.split()) in text_of(page)
    assert "page 3" in " ".join(text for _, text in page.all("td", class_="notes"))


def test_cells_hold_what_tables_print_and_sort_by_it(made):
    _, _, page = made
    ours = [(attrs["data-sort"], text) for attrs, text in page.all("td", class_="number ours")]
    assert ours[:2] == [("50.0", "50.0 ± 25.0 (3)"), ("45.0", "45.0 ± 7.1 (2)")]
    assert ("", "") in ours  # a row of the paper's
    lacking = [text for _, text in page.all("td", class_="number ours lacking")]
    assert lacking[0] == "diverged, stale, not run"
    paper = [(attrs["data-sort"], text) for attrs, text in page.all("td", class_="number paper")]
    assert paper[0] == ("80.5", "80.5 ± 0.2")
    assert ("90.25", "90.2") in paper
    assert page.all("td", class_="number ours")[0][0]["title"] == "seed 0: 50.0, seed 1: 75.0, seed 2: 25.0"
    strong = {text for _, text in page.all("strong")}
    assert "50.0 ± 25.0 (3)" in strong
    assert {text for _, text in page.all("u")} == {"45.0 ± 7.1 (2)"}


def test_a_table_that_compares_says_how_far_and_which_way(made):
    _, _, page = made
    ((attrs, text),) = page.all("td", class_="number difference below")
    assert (attrs["data-sort"], text) == ("-30.5", "-30.5 below")


def origin(page, label):
    """The text of what unfolds below a row."""
    texts = [text for _, text in page.all("tbody")]
    return next(text for text in texts if text.startswith(label) and len(text) > 2 * len(label))


def test_every_number_says_where_it_comes_from(made):
    _, _, page = made
    said = origin(page, LABEL)
    for value in ("recipe good, assigner kmeans, fitted on test", "0 50.0 0 7.5 2026-01-02 03:04", "1 75.0 1 7.5",
                  "2 25.0 2 7.5", "train c f f f", "assign/kmeans c a a a", "score/kmeans c s s s",
                  "c0ffee, with uncommitted changes", "10c4", "python 3.11.7, torch 2.14.1", "Linux <x86_64>",
                  '"batch_size": 64', "32-true"):  # fmt: skip
        assert value in said, value
    bad = origin(page, "Bad")
    assert "0 diverged in epoch 2, term push" in " ".join(bad.split())
    assert "1 stale, stage train ran with other settings, seed or inputs" in bad
    assert f"2 not run; stage train did not finish: error: {EVIL}" in bad


def test_what_records_do_not_agree_on_is_told_apart(tmp_path):
    runs = [trained(tmp_path / "results", "r", seed, 0.5, device=device) for seed, device in ((0, "cpu"), (1, "cuda"))]
    plan = table_plan([row("mine", runs)], csv=str(tmp_path / "results/t.csv"))
    page = Page(render(tmp_path / "results", [plan], set(), tmp_path / "out"))
    assert "device cpu (train of seed 0) ; cuda (train of seed 1)" in text_of(page)


def test_counts_say_what_is_missing(made):
    _, _, page = made
    counts = [text for _, text in page.all("span") if re.match(r"\d+ ", text)]
    assert counts == ["8 results printed", "1 diverged", "1 stale", "1 not run"]
    assert "3 runs are not printed" in text_of(page)
    (command,) = [text for _, text in page.all("pre", tabindex="0") if "--forcerun" in text]
    assert command.endswith("bad/seed1/model.pt " + command.split()[-1])


def test_figures_are_shown_and_those_that_nobody_keeps_up_to_date_are_dated(made):
    _, _, page = made
    captions = [text for _, text in page.all("figcaption")]
    assert captions[0] == "Losses in training: digits_history.png digits_history.pdf"
    assert re.match(r"10% <b>: 10%25%20%3Cb%3E.png drawn \d{4}-\d\d-\d\d \d\d:\d\d UTC; this suite", captions[1])


def test_a_row_tells_its_origin_in_short(made):
    _, _, page = made
    (said,) = {attrs["title"] for attrs, text in page.all("summary") if text == LABEL}
    assert said == (
        f"Data {EVIL}: trained 2026-01-02 03:04 UTC; git commit c0ffee, with uncommitted changes; device cpu; "
        "machine Linux <x86_64>; fingerprint of score/kmeans s (seed 0), s (seed 1), s (seed 2)"
    )
    assert all("title" not in attrs for attrs, text in page.all("summary") if text == "Bad")


def rendered(results, entries, **more):
    """The page of a table with one row."""
    plan = table_plan([row("m", entries)], csv=str(results / "t.csv"), **more)
    return Page(render(results, [plan], set(), results / "out"))


def test_a_data_set_without_any_result_says_why_in_its_cells(tmp_path):
    results = tmp_path / "results"
    entry = trained(results, "r", 0, 0.5, status="diverged", diverged={"epoch": 2, "term": "push"})
    rows = [row("m", [entry]), {"label": "Theirs", "reported": "them", "runs": []}]
    elsewhere = table_plan(rows, csv=str(results / "t.csv"), reported=[reported("them", "80.5", dataset="Elsewhere")])
    page = Page(render(results, [elsewhere], set(), results / "out"))
    assert {text for _, text in page.all("td", class_="number ours lacking")} == {"diverged"}


def test_every_seed_has_its_own_fingerprint(tmp_path):
    results, entries = tmp_path / "results", []
    for seed in (0, 1):
        entry, folder = trained(results, "r", seed, 0.5), results / f"runs/d/full/r/seed{seed}"
        held = json.loads((folder / "metrics/clustering/kmeans.json").read_text())
        held["records"]["score/kmeans"]["fingerprint"] = entry["expected"]["score/kmeans"][0] = f"s{seed}"
        store(folder, "clustering/kmeans", held["result"], held["records"])
        entries.append(entry)
    page = rendered(results, entries)
    (said,) = [attrs["title"] for attrs, _ in page.all("summary") if "title" in attrs]
    assert said.endswith("fingerprint of score/kmeans s0 (seed 0), s1 (seed 1)")
    assert "score/kmeans c s0 s1" in text_of(page)


@pytest.mark.parametrize(
    ("result", "said"),
    [({"classes_present": 0, "largest_share": 0.5}, "no labels"), ({"undefined": ["ACC"]}, "undefined")],
)
def test_a_result_without_a_metric_says_why(tmp_path, result, said):
    results = tmp_path / "results"
    entry = trained(results, "r", 0, 0.5)
    folder = results / "runs/d/full/r/seed0"
    records = json.loads((folder / "metrics/clustering/kmeans.json").read_text())["records"]
    store(folder, "clustering/kmeans", {"status": "ok", "n": 9} | result, records)
    assert {text for _, text in rendered(results, [entry]).all("td", class_="number ours lacking")} == {said}


def test_a_page_without_tables_or_results_can_be_made(tmp_path):
    page = Page(render(tmp_path / "results", [], set(), tmp_path / "out"))
    assert "This suite has no tables." in text_of(page)
    plan = table_plan([{"label": "Theirs", "reported": "them", "runs": []}], csv=str(tmp_path / "results/t.csv"))
    assert "nothing was run" in text_of(Page(render(tmp_path / "results", [plan], set(), tmp_path / "out")))


def test_an_unlabelled_data_set_has_a_card(tmp_path):
    results = tmp_path / "results"
    entry = trained(results, "r", 0, 0.5)
    entry["sources"].insert(0, card(results, counts={"unlabeled": []}, splits={"unlabeled": [0, 7]}, class_names=None))
    page = Page(render(results, [table_plan([row("m", [entry])], csv=str(results / "t.csv"))], set(), tmp_path / "o"))
    assert "class unlabeled all rows 7" in text_of(page)


def page(project, *words):
    return project.stage("report.page", *words)


def test_by_hand_it_takes_the_newest_plans(made, project, tmp_path):
    results, _, _ = made
    done = page(project, "--results", str(results), "--out", str(tmp_path / "p.html"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{tmp_path}/p.html\n"
    assert "8 results printed" in (tmp_path / "p.html").read_text()


def test_where_a_run_failed_a_page_appears_beside_the_page_until_nothing_is_missing(
    made, monkeypatch, capsys, tmp_path
):
    results, paths, _ = made
    good = json.loads(paths[1].read_text())
    whole_plan, drawn = tmp_path / "whole.json", results / "figures/digits_history.png"
    whole_plan.write_text(json.dumps(good))
    out, partial = tmp_path / "page.html", tmp_path / "page.partial.html"

    def called(plan, *words, figure=drawn):
        given = ["--results", str(results), "--plans", str(plan), "--figures", str(figure), "--out", str(out)]
        monkeypatch.setattr("sys.argv", ["page", *given, *words])
        main()
        return capsys.readouterr().out

    assert called(paths[0], "--partial") == f"{partial}\n"
    assert not out.exists()
    assert "Files:" not in partial.read_text()  # t.csv is of an earlier run
    assert "The run failed." in text_of(Page(partial.read_text()))
    assert called(whole_plan) == f"{out}\n"
    assert not partial.exists()
    assert "failed" not in text_of(Page(out.read_text()))
    before = out.read_text()
    assert called(paths[0], "--partial") == f"{partial}\n"
    assert called(whole_plan, "--partial") == ""  # it was not for this page that the run failed
    assert not partial.exists()
    assert called(whole_plan, "--partial", figure=results / "figures/other.png") == f"{partial}\n"
    assert out.read_text() == before


def test_of_two_plans_of_a_table_the_newer_counts(tmp_path):
    folder = tmp_path / ".plan"
    folder.mkdir()
    for time, name in enumerate(("t-b", "t-a", "u-c")):
        (folder / f"{name}.json").touch()
        os.utime(folder / f"{name}.json", (time, time))
    assert [path.name for path in newest_plans(tmp_path)] == ["t-a.json", "u-c.json"]


@pytest.mark.parametrize(
    ("folder", "said"), [("nowhere", "not found"), (".", ".plan: no plan of a table in it; run the suite once")]
)
def test_a_folder_without_plans_is_one_line(project, tmp_path, folder, said):
    done = page(project, "--results", str(tmp_path / folder))
    assert done.returncode == 1
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_plan_of_another_results_folder_is_refused(made, tmp_path):
    _, paths, _ = made
    with pytest.raises(StageError, match="name the results folder that the plans are of"):
        render(tmp_path, plans(paths), set(), tmp_path / "report")
