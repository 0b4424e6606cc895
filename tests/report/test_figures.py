"""Figures say what their data say: looked at through matplotlib's own objects."""

import dataclasses
import json
import shutil
import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest

from pipeline import catalogue
from pipeline.naming import ConfigError
from pipeline.record import StageError, hashes, run_stage
from pipeline.wings import signature, wing_modules, wing_names
from preparation.prepared import open_prepared
from report.figure import Shown, load, project
from report.figures import convergence, distances, history, rank_grid, snapshots
from report.plot import main
from report.scatter import Scatter, scatters
from tests.conftest import ROOT


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_tables_and_figures_need_no_torch():
    modules = ", ".join(["report.tables", "report.layouts", "report.plot", *wing_modules("figure")])
    code = f"import sys, {modules}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("kind", wing_names("figure"))
def test_every_file_of_the_wing_keeps_the_contract(kind):
    module = load(kind)
    assert dataclasses.is_dataclass(module.Settings)
    fields = {field.name for field in dataclasses.fields(module.Settings)}
    assert set(signature("figure", kind).settings) == fields
    assert callable(module.FIGURE)
    assert module.__doc__
    assert kind in {catalogue.entry("figure", name)["kind"] for name in catalogue.names("figure")}


def test_a_wrong_kind_or_key_of_a_figure_is_named():
    figure = {"name": "f", "title": "t", "kind": "embeding", "recipes": {"a": "simclr"}}
    for change, message in (
        ({}, "'embeding'; did you mean 'embedding'"),
        ({"kind": "embedding", "projektion": "umap"}, "unknown key 'projektion'; did you mean 'projection'"),
        ({"kind": "history"}, "'columns' is missing"),
    ):
        with pytest.raises(ConfigError, match=message):
            catalogue.entry_or_json("figure", json.dumps(figure | change))


def test_curves_of_every_run_that_has_the_column():
    a, b = np.array([[1, 3.0], [2, 2.0]]), np.array([[1, 4.0], [2, 1.0], [3, 0.5]])
    axes = history.draw({"total": {"a": [a], "b": [b]}, "extra": {"b": [b]}}).axes
    assert [len(axis.lines) for axis in axes] == [2, 1]
    np.testing.assert_array_equal(axes[0].lines[1].get_xydata(), b)
    assert axes[0].lines[0].get_linestyle() != axes[0].lines[1].get_linestyle()
    assert axes[0].lines[0].get_marker() != axes[0].lines[1].get_marker()
    assert axes[1].lines[0].get_color() == axes[0].lines[1].get_color()  # a run keeps its colour
    assert [text.get_text() for text in axes[0].get_figure().legends[0].texts] == ["a", "b"]


def test_seeds_are_thin_and_their_mean_is_thick():
    one, other = np.array([[1, 0.2], [5, 0.4], [9, 0.6]]), np.array([[1, 0.4], [9, 0.8]])
    (axis,) = convergence.draw({"d": {"a": [one, other]}}).axes
    thin, thick = axis.lines[:2], axis.lines[2]
    np.testing.assert_array_equal(thin[0].get_xydata(), one)
    np.testing.assert_array_equal(thin[1].get_xydata(), other)
    np.testing.assert_allclose(thick.get_xydata(), [[1, 0.3], [9, 0.7]])  # where both have a value
    assert thick.get_linewidth() > thin[0].get_linewidth()
    assert axis.get_title() == "mean of 2 seeds"


def test_every_class_has_one_colour_in_every_panel_and_its_name():
    labels = np.arange(33) % 3 - (np.arange(33) >= 30)
    planes = {"a": np.random.rand(33, 2), "b": np.random.rand(33, 2)}
    figure = scatters({"d": Scatter(planes, labels, ["cat", "dog", "$"])})
    colours = [[line.get_color() for line in axis.lines] for axis in figure.axes]
    assert colours[0] == colours[1]
    assert len(set(colours[0])) == 4
    for axis, plane in zip(figure.axes, planes.values(), strict=True):
        for number, line in enumerate(axis.lines, -1):
            np.testing.assert_array_equal(line.get_xydata(), plane[labels == number])
    legend = figure.legends[0]
    assert [text.get_text() for text in legend.texts] == ["cat", "dog", r"\$", "no label"]
    assert [handle.get_color() for handle in legend.legend_handles] == [*colours[0][1:], colours[0][0]]


def test_points_without_any_label_are_grey_and_have_no_legend():
    figure = scatters({"d": Scatter({"a": np.random.rand(9, 2)}, np.full(9, -1), ["0", "1"])})
    assert not figure.legends
    assert [line.get_color() for line in figure.axes[0].lines] == ["0.6"]


def test_rank_grid_shows_agreement():
    generator = np.random.default_rng(0)
    clusters = np.arange(40) % 4
    x = generator.normal(size=(4, 5))[clusters] * 5 + generator.normal(size=(40, 5))
    first, second = rank_grid.rank_tables(x, 3 * x, clusters)
    np.testing.assert_array_equal(first, second)
    axis = rank_grid.draw({"mine": (first, second)}).axes[0]
    assert axis.get_title() == "mine: 1.00 agree"
    assert axis.images[0].get_array().all()


def test_an_isometry_has_no_gaps():
    x = np.random.default_rng(0).normal(size=(60, 4))
    rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(4, 4)))[0]
    np.testing.assert_allclose(distances.neighbour_gaps(x, x @ rotation), 0, atol=1e-12)
    assert distances.neighbour_gaps(x, 2 * x).mean() > 0


def test_convergence_shows_the_points_it_is_given():
    curves = {"one": [np.array([[1, 0.2], [5, 0.7]])], "other": [np.array([[1, 0.1]])]}
    (axis,) = convergence.draw({"d": curves}).axes
    assert [line.get_label() for line in axis.lines] == ["one", "other"]
    np.testing.assert_array_equal(axis.lines[0].get_xydata(), curves["one"][0])


@pytest.mark.parametrize("projection", ["tsne", "pca"])
def test_projections_repeat(projection):
    z = np.random.default_rng(0).normal(size=(50, 6)).astype(np.float32)
    plane = project(z, projection)
    assert plane.shape == (50, 2)
    np.testing.assert_array_equal(plane, project(z, projection))
    assert project(z[:, :1], projection).shape == (50, 2)


@pytest.fixture
def shown(digits_200, tmp_path):
    """A run's files as figures read them, and `draw`: one figure of it through the stage."""
    generator = np.random.default_rng(0)
    run = tmp_path / "run"
    run.mkdir()
    h = generator.normal(size=(200, 3)).astype(np.float32)
    np.savez(run / "features.npz", h=h, p=np.eye(10, dtype=np.float32)[np.arange(200) % 10])
    (run / "history.csv").write_text("epoch,total\n1,2.5\n2,1.5\n")
    kept = {"1": h[:60], "10": h[60:120], "1_clusters": np.zeros(60, int), "10_clusters": np.arange(60) % 10}
    np.savez(run / "snapshots.npz", rows=np.arange(60), **kept)

    trained = {
        "settings": {"recipe": {}, "protocol": {}},
        "seed": 0,
        "status": "ok",
        "device": "cpu",
        "code": "c",
    }
    trained |= {"git": None, "ended": "2026-01-01T00:00:00+00:00"}
    prepared = json.loads((digits_200 / "card.json").read_text())["record"]
    (run / "train.json").write_text(json.dumps({"records": {"prepare": prepared, "train": trained}}))
    record_files(run)
    return run


def record_files(run):
    """Write the hashes of the files that are there into the records, as the stages do."""
    records = json.loads((run / "train.json").read_text())["records"]
    records["train"]["files"] = hashes(run / "history.csv", run / "snapshots.npz")
    (run / "train.json").write_text(json.dumps({"records": records}))
    records["embed"] = {"files": hashes(run / "features.npz")}
    (run / "features.json").write_text(json.dumps({"records": records}))


@pytest.fixture
def draw(shown, digits_200, tmp_path, monkeypatch):
    def one(**figure):
        settings = json.dumps({"name": "f", "title": "A title", "recipes": {"t = 1": "simclr"}, **figure})
        words = ["plot", "--figure", settings, "--data", digits_200, "--runs", f"t = 1={shown}"]
        monkeypatch.setattr(sys, "argv", list(map(str, [*words, "--out", tmp_path / "f.png"])))
        (tmp_path / "f.png").unlink(missing_ok=True)
        run_stage(main)
        return plt.imread(tmp_path / "f.png")

    return one


def test_the_stage_draws_files_of_runs(draw, capsys):
    for figure in (
        {"kind": "history", "columns": ["total", "missing"]},
        {"kind": "embedding", "projection": "pca"},
        {"kind": "convergence"},
        {"kind": "embedding", "projection": "pca", "recipes": {"t = 1": {"recipe": "simclr", "features": "p"}}},
        {"kind": "snapshots", "projection": "pca"},
        {"kind": "rank_grid"},
        {"kind": "distances"},
    ):
        image = draw(**figure)
        assert image.std() > 0.02  # something is drawn
    with pytest.raises(SystemExit):
        draw(kind="history", columns=["missing"])
    assert "no history has a column of ['missing']; found: ['epoch', 'total']" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        draw(kind="embedding", features="z", projection="pca")
    assert "no array 'z', it has h, p" in capsys.readouterr().err


KINDS = {
    "features.npz": {"kind": "embedding", "projection": "pca"},
    "snapshots.npz": {"kind": "convergence"},
    "history.csv": {"kind": "history", "columns": ["total"]},
    "train.json": {"kind": "distances"},
}


@pytest.mark.parametrize("damage", ["missing", "cut off", "empty", "flipped", "other"])
@pytest.mark.parametrize("file", KINDS)
def test_a_damaged_file_is_one_line_and_no_figure(shown, draw, tmp_path, capsys, file, damage):
    path = shown / file
    content = path.read_bytes()
    path.unlink()
    if damage != "missing":
        place = min(1000, len(content) // 2)  # of features.npz in the array that is drawn
        flipped = content[:place] + bytes([content[place] ^ 0x80]) + content[place + 1 :]
        path.write_bytes({"cut off": content[:-5], "empty": b"", "flipped": flipped, "other": b"[1]\n"}[damage])
    with pytest.raises(SystemExit):
        draw(**KINDS[file])
    told = capsys.readouterr().err
    assert told.startswith(f"error: {path}")
    assert len(told.splitlines()) == 1
    assert not (tmp_path / "f.png").exists()


def test_arrays_of_a_program_that_wants_to_be_run_are_refused(shown, draw, capsys):
    np.savez(shown / "features.npz", h=np.array([print], dtype=object))
    record_files(shown)
    with pytest.raises(SystemExit):
        draw(kind="distances")
    assert "features.npz: no readable arrays (Object arrays cannot be loaded" in capsys.readouterr().err


def test_a_run_of_other_data_is_not_drawn_with_these_labels(shown, draw, capsys):
    stored = json.loads((shown / "train.json").read_text())
    stored["records"]["prepare"]["fingerprint"] = "other"
    (shown / "train.json").write_text(json.dumps(stored))
    with pytest.raises(SystemExit):
        draw(kind="distances")
    assert f"error: {shown} was made from data other" in capsys.readouterr().err


def test_snapshots_without_rows_or_of_a_diverged_run_are_not_drawn(shown, draw, capsys):
    h = np.ones((60, 3), np.float32)
    for arrays, message in (
        ({"1": h}, "no array 'rows', it has 1"),
        ({"rows": np.arange(60), "7": np.full((60, 3), np.nan)}, "epoch 7 is not finite; the run diverged"),
    ):
        np.savez(shown / "snapshots.npz", **arrays)
        record_files(shown)
        with pytest.raises(SystemExit):
            draw(kind="snapshots", projection="pca")
        assert f"error: {shown}/snapshots.npz: {message}" in capsys.readouterr().err


def test_snapshots_of_other_rows_do_not_share_colours(shown, digits_200, tmp_path):
    """Points were once coloured by the labels of the last run's rows, whichever run they were of."""
    other = shutil.copytree(shown, tmp_path / "other")
    with np.load(shown / "snapshots.npz") as stored:
        np.savez(other / "snapshots.npz", **{**stored, "rows": np.arange(60, 120)})
    data = open_prepared(digits_200)
    runs = {name: Shown(folder, None, data, name, 0) for name, folder in (("a", shown), ("b", other))}
    with pytest.raises(StageError, match="a, b: trained on other rows"):
        snapshots.snapshots(runs, data, snapshots.Settings("pca"))


def test_a_history_may_leave_a_value_out(shown, draw):
    (shown / "history.csv").write_text("epoch,total,late\n1,2.5,\n2,1.5,3.0\n")
    record_files(shown)
    assert draw(kind="history", columns=["late"]).std() > 0.02
