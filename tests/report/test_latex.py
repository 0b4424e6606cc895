"""LaTeX of tables: what a page takes, compiled where pdflatex is installed."""

import re
import shutil
import subprocess

import pytest

from report.latex import tex, to_tex
from report.tables import build
from tests.report.folders import ACC, plan, probed, reported, row, run

LOOSE = {f"m{number}": ACC | {"title": f"metric {number}"} for number in range(9)}


def wide(tmp_path, datasets=4, seeds=2):
    """Nine metrics of several data sets, four rows, notes with everything that LaTeX takes for its own."""
    names = {f"d{number}": f"data_{number} & more" for number in range(datasets)}
    rows = []
    for label in ("*first [a_b]", "[second] #1", "100% \\cdots {x}", "~ ^ $x$ <y> |z|"):
        runs = [
            run(tmp_path / f"{label[:2]}{dataset}{seed}", seed, 0.5, **dict.fromkeys(LOOSE, 0.123), degenerate=True)
            | {"dataset": dataset}
            for dataset in names
            for seed in range(seeds)
        ]
        rows.append(row(label, runs))
    return plan(rows, metrics=LOOSE, datasets=names, note="a_note ± 1 – “so” it is")


def panels(text):
    """Each panel as its lines."""
    return [part.splitlines() for part in re.findall(r"\\toprule\n(.*?)\n\\bottomrule", text, re.DOTALL)]


def test_packages_stand_at_the_top(tmp_path):
    text = to_tex(build(plan([row("mine", [run(tmp_path / "a", 0, 0.5)])])))
    head = [line for line in text.splitlines() if line.startswith("%")]
    assert text.startswith(head[0])
    assert head[0] == "% A table"
    assert "\\usepackage{booktabs} \\usepackage{adjustbox}" in head[1]
    assert not any("lualatex" in line for line in head)


def test_letters_that_pdflatex_does_not_know_are_told(tmp_path):
    text = to_tex(build(plan([row("Σ", [run(tmp_path / "a", 0, 0.5)])])))
    assert "lualatex" in text.partition("\\begin")[0]
    assert "Σ & \\textbf{50.0} (1)" in text


def test_columns_go_below_each_other_where_they_are_too_wide(tmp_path):
    found = panels(to_tex(build(wide(tmp_path))))
    heads = [re.findall(r"\\multicolumn\{(\d)\}\{c\}\{data\\_(\d) ", panel[0]) for panel in found]
    assert [number for panel in heads for _, number in panel] == sorted(
        number for panel in heads for _, number in panel
    )
    assert sum(int(count) for panel in heads for count, _ in panel) == 36  # every column once
    assert len(found) > 4
    short = plan([row("mine", [run(tmp_path / "a", 0, 0.5)])])
    assert len(panels(to_tex(build(short)))) == 1


def test_data_sets_stay_whole_where_they_fit(tmp_path):
    """Two of them side by side, and the third below, although its first column would go beside them."""
    names = {name: f"set {name}" for name in "abc"}
    metrics = {name: ACC | {"title": name} for name in ("ACC", "NMI")}
    runs = [
        run(tmp_path / f"{name}{seed}", seed, 0.5, NMI=0.1) | {"dataset": name} for name in names for seed in (0, 1)
    ]
    found = panels(to_tex(build(plan([row("m" * 12, runs)], metrics=metrics, datasets=names))))
    assert [panel[0] for panel in found] == [
        "& \\multicolumn{2}{c}{set a} & \\multicolumn{2}{c}{set b} \\\\",
        "& \\multicolumn{2}{c}{set c} \\\\",
    ]
    assert found[0][1:3] == ["\\cmidrule(lr){2-3}", "\\cmidrule(lr){4-5}"]
    assert found[0][3] == "method & ACC & NMI & ACC & NMI \\\\"


def test_each_panel_has_the_rows_that_have_values_there(tmp_path):
    failed = run(tmp_path / "b", 0, 0.5, status="failed", reason="why")
    rows = [
        row("ours " + "x" * 60, [run(tmp_path / "a", 0, 0.5)]),
        row("failed", [failed]),
        {"label": "theirs", "runs": [], "reported": "A"},
        row("both", [run(tmp_path / "c", 0, 0.6)], reported="A"),
    ]
    metrics = {"ACC": ACC | {"title": "accuracy of the clusters"}}
    table = build(plan(rows, metrics=metrics, reported=[reported("A", "79.7")], paper_columns=True))
    labels = [[line.partition(" &")[0].partition("\\text")[0] for line in panel[4:]] for panel in panels(to_tex(table))]
    assert labels == [["ours " + "x" * 60, "failed", "both"], ["theirs", "both"]]


def test_notes_stand_below_with_the_number_of_their_row(tmp_path):
    rows = [row(label, [run(tmp_path / label, 0, 0.1)]) for label in ("first", "second")]
    rows.append(row("third", [run(tmp_path / "c", 0, 0.5)], reported="A"))
    values = [reported("A", "79.7", dataset="Data", note="as printed, 5% off")]
    text = to_tex(build(plan(rows, reported=values, note="under the table")))
    first, second, third = panels(text)[0][4:]
    assert first.startswith("first\\textsuperscript{1} &")
    assert second.startswith("second\\textsuperscript{1} &")  # the same note once
    assert third.startswith("third\\textsuperscript{2} &")
    below = text.partition("\\parbox{\\linewidth}{\\raggedright\n")[2]
    assert "\\textsuperscript{1} Data seed 0: degenerate, 3 clusters occupied" in below
    assert "\\textsuperscript{2} as printed, 5\\% off" in below
    assert "under the table" in below
    assert "Ours: mean $\\pm$ sample standard deviation" in below


def test_protocols_have_a_column_only_where_they_differ(tmp_path):
    one, other = run(tmp_path / "a", 0, 0.5), run(tmp_path / "b", 0, 0.5, protocol="split")
    text = to_tex(build(plan([row("mine", [one])])))
    assert "method & ACC" in text
    assert "Protocol: train+test / test." in text
    text = to_tex(build(plan([row("mine", [one, other])])))
    assert "method & protocol & ACC" in text
    assert "mine & train / test & " in text
    assert "Protocol:" not in text


def test_verdicts_are_said(tmp_path):
    values = [reported("A", "79.7", dataset="Data")]
    rows = [row("mine", [run(tmp_path / "a", 0, 0.5)], reported="A", bands={"Data": {"ACC": 1.0}})]
    assert "[79.7 $\\pm$ 0.2] below \\\\" in to_tex(build(plan(rows, reported=values, verdicts=True)))


def test_every_character_of_latex_is_text():
    said = tex("\\ ~ ^ & % $ # _ { } < > | [ ] * ± −")
    assert said == (
        "\\textbackslash{} \\textasciitilde{} \\textasciicircum{} \\& \\% \\$ \\# \\_ \\{ \\} \\textless{} "
        "\\textgreater{} \\textbar{} {[} {]} {*} $\\pm$ $-$"
    )


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex here")
def test_it_compiles_within_the_page_alone_and_in_a_table(tmp_path):
    """In one column of two, and over the whole width: nothing is wider or higher than the page."""
    probe = {"label": "probe", "recipe": "r", "probe": "probe", "runs": [probed(tmp_path / "p", 0, 0.9)]}
    made = {"wide": wide(tmp_path), "narrow": plan([row("mine", [run(tmp_path / "a", 0, 0.5)]), probe])}
    made["long"] = plan([row(f"row {n}", [run(tmp_path / f"l{n}", 0, 0.1)]) for n in range(90)])
    for name, of in made.items():
        (tmp_path / f"{name}.tex").write_text(to_tex(build(of)), encoding="utf-8")
    body = "".join(
        f"\\input{{{name}}}\n\\begin{{table*}}\\input{{{name}}}\\caption{{x}}\\end{{table*}}\n" for name in made
    )
    for columns in ("onecolumn", "twocolumn"):
        (tmp_path / "page.tex").write_text(
            f"\\documentclass[{columns}]{{article}}\n\\usepackage{{booktabs}} \\usepackage{{adjustbox}}\n"
            f"\\begin{{document}}\n{body}\\end{{document}}\n"
        )
        done = subprocess.run(["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"], cwd=tmp_path,
                              capture_output=True, text=True, check=False)  # fmt: skip
        assert done.returncode == 0, done.stdout[-2000:]
        assert not re.search(r"Overfull|too large", done.stdout), done.stdout
