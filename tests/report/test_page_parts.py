"""Parts of the report page: curves of training, data cards, costs, and the colours that they are read in."""

import math
import random
import re

import pytest

from pipeline.record import StageError, write_json
from pipeline.runs import Run
from report.page_cards import cards, costs
from report.page_curves import BOTTOM, LEFT, POINTS, RIGHT, TOP, curves, thinned
from tests.conftest import ROOT
from tests.report.pages import card, trained


def sources(*entries):
    return [source for entry in entries for source in entry["sources"] if source["stage"] == "train"]


def drawn(results, *histories, **train):
    """The only group of curves of one recipe with these histories, by seed."""
    entries = [trained(results, "r", seed, 0.5, history, **train) for seed, history in enumerate(histories)]
    (group,) = curves(sources(*entries))
    return group


def points(curve):
    return [tuple(map(int, pair.split())) for pair in curve.path.removeprefix("M").split("L")]


def test_a_chart_for_every_column_and_a_line_for_every_seed(tmp_path):
    group = drawn(tmp_path, "epoch,push,total\n1,5,8\n2,7,4\n3,6,0\n", "epoch,push,total\n1,5,6\n2,5,4\n3,5,2\n")
    assert group.run == Run("d", "full", "r", 0)
    assert [chart.column for chart in group.charts] == ["total", "push"]
    total, _ = group.charts
    middle, half = (LEFT + RIGHT) // 2, (TOP + BOTTOM) // 2
    assert points(total.curves[0]) == [(LEFT, TOP), (middle, half), (RIGHT, BOTTOM)]
    quarter = (BOTTOM - TOP) // 4
    assert points(total.curves[1]) == [(LEFT, TOP + quarter), (middle, half), (RIGHT, BOTTOM - quarter)]
    assert total.up == [(BOTTOM, "0"), (228, "2"), (half, "4"), (84, "6"), (TOP, "8")]
    assert total.across == [(LEFT, "1"), (middle, "2"), (RIGHT, "3")]
    assert total.said == "total over epochs 1 to 3: seed 0 8 to 0, seed 1 6 to 2"


def test_what_is_not_finite_is_left_out_and_named(tmp_path):
    history = "epoch,total,push\n1,3,nan\n2,2,inf\n3,inf,1e305\n"
    group = drawn(tmp_path, history, status="diverged", diverged={"epoch": 3, "term": "push"})
    assert [len(points(curve)) for curve in group.charts[0].curves] == [2]
    assert group.charts[1].curves[0].path == ""
    assert group.notes == ["seed 0: diverged in epoch 3, term push", "seed 0: push has nothing finite to draw"]


@pytest.mark.parametrize("value", ["0", "5e-324", "-1e299", "1e-8", "0.25"])
def test_one_value_and_one_epoch_lie_in_the_middle(tmp_path, value):
    (chart,) = drawn(tmp_path, f"epoch,total\n1,{value}\n").charts
    x, y = map(int, re.match(r"M(\d+) (\d+)m", chart.curves[0].path).groups())
    assert (x, y) == ((LEFT + RIGHT) / 2, (TOP + BOTTOM) / 2)
    assert chart.up
    assert chart.across


def test_the_largest_and_the_smallest_spans_have_scales(tmp_path):
    for history in ("1,-9e299\n2,9e299\n", "1,0\n2,1e-290\n", "1,1\n2,1.0000001\n", "7,0.1\n300000,0.2\n"):
        (chart,) = drawn(tmp_path, f"epoch,total\n{history}").charts
        assert points(chart.curves[0]) in ([(LEFT, BOTTOM), (RIGHT, TOP)], [(LEFT, TOP), (RIGHT, BOTTOM)])
        assert 2 <= len(chart.up) <= 6
        assert all(TOP <= place <= BOTTOM for place, _ in chart.up)
        assert all(LEFT <= place <= RIGHT for place, _ in chart.across)


def test_a_long_curve_keeps_its_ends_and_all_its_peaks(tmp_path):
    draw = random.Random(0)
    line = [(float(epoch), draw.random()) for epoch in range(1, 1001)]
    line[501] = (502.0, 99.0)
    line[777] = (778.0, -99.0)
    kept = thinned(line)
    assert len(kept) <= POINTS + 2
    assert kept == sorted(kept)
    assert {line[0], line[-1], line[501], line[777]} <= set(kept)
    assert set(kept) <= set(line)
    assert thinned(line[:POINTS]) == line[:POINTS]


def test_a_training_that_is_missing_stale_or_damaged_is_named_and_not_drawn(tmp_path):
    entries = [trained(tmp_path, "r", seed, 0.5) for seed in range(4)]
    folder = tmp_path / "runs/d/full/r"
    (folder / "seed1/train.json").unlink()
    (folder / "seed2/history.csv").write_text("epoch,total\n1,9\n")
    entries[3] = trained(tmp_path, "r", 3, 0.5, fingerprint="of before")
    (group,) = curves(sources(*entries))
    assert [curve.seed for curve in group.charts[0].curves] == [0]
    assert group.notes[0] == "seed 1: not run"
    assert re.match(f"seed 2: {folder}/seed2/history.csv: sha256 .* delete it and run its stage again", group.notes[1])
    assert group.notes[2] == "seed 3: stale, trained with other code, settings, seed or inputs"


def test_data_sets_protocols_and_recipes_have_their_own_curves(tmp_path):
    entries = [trained(tmp_path, "r", 0, 0.5), trained(tmp_path, "s", 0, 0.5), trained(tmp_path, "r", 0, 0.5,
               dataset="e"), trained(tmp_path, "r", 1, 0.5)]  # fmt: skip
    groups = curves(sources(*entries))
    assert [(group.run.dataset, group.run.recipe, len(group.charts[0].curves)) for group in groups] == [
        ("d", "r", 2), ("d", "s", 1), ("e", "r", 1),
    ]  # fmt: skip


def test_a_recipe_that_trains_nothing_has_no_curves_and_no_notes(tmp_path):
    group = drawn(tmp_path, "epoch\n")
    assert (group.charts, group.notes) == ([], [])


def test_the_run_of_a_file_is_that_of_its_folder():
    run = Run("d", "full", "simclr-x", 12)
    for path in ("train.json", "metrics/clustering/kmeans.json"):
        assert Run.at(f"/a/runs/b/{run.path}/{path}") == Run.at(f"{run.path}/{path}") == run
    for path in ("results/data/d/card.json", run.path, "runs/d/full/r/seedx/train.json"):
        with pytest.raises(StageError, match="not in the folder of a run"):
            Run.at(path)


def test_a_card_shows_splits_counts_and_hashes(tmp_path):
    (shown,) = cards([card(tmp_path)])
    facts = dict(shown.facts)
    assert shown.splits == (("train", 30), ("test", 10))
    assert [counts for _, counts in shown.classes] == [(20, 6), (10, 4)]
    assert shown.classes[0][0] == "cat"
    assert facts["normalisation"] == "mean 0.5; std 0.25"
    assert facts["content"] == "c0"
    assert facts["sha256 of images.npy"] == "1a2b"
    assert facts["rows"] == "40"
    assert facts["source rows"].startswith("500 values: 0, 1, 2")
    assert len(facts["source rows"]) < 100


def test_a_card_without_names_or_with_splits_of_other_classes_is_whole(tmp_path):
    (shown,) = cards([card(tmp_path, class_names=None, counts={"train": [20, 10], "test": [6]}, normalisation=None)])
    assert shown.classes == (("0", (20, 6)), ("1", (10, "")))
    assert "normalisation" not in dict(shown.facts)


@pytest.mark.parametrize("text", ["", "[]", '{"record": {}}', '{"record": 3}', '{"record": {"fingerprint": "p"}}'])
def test_a_damaged_card_is_named(tmp_path, text):
    source = card(tmp_path)
    (tmp_path / "data/d/card.json").write_text(text)
    (shown,) = cards([source])
    assert shown.name == "d"
    assert "card.json" in shown.problem


def test_a_card_of_other_data_is_stale(tmp_path):
    (shown,) = cards([card(tmp_path) | {"fingerprint": "q"}])
    assert shown.problem == "stale: prepared with other code, settings or files"


def stage(results, recipe, seed, name, seconds, fingerprint="x"):
    """A source of a run with a record that took so long."""
    path = results / "runs/d/full" / recipe / f"seed{seed}" / f"{name.replace('/', '_')}.json"
    write_json(path, {"records": {name: {"fingerprint": fingerprint, "seconds": seconds}}})
    return {"record": str(path), "stage": name, "fingerprint": "x"}


def test_costs_are_summed_by_recipe_and_stage(tmp_path):
    found = [
        card(tmp_path),
        *(stage(tmp_path, "r", seed, "train", 10.0 + seed) for seed in (0, 1)),
        stage(tmp_path, "r", 0, "assign/kmeans", 1.0),
        stage(tmp_path, "r", 0, "score/kmeans", 0.5),
        stage(tmp_path, "r", 0, "probe/knn", 0.25),
        stage(tmp_path, "s", 0, "train", 100.0),
        stage(tmp_path, "s", 1, "train", 1000.0, "of before"),
    ]
    spent = costs(found)
    assert spent.stages == ["prepare", "train", "assign", "evaluate"]
    assert spent.rows == [
        ("(data sets)", [2.0, None, None, None], 2.0, 0),
        ("r", [None, 21.0, 1.0, 0.75], 22.75, 2),
        ("s", [None, 100.0, None, None], 100.0, 1),
    ]
    assert spent.totals == [2.0, 121.0, 1.0, 0.75, 124.75]
    assert spent.left_out == 1


def luminance(colour):
    digits = colour if len(colour) == 6 else "".join(2 * digit for digit in colour)
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return math.sumprod((0.2126, 0.7152, 0.0722), linear) if hasattr(math, "sumprod") else sum(
        weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True)
    )  # fmt: skip


def contrast(one, other):
    """WCAG 2.2's contrast ratio."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_text_and_curves_can_be_told_from_what_is_behind_them(scheme):
    block = re.findall(r":root \{(.*?)\}", (ROOT / "report/web/page.css").read_text(), re.S)[scheme]
    colours = dict(re.findall(r"--(\w+): #([0-9a-f]+);", block))
    for name in ("ink", "quiet", "link", "warn", "good"):
        for behind in ("paper", "soft"):
            assert contrast(colours[name], colours[behind]) >= 4.5, (name, behind)
    for number in range(8):
        assert contrast(colours[f"c{number}"], colours["paper"]) >= 3, number
