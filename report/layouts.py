"""Layouts of a filled table: CSV, Markdown, LaTeX."""

import csv
import io
import math
from collections.abc import Iterable

from report.tables import Cell, Row, Table

HEADS = ("method", "recipe", "assigner", "protocol", "fitted on")


def to_csv(table: Table) -> str:
    """Wide CSV: per data set and metric our mean, std and n, and where the paper has any its mean and std, in a table
    with verdicts also the difference and the verdict.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = _columns(table)
    head = [*HEADS]
    for dataset, metric in columns:
        column = f"{table.datasets[dataset]} {metric}"
        head += [column, f"{column} std", f"{column} n"]
        if _has_reported(table, dataset, metric):
            head += [f"{column} paper", f"{column} paper std"]
            if table.verdicts:
                head += [f"{column} difference", f"{column} verdict"]
    writer.writerow([*head, "notes"])
    for row in table.rows:
        line = [row.label, row.recipe, row.source, row.protocol, row.fitted_on]
        for dataset, metric in columns:
            cell, digits = row.cells[dataset, metric], table.metrics[metric]["digits"]
            line += [_number(cell.mean, digits), _number(cell.std, digits), str(len(cell.values) or "")]
            if _has_reported(table, dataset, metric):
                line += [_number(cell.reported, digits), _number(cell.reported_std, digits)]
                if table.verdicts:
                    line += [_number(cell.difference, digits), cell.verdict]
        writer.writerow([*line, "; ".join(_notes(row))])
    return text.getvalue()


def to_markdown(table: Table) -> str:
    """One Markdown table; ours as mean ± std (n), the paper's in brackets, best bold, second best underlined."""
    columns = _columns(table)
    lines = [f"# {table.title}", ""]
    heads = [*HEADS, *(f"{table.datasets[name]} {table.metrics[metric]['title']}" for name, metric in columns), "notes"]
    lines += [_markdown_row(heads), "|" + " --- |" * len(heads)]
    for row in table.rows:
        cells = [row.label, row.recipe, row.source, row.protocol, row.fitted_on]
        for dataset, metric in columns:
            cells.append(
                _cell_text(
                    row.cells[dataset, metric], table.metrics[metric]["digits"], ("**", "**"), ("<u>", "</u>"), "±"
                )
            )
            if table.verdicts and row.cells[dataset, metric].verdict in ("within", "above", "below"):
                cells[-1] += f" {row.cells[dataset, metric].verdict}"
        lines.append(_markdown_row([*cells, "; ".join(_notes(row))]))
    return "\n".join([*lines, "", _legend(table), ""])


def to_tex(table: Table) -> str:
    """A LaTeX tabular for the booktabs package, marked as the Markdown."""
    columns = _columns(table)
    heads = [
        "method",
        "protocol",
        *(f"{_tex(table.datasets[name])} {_tex(table.metrics[metric]['title'])}" for name, metric in columns),
    ]
    lines = [f"% {table.title}", f"\\begin{{tabular}}{{ll{'r' * len(columns)}}}", "\\toprule"]
    lines += [" & ".join(heads) + " \\\\", "\\midrule"]
    for row in table.rows:
        cells = [_tex(row.label), _tex(row.protocol)]
        for dataset, metric in columns:
            text = _cell_text(
                row.cells[dataset, metric],
                table.metrics[metric]["digits"],
                ("\\textbf{", "}"),
                ("\\underline{", "}"),
                "$\\pm$",
            )
            cells.append(text)
        lines.append(" & ".join(cells) + " \\\\")
    legend = "\n".join(f"% {line}" for line in _legend(table).splitlines())
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", legend, ""])


def _markdown_row(cells: Iterable[str]) -> str:
    """A note may hold what a log says, and a log a bar."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _columns(table: Table) -> list[tuple[str, str]]:
    """Columns that hold a value of ours or of the paper."""
    pairs = [(dataset, metric) for dataset in table.datasets for metric in table.metrics]
    return [
        pair
        for pair in pairs
        if any(row.cells[pair].values or row.cells[pair].reported is not None for row in table.rows)
    ] or pairs


def _has_reported(table: Table, dataset: str, metric: str) -> bool:
    return any(row.cells[dataset, metric].reported is not None for row in table.rows)


def _number(value: float | None, digits: int) -> str:
    return "" if value is None or not math.isfinite(value) else f"{value:.{digits}f}"


def _cell_text(cell: Cell, digits: int, best: tuple[str, str], second: tuple[str, str], plus: str) -> str:
    parts = []
    if cell.mean is not None:
        text = _number(cell.mean, digits)
        if cell.std is not None:
            text += f" {plus} {_number(cell.std, digits)}"
        before, after = {1: best, 2: second}.get(cell.rank, ("", ""))
        parts.append(f"{before}{text}{after} ({len(cell.values)})")
    if cell.reported is not None:
        std = f" {plus} {_number(cell.reported_std, digits)}" if cell.reported_std is not None else ""
        parts.append(f"[{_number(cell.reported, digits)}{std}]")
    return " ".join(parts)


def _notes(row: Row) -> list[str]:
    """The row's notes and those of its reported values, without repetition."""
    return list(dict.fromkeys([*row.notes, *(cell.reported_note for cell in row.cells.values() if cell.reported_note)]))


def _legend(table: Table) -> str:
    text = (
        "Ours: mean ± sample standard deviation over seeds, number of runs in parentheses; best bold, second best "
        "underlined, among the clusterings and among each probe's rows of one protocol, controls left out. [ ]: the "
        "value printed in the paper, under the paper's own protocol."
    )
    if all(facts["scale"] == 100 for facts in table.metrics.values()):
        text += " Percent."
    if table.verdicts:
        text += " within, above, below: our mean against the band around the paper's value."
    return f"{text}\n{table.note}" if table.note else text


def _tex(text: str) -> str:
    for character in "&%_#":
        text = text.replace(character, f"\\{character}")
    return text
