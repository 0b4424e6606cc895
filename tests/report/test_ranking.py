"""Critical differences as in Demsar 2006, and which methods and data sets are ranked."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from pipeline.record import StageError
from report.figures import ranking
from report.figures.ranking import Comparison, Settings, critical_difference, draw, friedman, groups, ranks_of
from tests.report.drawn import cut_off
from tests.report.folders import ACC, plan, row, run

# Demsar 2006, table 5 (a): critical values q of the Nemenyi test for 2 to 10 classifiers.
Q = {
    0.05: (1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164),
    0.10: (1.645, 2.052, 2.291, 2.459, 2.589, 2.693, 2.780, 2.855, 2.920),
}
# Table 6: AUC of C4.5, C4.5+m, C4.5+cf, C4.5+m+cf on 14 data sets; of two equal values of voting the paper ranks the
# third first, whose digits behind those printed are larger.
AUC = np.array([
    [0.763, 0.768, 0.771, 0.798], [0.599, 0.591, 0.590, 0.569], [0.954, 0.971, 0.968, 0.967],
    [0.628, 0.661, 0.654, 0.657], [0.882, 0.888, 0.886, 0.898], [0.936, 0.931, 0.916, 0.931],
    [0.661, 0.668, 0.609, 0.685], [0.583, 0.583, 0.563, 0.625], [0.775, 0.838, 0.866, 0.875],
    [1.000, 1.000, 1.000, 1.000], [0.940, 0.962, 0.965, 0.962], [0.619, 0.666, 0.614, 0.669],
    [0.972, 0.981, 0.9751, 0.975], [0.957, 0.978, 0.946, 0.970],
]).T  # fmt: skip


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.mark.parametrize("alpha", Q)
def test_critical_differences_are_those_of_the_papers_table(alpha):
    for k, q in enumerate(Q[alpha], 2):
        for n in (2, 14, 30):
            # The paper prints three digits and, for 10 classifiers at 0.1, rounds down.
            assert critical_difference(k, n, alpha) == pytest.approx(q * np.sqrt(k * (k + 1) / (6 * n)), rel=5e-4)


def test_the_papers_example():
    """Section 3.2.4: mean ranks, Friedman's 9.28 (there without the correction for ties), CD 1.25 and 1.12."""
    ranks = ranks_of(AUC, True)
    assert ranks.mean(1).round(3).tolist() == [3.143, 2.0, 2.893, 1.964]
    k, n = ranks.shape
    plain = 12 * n / (k * (k + 1)) * ((ranks.mean(1) ** 2).sum() - k * (k + 1) ** 2 / 4)
    assert plain == pytest.approx(9.28, abs=0.01)
    ties = sum((counts**3 - counts).sum() for counts in (np.unique(block, return_counts=True)[1] for block in ranks.T))
    assert friedman(ranks)[0] == pytest.approx(plain / (1 - ties / (n * k * (k * k - 1))))
    assert critical_difference(4, 14, 0.05) == pytest.approx(1.25, abs=0.005)
    assert critical_difference(4, 14, 0.1) == pytest.approx(1.12, abs=0.005)


def test_lower_may_be_better_and_ties_share_a_rank():
    values = np.array([[1.0, 3.0], [2.0, 0.1 + 0.2], [2.0, 0.3]])
    assert ranks_of(values, True).tolist() == [[3, 1], [1.5, 2.5], [1.5, 2.5]]
    assert ranks_of(values, False).tolist() == [[1, 3], [2.5, 1.5], [2.5, 1.5]]
    assert friedman(np.full((3, 4), 2.0)) == (0.0, 1.0)


def test_bars_join_what_does_not_differ():
    assert groups(np.array([1.0, 1.5, 2.5, 4.0, 4.2]), 1.2) == [(0, 1), (1, 2), (3, 4)]
    assert groups(np.array([1.0, 2.0, 3.0]), 5) == [(0, 2)]
    assert groups(np.array([1.0, 2.0, 3.0]), 1) == []  # as far apart as the critical difference: they differ


def lines(figure, width):
    """(left, right) mean rank of all lines of a width."""
    (axis,) = figure.axes
    return [tuple(sorted(line.get_xdata())) for line in axis.lines if line.get_linewidth() == width]


def test_what_is_drawn():
    names = ["C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf"]
    compared = Comparison(names, [f"set {i}" for i in range(14)], AUC, True)
    figure = draw(compared, Settings("AUC", alpha=0.1), "train / test")
    (cd,) = lines(figure, 1.5)
    assert cd[1] - cd[0] == pytest.approx(critical_difference(4, 14, 0.1))
    # The paper's figure 1 (a): C4.5 differs from C4.5+m and C4.5+m+cf, C4.5+cf from none.
    bars = sorted(lines(figure, 3.0))
    assert [[round(end) for end in bar] for bar in bars] == [[2, 3], [3, 3]]
    said = [text.get_text() for text in figure.axes[0].texts]
    assert "C4.5+m+cf (1.96)" in said
    assert "CD = 1.12" in said
    left, right = figure.axes[0].get_xlim()
    assert left > right  # the best on the right
    assert not cut_off(figure)


def test_where_friedman_finds_nothing_one_bar_joins_all():
    """Ten methods on eight data sets, two of them further apart than the critical difference."""
    others = [
        [rank for rank in range(1, 11) if rank not in (3, 8)][i:] + [1, 2, 4, 5, 6, 7, 9, 10][:i] for i in range(8)
    ]
    ranks = np.array([[3] * 8, [8] * 8, *others])
    assert critical_difference(10, 8, 0.05) < 5
    names = list("abcdefghij")
    figure = draw(Comparison(names, names[:8], -1.0 * ranks, True), Settings("ACC"), "p")
    ((first, last),) = lines(figure, 3.0)
    assert first < 3 < 8 < last
    assert "no difference shown, one bar joins all" in " ".join(figure.get_supxlabel().split())


def test_many_long_names_fit_on_the_page():
    values = np.arange(17)[:, None] + np.zeros((17, 3))
    names = [f"A method with a rather long name, number {i} of $n" for i in range(17)]
    compared = Comparison(names, ["d", "e", "f"], values, True, ["one: no result on a data set"] * 9)
    assert not cut_off(draw(compared, Settings("ACC"), "p"))


def table(tmp_path, values, **more):
    """Plan of a table: values[label][data set] are the ACCs of its seeds."""
    rows = []
    for label, sets in values.items():
        runs = []
        for dataset, seeds in sets.items():
            for seed, acc in enumerate(seeds):
                folder = tmp_path / label / dataset / str(seed)
                runs.append(run(folder, seed, acc) | {"dataset": dataset})
        rows.append(row(label, runs, control=label.startswith("control")))
    return plan(rows, datasets={"d": "Data", "e": "Others"}, **more)


FOUR = {
    "a": {"d": [0.5, 0.7], "e": [0.5, 0.5]}, "b": {"d": [0.55, 0.55], "e": [0.6]}, "c": {"d": [0.1], "e": [0.1, 0.3]},
    "control": {"d": [0.9], "e": [0.9]}, "half": {"d": [0.9]},
}  # fmt: skip


def test_means_over_seeds_are_compared_and_what_is_left_out_is_said(tmp_path):
    found = ranking.read(table(tmp_path, FOUR), Settings("ACC"))
    assert found.methods == ["a", "b", "c"]
    assert found.datasets == ["Data", "Others"]
    np.testing.assert_allclose(found.values, [[60, 50], [55, 60], [10, 20]])
    assert found.said == ["half: no result on Others", "c on Data: 1 of 2 seeds", "b on Others: 1 of 2 seeds"]
    with_controls = ranking.read(table(tmp_path, FOUR), Settings("ACC", controls=True))
    assert with_controls.methods == ["a", "b", "c", "control"]
    lower = table(tmp_path, FOUR, metrics={"ACC": ACC | {"better": "lower"}})
    assert not ranking.read(lower, Settings("ACC")).higher


@pytest.mark.parametrize(
    ("left", "settings", "message"),
    [
        (("a", "b"), Settings("ACC"), "2 methods with ACC on each of 2 data sets found, at least 3 methods"),
        (("half",), Settings("ACC"), "1 methods with ACC on each of 1 data sets found.*left out: no results on Others"),
        (("a", "b", "c"), Settings("NMI"), "no rows of 'clustering' with 'NMI' to rank"),
        (("a", "b", "c"), Settings("ACC", of="linear"), "no rows of 'linear' with 'ACC' to rank"),
    ],
)
def test_too_little_to_rank_is_one_line(tmp_path, left, settings, message):
    with pytest.raises(StageError, match=message) as problem:
        ranking.read(table(tmp_path, {label: FOUR[label] for label in left}), settings)
    assert "\n" not in str(problem.value)
