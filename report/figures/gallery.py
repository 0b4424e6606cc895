"""Images of each cluster: the nearest to its mean, and the farthest from it. Labels, if there are any, are told."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from preparation.prepared import Prepared
from preparation.thumbnails import thumbnails
from report.clusters import Clusters, clusters, no_clusters, space, spread
from report.figure import Shown, class_names, short
from report.style import WIDTH, plain, plt

several = True
LACKS = no_clusters
of_clusters = True
of_images = True
title = "Nearest and farthest images of each cluster"

CELL = 0.44  # inches of an image, less where many stand in a row
MARGIN = 1.25  # inches of the words beside a row
OTHER = "#d55e00"  # frame of an image of another class than most of its cluster


@dataclass(frozen=True)
class Settings:
    nearest: int = 6  # images of a cluster nearest to its mean
    farthest: int = 6  # and farthest from it, of those that are left
    clusters: int = 20  # the largest ones are shown


@dataclass(frozen=True)
class Strip:
    """One cluster: how many rows it has, and the rows of the data set that are shown of it, with their distances."""

    cluster: int
    size: int
    share: float  # of all rows
    top: str | None  # the most frequent class; None without labels
    pure: float  # its share of the cluster
    near: list[tuple[int, float, str | None]]  # (row, distance, class), nearest first
    far: list[tuple[int, float, str | None]]  # farthest first


def gallery(runs: Mapping[str, Shown], data: Prepared, settings: Settings) -> tuple[Figure, list[dict[str, Any]]]:
    strips, said = {}, {}
    for label, run in runs.items():
        found = clusters(run)
        every = strips_of(found, spread(run, found), run.data, settings)
        strips[label] = every[: settings.clusters]
        name, unit = space(run, found)
        what = f"Distance in {name}{' of unit length' if unit else ''}"
        count = f"{len(every)} clusters" if len(every) <= settings.clusters else f"{settings.clusters} of {len(every)}"
        said[label] = f"{count}, largest first. {what} to the cluster's mean."
        if every[0].top is not None:
            said[label] += " Framed: of another class than most of its cluster."
    told = [row for label, run in runs.items() for row in numbers(label, strips[label], run.data)]
    return draw(strips, {label: run.data for label, run in runs.items()}, settings, said), told


def strips_of(found: Clusters, distances: np.ndarray, data: Prepared, settings: Settings) -> list[Strip]:
    """One strip for each occupied cluster, the largest first; equal ones in the order of their ids, equal distances in
    that of the rows.
    """
    labels = data.labels[found.rows] if data.labels.ndim == 1 else np.full(len(found.rows), -1)
    names = class_names(data)
    strips = []
    for cluster in np.unique(found.ids):
        members = np.flatnonzero(found.ids == cluster)
        order = members[np.argsort(distances[members], kind="stable")]
        near = order[: settings.nearest]
        far = order[len(near) :][::-1][: settings.farthest]
        counts = np.bincount(labels[members][labels[members] >= 0])
        top = int(counts.argmax()) if len(counts) else None
        shown = [
            [(int(found.rows[i]), float(distances[i]), names[labels[i]] if labels[i] >= 0 else None) for i in part]
            for part in (near, far)
        ]
        pure = 0.0 if top is None else counts[top] / len(members)
        named = None if top is None else names[top]
        strips.append(Strip(int(cluster), len(members), len(members) / len(found.rows), named, pure, *shown))
    return sorted(strips, key=lambda strip: (-strip.size, strip.cluster))


def numbers(label: str, strips: list[Strip], data: Prepared) -> list[dict[str, Any]]:
    """What is shown as rows of a table, so that an image can be found: by its row in the data, or its path."""
    paths = data.images if data.root is not None else data.card.get("notes", {}).get("files")
    rows = []
    for strip in strips:
        facts = {"run": label, "cluster": strip.cluster, "size": strip.size}
        if strip.top is not None:
            facts |= {"top class": strip.top, "top share": round(strip.pure, 4)}
        for place, images in (("nearest", strip.near), ("farthest", strip.far)):
            for rank, (row, distance, name) in enumerate(images, 1):
                found = {"place": place, "rank": rank, "distance": float(f"{distance:.6g}"), "row": row}
                more = ({"class": name} if name is not None else {}) | (
                    {"path": str(paths[row])} if paths is not None else {}
                )
                rows.append(facts | found | more)
    return rows


def draw(
    strips: Mapping[str, list[Strip]], data: Mapping[str, Prepared], settings: Settings, said: Mapping[str, str]
) -> Figure:
    """One block of strips for each run; `said` stands below it."""
    columns = settings.nearest + settings.farthest + 0.5
    cell = min(CELL, (WIDTH - MARGIN) / columns)
    heights = [len(block) * cell + 0.55 for block in strips.values()]
    size = (MARGIN + columns * cell, sum(heights) + 0.3)
    figure, axes = plt.subplots(
        len(strips), 1, figsize=size, squeeze=False, height_ratios=heights, layout="constrained"
    )
    for axis, (label, block) in zip(axes.flat, strips.items(), strict=True):
        _draw_block(axis, block, data[label], settings, MARGIN / cell)
        axis.set_title(label, loc="left", pad=14)
        axis.text(0, 0, said[label], transform=axis.transAxes, fontsize=6.5, va="top", color="0.3")
    return figure


def _draw_block(axis: Axes, strips: list[Strip], data: Prepared, settings: Settings, margin: float) -> None:
    """Units of the axis are images: strip i lies at y = i, the farthest begin half an image after the nearest."""
    gap, far = 0.06, settings.nearest + 0.5
    for y, strip in enumerate(strips):
        _words(axis, y, strip)
        for start, shown in ((0.0, strip.near), (far, strip.far)):
            images = thumbnails(data, [row for row, _, _ in shown])
            for x, ((_, _, name), image) in enumerate(zip(shown, images, strict=True), 1):
                height, width = np.array(image.shape[:2]) / max(image.shape[:2]) * (1 - gap) / 2
                left, middle = start + x - 0.5, y + 0.5
                box = (left - width, left + width, middle + height, middle - height)
                axis.imshow(image, extent=box, interpolation="nearest" if max(image.shape) < 48 else "auto")
                if strip.top is not None and name != strip.top:
                    frame = {"fill": False, "edgecolor": OTHER, "linewidth": 1.2}
                    axis.add_patch(Rectangle((left - width, middle - height), 2 * width, 2 * height, **frame))
    for start, word in ((0.0, "nearest"), (far, "farthest")):
        axis.text(start + gap, -0.08, word, fontsize=7, va="bottom")
    axis.set(xlim=(-margin, far + settings.farthest), ylim=(len(strips) + 0.05, 0), aspect="equal")
    axis.set_axis_off()


def _words(axis: Axes, y: int, strip: Strip) -> None:
    """Name, size and, with labels, the most frequent class of a strip, left of its images."""
    lines = [f"cluster {strip.cluster}", f"{strip.size} row{'s' * (strip.size > 1)}, {strip.share:.1%}"]
    if strip.top is not None:
        name = f"class {strip.top}" if strip.top.isdecimal() else strip.top  # no number among numbers
        lines.append(f"{plain(short(name, 18))}: {strip.pure:.0%}")
    axis.text(-0.15, y + 0.5, "\n".join(lines), fontsize=6.5, va="center", ha="right", linespacing=1.15)


FIGURE = gallery
