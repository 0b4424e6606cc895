"""Points of the plane coloured by class: what the figures of embeddings share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from preparation.prepared import Prepared
from report.figure import class_names
from report.style import GREY, LEGEND, class_style, legend_below, page, panels, parts, plain, set_panel_title, set_title

SIDE = 1.7  # inches of a panel
POINT = 1.8  # size of a point
LONGEST = 24  # characters of a class's name


@dataclass(frozen=True)
class Scatter:
    """Panels of one data set: planes[name] is [N, 2]; `labels` [N] are numbers of `classes`, below 0 for none."""

    planes: Mapping[str, np.ndarray]
    labels: np.ndarray
    classes: Sequence[str]

    @classmethod
    def of(cls, planes: Mapping[str, np.ndarray], data: Prepared, rows: np.ndarray) -> Self:
        """Planes of these rows of a data set."""
        return cls(planes, data.labels[rows], class_names(data))

    @property
    def legend(self) -> dict[str, Artist]:
        """Name of a class -> its mark, and one for points without a class among others."""
        found = {int(number) for number in np.unique(self.labels)}
        if len(found - {-1}) > LEGEND:
            return {f"{len(found - {-1})} classes: colours and marks repeat": Line2D([], [], linestyle="")}
        if found == {-1}:
            return {}
        numbers = sorted(found, key=lambda number: (number < 0, number))
        return dict(zip(self._names(numbers), (Line2D([], [], **style(number)) for number in numbers), strict=True))

    def _names(self, numbers: Sequence[int]) -> list[str]:
        """Names for a legend, told apart by number where two are cut off at the same letters."""
        names = {number: "no label" if number < 0 else plain(short(self.classes[number])) for number in numbers}
        alike = len(set(names.values())) < len(names)
        return [f"{number} {name}" if alike and number >= 0 else name for number, name in names.items()]


def style(number: int) -> dict[str, Any]:
    """Colour and mark of a class, grey for none, of points as of their entry in a legend."""
    seen = class_style(number) if number >= 0 else {"color": GREY, "marker": "."}
    return {"linestyle": "", "markeredgewidth": 0, "markersize": 4, **seen}


def short(name: str) -> str:
    """A class's name at a length that a legend can hold."""
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"


def scatters(found: Mapping[str, Scatter]) -> Figure:
    """One row of panels, with its own legend, for every data set by its title."""
    several = len(found) > 1
    sizes = [page(len(one.planes), SIDE, list(one.legend))[2] for one in found.values()]
    places: list[Any] = parts(len(found), sizes) if several else [None]
    for place, (title, one) in zip(places, found.items(), strict=True):
        drawn = draw(one, place)
        if several:
            set_title(drawn, title)
    return drawn.get_figure(root=True)


def draw(one: Scatter, within: Any = None) -> Any:
    """One panel per plane, into a part of a figure or a new one, which is returned."""
    legend = one.legend
    figure, axes = panels(len(one.planes), SIDE, below=list(legend), within=within)
    for axis, (name, plane) in zip(axes, one.planes.items(), strict=True):
        for number in np.unique(one.labels):
            points = plane[one.labels == number]
            axis.plot(*points.T, **style(int(number)) | {"markersize": POINT}, rasterized=True, label=str(number))
        axis.set(xticks=[], yticks=[])
        set_panel_title(axis, name, SIDE)
    legend_below(figure, legend)
    return figure
