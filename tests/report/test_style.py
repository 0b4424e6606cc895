"""How figures look: colours apart, text in its place, mathematics drawn, compared panels on the same axes."""

import itertools

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.lines import Line2D

from pipeline.record import StageError
from report.figures import convergence, distances, history
from report.plot import save
from report.scatter import Scatter, scatters
from report.style import (
    check_text,
    class_style,
    curve_style,
    legend_below,
    panels,
    plain,
    set_title,
    text_width,
    wrapped,
)
from tests.report.drawn import cut_off, placed


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def seen_by(colour):
    """A colour as somebody without red cones and without green cones sees it (Vienot, Brettel, Mollon 1999), linear."""
    linear = np.array(
        [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in plt.matplotlib.colors.to_rgb(colour)]
    )
    to_lms = np.array([[17.8824, 43.5161, 4.11935], [3.45565, 27.1554, 3.86714], [0.0299566, 0.184309, 1.46709]])
    protan = np.array([[0, 2.02344, -2.52581], [0, 1, 0], [0, 0, 1]])
    deutan = np.array([[1, 0, 0], [0.494207, 0, 1.24827], [0, 0, 1]])
    return [np.linalg.inv(to_lms) @ kind @ to_lms @ linear for kind in (np.eye(3), protan, deutan)]


def test_all_can_tell_colours_apart():
    """Red and green of matplotlib's own first ten colours lie within 0.05 of each other without red cones."""
    views = [seen_by(class_style(number)["color"]) for number in range(10)]
    for first, second in itertools.combinations(views, 2):
        assert all(np.abs(a - b).max() > 0.06 for a, b in zip(first, second, strict=True))


def test_no_two_classes_or_curves_look_alike():
    assert len({tuple(class_style(number).values()) for number in range(60)}) == 60
    curves = [curve_style(number) for number in range(4)]  # also where no colour can be seen
    assert len({curve["linestyle"] for curve in curves}) == len({curve["marker"] for curve in curves}) == 4


def test_text_is_as_narrow_as_asked_and_mathematics_stays_whole():
    text = r"A title that is long, with $a + b + c + d$ and a-dollar: \$5 and averyverylongnamewithoutanyspaceinit"
    for width in (0.9, 2.0, 4.0):
        lines = wrapped(text, width, 8).split("\n")
        assert all(text_width(line, 8) <= width for line in lines)
        assert sum(r"$a + b + c + d$" in line for line in lines) == 1
        assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert wrapped("short", 4.0, 8) == "short"
    assert text_width("wide wide", 8) > 1.5 * text_width("wide", 8)
    assert text_width(r"\$", 8) == text_width("$", 8) > 0


def test_mathematics_that_cannot_be_drawn_is_one_line():
    check_text(r"$z^c$ costs \$5", "here")
    with pytest.raises(StageError, match=r"here: '\$z\^\$' cannot be drawn .*; a dollar sign is written") as problem:
        check_text("$z^$", "here")
    assert "\n" not in str(problem.value)
    check_text(plain("US$ and A$"), "here")


LONG = "A rather long label of a run, with $z^c$, seed 12"


def curves(labels, last=9):
    return {label: [np.array([[1, 0.1], [last, -4.5678]])] for label in labels}


@pytest.mark.parametrize(
    "draw",
    [
        lambda: history.draw({f"a_long_loss_{i}, A data set": curves([LONG, f"{LONG} b", "c"]) for i in range(4)}),
        lambda: convergence.draw({f"A long data set {i}": curves(map(str, range(9))) for i in range(3)}),
        lambda: convergence.draw({"one": curves([LONG, "$t = 1$"])}),
        lambda: distances.draw({f"{LONG}{i}": np.random.rand(50) for i in range(6)}),
        lambda: scatters({t: Scatter({f"{LONG}{i}": np.random.rand(30, 2) for i in range(3)}, np.arange(30) % 20,
                                     [f"class of a long name {i}" for i in range(20)]) for t in ("a", "b")}),
    ],
    ids=["history", "convergence", "one", "distances", "embedding"],
)  # fmt: skip
def test_no_text_is_cut_off_or_lies_on_another(draw):
    figure = draw()
    set_title(figure, "CDC: accuracy of the clusters by temperature $t$ (Fig. 3), and so on (digits, USPS, CIFAR10)")
    boxes = placed(figure)
    assert not cut_off(figure, boxes)
    for (first, a), (second, b) in itertools.combinations(boxes, 2):
        across, down = min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)
        assert across < 2 or down < 2, f"{first!r} lies on {second!r}"


def test_panels_that_are_compared_share_their_axes():
    figure = distances.draw({"a": np.linspace(0, 1, 50), "b": np.linspace(-5, 0, 70), "c": np.full(9, 3.0)})
    assert len({axis.get_xlim() for axis in figure.axes}) == len({axis.get_ylim() for axis in figure.axes}) == 1
    left, right = figure.axes[0].get_xlim()
    assert (left < -5, right > 3) == (True, True)
    for axis in figure.axes[:3]:
        assert sum(patch.get_height() for patch in axis.patches) == pytest.approx(1)  # shares, whatever their number
    assert [axis.get_title() for axis in figure.axes[:3]] == ["a: mean 0.50", "b: mean -2.50", "c: mean 3.00"]


def test_a_figure_is_two_files_of_the_same_bytes_each_time(tmp_path):
    figure, (axis,) = panels(1, 2.0)
    axis.plot([1, 2], [3, 4])
    legend_below(figure, {"$t = 1$": Line2D([], [])})
    for name in ("a", "b"):
        save(figure, tmp_path / f"{name}.png")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.pdf", "a.png", "b.pdf", "b.png"]
    for ending, head in (("png", b"\x89PNG"), ("pdf", b"%PDF")):
        first, second = ((tmp_path / f"{name}.{ending}").read_bytes() for name in ("a", "b"))
        assert first.startswith(head)
        assert first == second
