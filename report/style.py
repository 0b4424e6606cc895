"""How figures look: at the size of a page, in colours that all can tell apart, with titles that fit.

The ten colours are M. A. Petroff's sequence of 2021 ("Accessible color sequences for data visualization", made for
normal and for each kind of colour-deficient vision), which matplotlib ships; more classes than that take other marks.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.cbook import is_math_text
from matplotlib.figure import FigureBase
from matplotlib.font_manager import FontProperties
from matplotlib.mathtext import MathTextParser
from matplotlib.textpath import text_to_path

from pipeline.record import StageError

COLOURS = matplotlib.color_sequences["petroff10"]
MARKS = "o^svDP"
DASHES = ["-", "--", ":", "-."]
GREY = "0.6"  # of what has no class
WIDTH = 7.0  # inches: the text of a page
HELD = "\N{NO-BREAK SPACE}"  # in place of a space that no line ends at
LEGEND = 20  # as many classes have a legend
PNG, PDF = {"dpi": 200}, {"dpi": 300, "metadata": {"CreationDate": None}}  # the same drawing is the same bytes

plt.rcParams.update(
    {
        "font.size": 8,
        "axes.titlesize": 8,
        "axes.labelsize": 8,
        "figure.titlesize": 9,
        "legend.fontsize": 8,
        "xtick.labelsize": 7,
        "ytick.labelsize": 7,
        "lines.linewidth": 1.2,
        "lines.markersize": 3.5,
        "axes.prop_cycle": plt.cycler(color=COLOURS),
        "image.composite_image": False,  # every image of a gallery keeps its pixels in a PDF
        "pdf.fonttype": 42,  # TrueType: text that can be searched, and that publishers take
    }
)


def class_style(number: int) -> dict[str, Any]:
    """Colour and mark of a class; no two of the first 60 have both in common."""
    return {"color": COLOURS[number % len(COLOURS)], "marker": MARKS[number // len(COLOURS) % len(MARKS)]}


def curve_style(number: int) -> dict[str, Any]:
    """Colour, dash and mark of a curve, which differ so that any of them tells the first four apart."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "linestyle": DASHES[number % len(DASHES)],
        "marker": MARKS[number % len(MARKS)],
    }


def plain(text: str) -> str:
    """Text of a user's own, such as the name of a class, in which a dollar sign is a dollar sign."""
    return text.replace("$", r"\$")


def check_text(text: str, where: str) -> None:
    """Raise StageError for mathematics between dollar signs that cannot be drawn."""
    if not is_math_text(text):
        return
    try:
        MathTextParser("path").parse(text)
    except ValueError as problem:
        said = " ".join(str(problem).split())
        raise StageError(f"{where}: {text!r} cannot be drawn ({said}); a dollar sign is written \\$") from None


def text_width(text: str, size: float) -> float:
    """Width of one line of text in inches, at a font size in points."""
    math = bool(is_math_text(text))
    shown = text if math else text.replace(r"\$", "$")
    return text_to_path.get_text_width_height_descent(shown, FontProperties(size=size), math)[0] / 72


def wrapped(text: str, width: float, size: float) -> str:
    """The text in as many lines as it takes to be no wider than `width` inches; mathematics stays in one piece."""
    held = re.sub(r"(?<!\\)\$.*?(?<!\\)\$", lambda found: found[0].replace(" ", HELD), text)
    lines: list[str] = []
    words = re.split("[ \t\n]+", held)
    for word in (piece for whole in words for piece in _pieces(whole.replace(HELD, " "), width, size)):
        if lines and text_width(f"{lines[-1]} {word}", size) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return "\n".join(lines)


def _pieces(word: str, width: float, size: float) -> list[str]:
    """A word, halved as often as it takes to fit; mathematics cannot be halved."""
    if len(word) < 4 or "$" in word or text_width(word, size) <= width:
        return [word]
    half = len(word) // 2
    return [*_pieces(word[:half], width, size), *_pieces(word[half:], width, size)]


def width_of(figure: FigureBase) -> float:
    """Inches of a figure, or of one of its parts."""
    return figure.bbox.width / figure.get_figure(root=True).dpi  # type: ignore[union-attr]


def set_title(figure: FigureBase, text: str) -> None:
    """A title above a whole figure, or above one of its parts, that is not cut off."""
    figure.suptitle(wrapped(text, 0.94 * width_of(figure), plt.rcParams["font.size"] + 1))


def set_panel_title(axis: Axes, text: str, side: float) -> None:
    """A title above one panel of `side` inches, as wide as what its axis leaves of them."""
    axis.set_title(wrapped(text, 0.8 * side, plt.rcParams["axes.titlesize"]))


def legend_columns(names: Sequence[str], width: float) -> int:
    """Columns of a legend that is no wider than `width` inches, all nearly of the same length."""
    column = max(text_width(name, float(plt.rcParams["legend.fontsize"])) for name in names) + 0.5
    fit = max(1, min(len(names), int(width / column)))
    return -(-len(names) // -(-len(names) // fit))  # 10 names where 9 fit are 5 + 5, not 9 + 1


def legend_below(figure: FigureBase, entries: Mapping[str, Artist]) -> None:
    """A legend below all panels: name -> one of what it names."""
    if entries:
        columns = legend_columns(list(entries), width_of(figure))
        place = {"loc": "outside lower center", "ncols": columns, "frameon": False}
        figure.legend(entries.values(), entries.keys(), handletextpad=0.5, columnspacing=1.2, **place)


def panels(
    count: int, side: float, *, share: bool = False, below: Sequence[str] = (), within: FigureBase | None = None
) -> tuple[Any, list[Axes]]:
    """A figure with `count` square panels of `side` inches, in as many rows as the width of a page asks for, and its
    axes. `share`: the panels are compared, so their axes are the same. `below`: the names of a legend that needs room.
    `within`: a part of a figure to draw into instead.
    """
    rows, columns, size = page(count, side, below)
    figure = within or plt.figure(figsize=size, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharex=share, sharey=share)
    for axis in axes.flat[count:]:
        axis.set_axis_off()
    return figure, list(axes.flat[:count])


def page(count: int, side: float, below: Sequence[str] = ()) -> tuple[int, int, tuple[float, float]]:
    """Rows, columns, width and height in inches of `count` panels of one side, with a title and a legend `below`."""
    rows = -(-count // max(1, int(WIDTH / side)))
    columns = -(-count // rows)  # 6 panels are 3 + 3, not 5 + 1
    width = min(WIDTH, side * columns + 0.3)
    legend = -(-len(below) // legend_columns(below, width)) if below else 0
    return rows, columns, (width, side * rows + 0.4 + 0.18 * legend)


def parts(count: int, sizes: Sequence[tuple[float, float]]) -> list[Any]:
    """A figure of several parts one below the other, each of a width and a height in inches."""
    heights = [height for _, height in sizes]
    figure = plt.figure(figsize=(max(width for width, _ in sizes), sum(heights) + 0.3), layout="constrained")
    return list(figure.subfigures(count, 1, height_ratios=heights, squeeze=False).flat)
