"""LaTeX of a filled table: panels below each other that fit the width of the text, and under them the notes.

The file is a box of its own for \\input, alone or in a table environment; it names the packages that it needs.
"""

from collections.abc import Iterator, Sequence

from report.layouts import cell_text, columns, legend, notes
from report.tables import Row, Table

WIDTH = 100  # characters of a panel at the size of footnotes, on a page with margins of an inch
HEAD = """\
% {title}
% In the preamble: \\usepackage{{booktabs}} \\usepackage{{adjustbox}}{engine}
% In the text: \\input this file, alone or in a table environment. It is scaled down to the page."""
ENGINE = "\n% It has letters that pdflatex does not know: compile with lualatex or xelatex, with a font that has them."
ESCAPED = str.maketrans(
    {
        "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "<": "\\textless{}",
        ">": "\\textgreater{}", "|": "\\textbar{}", "±": "$\\pm$", "×": "$\\times$", "→": "$\\rightarrow$",
        "≤": "$\\leq$", "≥": "$\\geq$", "−": "$-$", "–": "--", "—": "---", "…": "\\dots{}",
        "[": "{[}", "]": "{]}", "*": "{*}",  # which the end of a row before them would take as its own
        "“": "``", "”": "''", "‘": "`", "’": "'", **{character: f"\\{character}" for character in "&%$#_{}"},
    }
)  # fmt: skip
KNOWN = "\u017f"  # pdflatex reads Latin letters up to here

Pair = tuple[str, str]  # data set, metric


def to_tex(table: Table) -> str:
    """A LaTeX box for the packages booktabs and adjustbox, marked as the Markdown, with the notes of its rows."""
    numbers: dict[str, int] = {}
    for row in table.rows:
        for note in notes(row):
            numbers.setdefault(note, len(numbers) + 1)
    lines = legend(table).splitlines()
    protocols = {row.protocol for row in table.rows if row.protocol}
    if len(protocols) == 1:
        lines.append(f"Protocol: {next(iter(protocols))}.")
    below = [tex(line) for line in lines] + [f"\\textsuperscript{{{n}}} {tex(note)}" for note, n in numbers.items()]
    body = [
        "\\par\\noindent",
        "\\begin{adjustbox}{max width=\\linewidth, max totalheight=0.9\\textheight}",
        "\\footnotesize",
        "\\begin{tabular}{@{}l@{}}",
    ]
    for number, panel in enumerate(_panels(table)):
        body += [*_panel(table, panel, _rows(table, panel, number == 0), numbers, len(protocols) > 1), "\\\\[2ex]"]
    body += [
        "\\parbox{\\linewidth}{\\raggedright",
        " \\\\\n".join(below),
        "}",
        "\\end{tabular}",
        "\\end{adjustbox}",
        "\\par",
    ]
    text = "\n".join(body)
    unknown = any(character > KNOWN for character in text)
    return HEAD.format(title=" ".join(table.title.split()), engine=ENGINE if unknown else "") + f"\n{text}\n"


def tex(text: str) -> str:
    """Text as LaTeX prints it."""
    return text.translate(ESCAPED)


def _panels(table: Table) -> Iterator[list[Pair]]:
    """The columns, as many side by side as fit: whole data sets where that goes."""
    label = max((len(row.label) for row in table.rows), default=0)
    panel: list[Pair] = []
    room = WIDTH - label
    for block in _blocks(table):
        widths = {pair: _width(table, pair) for pair in block}
        if panel and sum(widths.values()) > room:
            yield panel
            panel, room = [], WIDTH - label
        for pair, width in widths.items():
            if panel and width > room:
                yield panel
                panel, room = [], WIDTH - label
            panel.append(pair)
            room -= width
    yield panel


def _blocks(table: Table) -> list[list[Pair]]:
    """The columns of each data set."""
    held: dict[str, list[Pair]] = {}
    for dataset, metric in columns(table):
        held.setdefault(dataset, []).append((dataset, metric))
    return list(held.values())


def _width(table: Table, pair: Pair) -> int:
    """Characters of a column and of the space before it."""
    texts = (cell_text(table, row, pair, ("", ""), ("", ""), "±") for row in table.rows)
    return 2 + max(len(table.metrics[pair[1]]["title"]), *map(len, texts))


def _rows(table: Table, panel: Sequence[Pair], first: bool) -> list[Row]:
    """Those with a value in the panel; the first has also those without any."""

    def filled(row: Row, pairs: Sequence[Pair]) -> bool:
        return any(row.cells[pair].values or row.cells[pair].reported is not None for pair in pairs)

    return [row for row in table.rows if filled(row, panel) or (first and not filled(row, list(row.cells)))]


def _panel(
    table: Table, panel: Sequence[Pair], rows: Sequence[Row], numbers: dict[str, int], protocols: bool
) -> Iterator[str]:
    """The lines of one tabular; `protocols`: whether rows tell theirs."""
    before = 2 if protocols else 1
    yield f"\\begin{{tabular}}{{{'l' * before}{'r' * len(panel)}}}"
    yield "\\toprule"
    names = [dataset for dataset, _ in panel]
    groups = {dataset: names.count(dataset) for dataset in names}
    heads = [f"\\multicolumn{{{count}}}{{c}}{{{tex(table.datasets[name])}}}" for name, count in groups.items()]
    yield " & ".join([*[""] * before, *heads]).strip() + " \\\\"
    first = before + 1
    for count in groups.values():
        yield f"\\cmidrule(lr){{{first}-{first + count - 1}}}"
        first += count
    titles = [tex(table.metrics[metric]["title"]) for _, metric in panel]
    yield " & ".join(["method", *(["protocol"] if protocols else []), *titles]) + " \\\\"
    yield "\\midrule"
    for row in rows:
        marks = ",".join(str(numbers[note]) for note in notes(row))
        label = tex(row.label) + (f"\\textsuperscript{{{marks}}}" if marks else "")
        cells = [cell_text(table, row, pair, ("\\textbf{", "}"), ("\\underline{", "}"), "$\\pm$") for pair in panel]
        yield " & ".join([label, *([tex(row.protocol)] if protocols else []), *cells]) + " \\\\"
    yield "\\bottomrule"
    yield "\\end{tabular}"
