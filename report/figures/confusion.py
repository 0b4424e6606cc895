"""Classes against clusters: column i is the cluster that the best one-to-one matching gives to class i.

The matching is that of the accuracy (evaluation/metrics/accuracy.py). Clusters without a class follow, largest first;
all that they hold counts as wrong.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from evaluation.confusion import Matched, matched_confusion
from pipeline.record import StageError
from preparation.prepared import Prepared
from report.clusters import clusters
from report.figure import Shown

of_clusters = True
of_labels = True
title = "Classes against clusters"

COUNTED = 24  # columns up to which every cell holds its count
NAMED = 60  # classes up to which every row has its name
SIDE = 6.0  # inches that the matrix takes at most


@dataclass(frozen=True)
class Settings:
    pass


def confusion(runs: Mapping[str, Shown], data: Prepared, settings: Settings) -> tuple[Figure, list[dict[str, Any]]]:
    tables = {}
    for label, run in runs.items():
        found = clusters(run)
        labels = data.labels[found.rows]
        if labels.ndim != 1 or (labels < 0).any():
            raise StageError(
                f"{run.folder}: its scored rows have no labels (or several), and classes are compared with clusters "
                "here; draw a gallery instead"
            )
        tables[label] = matched_confusion(labels, found.ids)
    names = data.card.get("class_names") or [str(number) for number in range(data.card["classes"])]
    return draw(tables, names), [row for label, table in tables.items() for row in numbers(label, table, names)]


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


def draw(tables: Mapping[str, Matched], names: list[str]) -> Figure:
    """One matrix for each run."""
    sizes = [_size(table) for table in tables.values()]
    heights = [height + 0.9 for _, height in sizes]
    figure, axes = plt.subplots(
        len(tables), 1, figsize=(max(width for width, _ in sizes) + 2.2, sum(heights) + 0.4), squeeze=False,
        height_ratios=heights, layout="constrained",
    )  # fmt: skip
    for axis, (label, table) in zip(axes.flat, tables.items(), strict=True):
        _draw_matrix(axis, table, names)
        share = table.counts.diagonal().sum() / table.counts.sum()
        axis.set_title(f"{label}: ACC {share:.2%}".replace("$", r"\$"), fontsize=8, loc="left")
    return figure


def _size(table: Matched) -> tuple[float, float]:
    """Inches of a matrix: square cells of a third of an inch, smaller where there are many."""
    rows, columns = table.counts.shape
    cell = min(0.36, SIDE / max(rows, columns))
    return max(1.5, cell * columns), max(0.8, cell * rows)


def _draw_matrix(axis: Axes, table: Matched, names: list[str]) -> None:
    counts, classes = table.counts, len(table.classes)
    shares = counts / counts.sum(1, keepdims=True)
    axis.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    if counts.shape[1] <= COUNTED:
        for i, j in np.argwhere(counts):
            colour = "white" if shares[i, j] > 0.6 else "black"
            axis.text(j, i, str(counts[i, j]), ha="center", va="center", fontsize=6.5, color=colour)
    if counts.shape[1] > classes:  # what follows is matched to no class
        axis.axvline(classes - 0.5, color="0.2", linewidth=1)
    _label(axis, table, names)
    axis.tick_params(length=0, labelsize=6.5)
    axis.set_ylabel("class (number of rows)", fontsize=7)
    surplus = "; behind the line those matched to none" if counts.shape[1] > classes else ""
    axis.set_xlabel(f"clusters, in the order of the classes they are matched to{surplus}", fontsize=7)


def _label(axis: Axes, table: Matched, names: list[str]) -> None:
    """Classes with their rows at the left and their accuracy at the right, clusters below; - where a class has none."""
    classes, columns = len(table.classes), table.counts.shape[1]
    if classes <= NAMED:
        said = [f"{names[number]} ({n})".replace("$", r"\$") for number, n in
                zip(table.classes, table.counts.sum(1), strict=True)]  # fmt: skip
        axis.set_yticks(range(classes), said)
        right = axis.secondary_yaxis("right")
        right.set_yticks(range(classes), [f"{accuracy:.1%}" for accuracy in table.accuracies])
        right.tick_params(length=0, labelsize=6.5)
        right.set_ylabel("accuracy of the class", fontsize=7)
    if columns <= NAMED:
        axis.set_xticks(range(columns), ["-" if cluster < 0 else str(cluster) for cluster in table.clusters])


FIGURE = confusion
