"""Layouts of a filled table: CSV and Markdown; LaTeX is in report/latex.py."""

import csv
import io
import math
from collections.abc import Iterable

from report.tables import Row, Table

HEADS = ("method", "recipe", "assigner", "protocol", "fitted on")


def to_csv(table: Table) -> str:
    """Wide CSV: per data set and metric our mean, std and n, and where the paper has any its mean and std, in a table
    with verdicts also the difference and the verdict.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    pairs = columns(table)
    head = [*HEADS]
    for dataset, metric in pairs:
        column = f"{table.datasets[dataset]} {metric}"
        head += [column, f"{column} std", f"{column} n"]
        if _compared(table, dataset, metric):
            head += [f"{column} paper", f"{column} paper std"]
            if table.verdicts:
                head += [f"{column} difference", f"{column} verdict"]
    writer.writerow([*head, "notes"])
    for row in table.rows:
        line = [row.label, row.recipe, row.source, row.protocol, row.fitted_on]
        for dataset, metric in pairs:
            cell, digits = row.cells[dataset, metric], table.metrics[metric]["digits"]
            line += [_number(cell.mean, digits), _number(cell.std, digits), str(len(cell.values) or "")]
            if _compared(table, dataset, metric):
                line += [_number(cell.reported, digits), _number(cell.reported_std, digits)]
                if table.verdicts:
                    line += [_number(cell.difference, digits), cell.verdict]
        writer.writerow([*line, "; ".join(notes(row))])
    return text.getvalue()


def to_markdown(table: Table) -> str:
    """One Markdown table; ours as mean ± std (n), the paper's in brackets, best bold, second best underlined."""
    pairs = columns(table)
    lines = [f"# {table.title}", ""]
    heads = [*HEADS, *(f"{table.datasets[name]} {table.metrics[metric]['title']}" for name, metric in pairs), "notes"]
    lines += [_markdown_row(heads), "|" + " --- |" * len(heads)]
    for row in table.rows:
        cells = [row.label, row.recipe, row.source, row.protocol, row.fitted_on]
        cells += [cell_text(table, row, pair, ("**", "**"), ("<u>", "</u>"), "±") for pair in pairs]
        lines.append(_markdown_row([*cells, "; ".join(notes(row))]))
    return "\n".join([*lines, "", legend(table), ""])


def _markdown_row(cells: Iterable[str]) -> str:
    """A note may hold what a log says, and a log a bar."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def columns(table: Table) -> list[tuple[str, str]]:
    """Columns that hold a value of ours or of the paper."""
    pairs = [(dataset, metric) for dataset in table.datasets for metric in table.metrics]
    return [
        pair
        for pair in pairs
        if any(row.cells[pair].values or row.cells[pair].reported is not None for row in table.rows)
    ] or pairs


def _compared(table: Table, dataset: str, metric: str) -> bool:
    """Whether a column has a value of the paper, or in a table with verdicts the place of one that is lost."""
    cells = [row.cells[dataset, metric] for row in table.rows]
    return any(cell.reported is not None or (table.verdicts and cell.lost) for cell in cells)


def _number(value: float | None, digits: int) -> str:
    return "" if value is None or not math.isfinite(value) else f"{value:.{digits}f}"


def cell_text(
    table: Table, row: Row, pair: tuple[str, str], best: tuple[str, str], second: tuple[str, str], plus: str
) -> str:
    """One cell: ours with n, the paper's in brackets, the verdict where there is one."""
    cell, digits = row.cells[pair], table.metrics[pair[1]]["digits"]
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
    if table.verdicts and cell.lost:
        parts.append(f"[{cell.verdict}]")
    if table.verdicts and cell.verdict in ("within", "above", "below"):
        parts.append(cell.verdict)
    return " ".join(parts)


def notes(row: Row) -> list[str]:
    """The row's notes and those of its reported values, without repetition."""
    return list(dict.fromkeys([*row.notes, *(cell.reported_note for cell in row.cells.values() if cell.reported_note)]))


def legend(table: Table) -> str:
    text = (
        "Ours: mean ± sample standard deviation over seeds, number of runs in parentheses; best bold, second best "
        "underlined, among the clusterings and among each probe's rows of one protocol, controls left out. [ ]: the "
        "value printed in the paper, under the paper's own protocol."
    )
    if all(facts["scale"] == 100 for facts in table.metrics.values()):
        text += " Percent."
    if table.verdicts:
        text += (
            " within, above, below: our mean against the paper's, by twice the standard error of the difference, or by "
            "a band where the paper's spread or number of runs is not known."
        )
    return f"{text}\n{table.note}" if table.note else text
