"""Curves over the epochs, one per label: what the figures of losses and of accuracy share.

Several seeds of a label are thin lines of its colour, and a thick one their mean, where all of them have a value.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from report.style import curve_style

Curve = np.ndarray  # [epochs, 2]: epoch and value


def plot(axis: Axes, curves: Mapping[str, Sequence[Curve]], order: Sequence[str]) -> dict[str, Artist]:
    """Draw the seeds' curves of every label; `order` gives each label its style. Returns label -> its line."""
    drawn: dict[str, Artist] = {}
    for label, seeds in curves.items():
        style = curve_style(order.index(label))
        if len(seeds) > 1:
            for curve in seeds:
                axis.plot(*curve.T, color=style["color"], linewidth=0.5, alpha=0.6, label=f"_{label}")
        mean = mean_curve(seeds)
        every = max(1, len(mean) // 10)  # a mark on each of 1000 epochs would hide the dashes
        (drawn[label],) = axis.plot(*mean.T, **style, markevery=every, label=label)
    return drawn


def mean_curve(seeds: Sequence[Curve]) -> Curve:
    """The mean of the curves at the epochs that all have."""
    common = sorted(set.intersection(*(set(curve[:, 0]) for curve in seeds)))
    values = [[dict(curve)[epoch] for epoch in common] for curve in seeds]
    return np.column_stack([common, np.mean(values, axis=0)]) if common else np.empty((0, 2))


def seeds_said(curves: Mapping[str, Sequence[Curve]]) -> str:
    """What an axis says of its curves where they are means."""
    counts = sorted({len(seeds) for seeds in curves.values()})
    return "" if counts in ([1], []) else f"mean of {' or '.join(map(str, counts))} seeds"
