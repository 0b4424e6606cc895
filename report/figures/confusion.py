"""Classes against clusters: column i is the cluster that the best one-to-one matching gives to class i.

The matching is that of the accuracy (evaluation/metrics/accuracy.py). Clusters without a class follow, largest first;
all that they hold counts as wrong.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from evaluation.confusion import Matched, matched_confusion
from pipeline.record import StageError
from preparation.prepared import Prepared
from report.clusters import clusters, no_clusters
from report.figure import Shown, class_names, short
from report.style import WIDTH, plain, plt, wrapped

several = True
LACKS = no_clusters
of_clusters = True
of_labels = True
title = "Classes against clusters"

COUNTED = 24  # columns up to which every cell holds its count
NAMED = 40  # classes, and clusters, up to which every one has its name
BESIDE = 2.2  # inches of the words beside a matrix


@dataclass(frozen=True)
class Settings:
    pass


def confusion(runs: Mapping[str, Shown], data: Prepared, settings: Settings) -> tuple[Figure, list[dict[str, Any]]]:
    tables = {}
    for label, run in runs.items():
        found = clusters(run)
        labels = run.data.labels[found.rows]
        if labels.ndim != 1 or (labels < 0).any():
            raise StageError(
                f"{run.folder}: its scored rows have no labels (or several), and classes are compared with clusters "
                "here; draw a gallery instead"
            )
        tables[label] = matched_confusion(labels, found.ids)
    names = {label: class_names(run.data) for label, run in runs.items()}
    return draw(tables, names), [row for label in runs for row in numbers(label, tables[label], names[label])]


def numbers(label: str, table: Matched, names: list[str]) -> list[dict[str, Any]]:
    """One row for each class: its accuracy, the cluster matched to it, and its counts in every cluster."""
    rows = []
    for i, (number, accuracy) in enumerate(zip(table.classes, table.accuracies, strict=True)):
        matched = int(table.clusters[i]) if table.clusters[i] >= 0 else ""
        facts = {"run": label, "class": int(number), "name": names[number], "n": int(table.counts[i].sum())}
        facts |= {"cluster": matched, "accuracy": round(float(accuracy), 6)}
        held = {
            f"cluster {cluster}": int(table.counts[i, j]) for j, cluster in enumerate(table.clusters) if cluster >= 0
        }
        rows.append(facts | {name: held[name] for name in sorted(held, key=lambda name: int(name.split()[1]))})
    return rows


def draw(tables: Mapping[str, Matched], names: Mapping[str, list[str]]) -> Figure:
    """One matrix for each run."""
    sizes = [_size(table) for table in tables.values()]
    heights = [height + 0.8 for _, height in sizes]
    size = (min(WIDTH, max(width for width, _ in sizes) + BESIDE), sum(heights) + 0.3)
    figure, axes = plt.subplots(
        len(tables), 1, figsize=size, squeeze=False, height_ratios=heights, layout="constrained"
    )
    for axis, (label, table) in zip(axes.flat, tables.items(), strict=True):
        _draw_matrix(axis, table)
        _name_rows(axis, table, names[label])
        _name_columns(axis, table)
        axis.tick_params(length=0, labelsize=6.5)
        share = table.counts.diagonal().sum() / table.counts.sum()
        axis.set_title(f"{label}: ACC {100 * share:.2f}", loc="left")
    return figure


def _size(table: Matched) -> tuple[float, float]:
    """Inches of a matrix: square cells of a third of an inch, smaller where there are many."""
    rows, columns = table.counts.shape
    cell = min(0.36, (WIDTH - BESIDE) / max(rows, columns))
    return max(1.5, cell * columns), max(0.8, cell * rows)


def _draw_matrix(axis: Axes, table: Matched) -> None:
    """Each cell as a share of its class, with its count where there is room."""
    shares = table.counts / table.counts.sum(1, keepdims=True)
    axis.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    if shares.shape[1] <= COUNTED:
        for i, j in np.argwhere(table.counts):
            colour = "white" if shares[i, j] > 0.6 else "black"
            axis.text(j, i, str(table.counts[i, j]), ha="center", va="center", fontsize=6.5, color=colour)


def _name_rows(axis: Axes, table: Matched, names: list[str]) -> None:
    """Classes with their rows at the left and their accuracy at the right; of many, some."""
    shown = range(0, len(table.classes), -(-len(table.classes) // NAMED))
    counts = table.counts.sum(1)
    axis.set_yticks(shown, [plain(f"{short(names[table.classes[i]], 26)} ({counts[i]})") for i in shown])
    axis.set_ylabel("class (number of rows)", fontsize=7)
    right = axis.secondary_yaxis("right")
    right.set_yticks(shown, [f"{100 * table.accuracies[i]:.1f}" for i in shown])
    right.tick_params(length=0, labelsize=6.5)
    right.set_ylabel("ACC of the class", fontsize=7)


def _name_columns(axis: Axes, table: Matched) -> None:
    """Ids of the clusters, - where a class has none, and a line before those that no class has."""
    classes, columns = table.counts.shape
    shown = range(0, columns, -(-columns // NAMED))
    axis.set_xticks(shown, ["-" if table.clusters[i] < 0 else str(table.clusters[i]) for i in shown])
    more = ""
    if columns > classes:
        axis.axvline(classes - 0.5, color="0.2", linewidth=1)
        more = "; behind the line those of no class"
    if (table.clusters < 0).any():
        more += "; -: a class without one"
    axis.set_xlabel(wrapped(f"clusters, in the order of their classes{more}", _size(table)[0], 7), fontsize=7)


FIGURE = confusion
