"""Galleries and confusion matrices: which rows they show of which cluster, and what they say of classes."""

import itertools
import json
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.patches import Rectangle

from evaluation.confusion import matched_confusion
from evaluation.metrics.accuracy import accuracy
from pipeline.record import StageError, hashes
from report.clusters import Clusters, clusters, no_clusters, space, spread
from report.figure import Shown, diverged
from report.figures import confusion, gallery
from report.figures.gallery import Settings, strips_of
from report.plot import showable
from tests.report.drawn import cut_off

RNG = np.random.default_rng(0)
H, IDS = RNG.normal(size=(40, 5)).astype(np.float32) * 3, RNG.integers(0, 4, 30)
ROWS = np.arange(10, 40)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def data(labels, names=None, images=None, classes=4, files=None, shape=(6, 6, 1)):
    card = {"name": "d", "shape": list(shape), "classes": classes, "class_names": names, "record": {"settings": {}}}
    card["notes"] = {"files": files} if files else {}
    return SimpleNamespace(card=card, labels=np.asarray(labels), images=images, root=None, folder="d")


@pytest.fixture
def run(tmp_path):
    """A run with clusters of its last 30 rows, as the stages leave it; `change` edits the record of the assigner."""

    def made(of=None, features="h", normalise=False, embed="e", status="ok", asked=None, **facts):
        np.savez(tmp_path / "features.npz", h=H, z=H[:, :2] + 1, p=np.eye(5, dtype=np.float32)[RNG.integers(0, 5, 40)])
        embedded = {"fingerprint": "e", "files": hashes(tmp_path / "features.npz")}
        (tmp_path / "features.json").write_text(json.dumps({"records": {"embed": embedded}}))
        (tmp_path / "clusters").mkdir(exist_ok=True)
        path = tmp_path / "clusters" / "kmeans.npz"
        np.savez(path, rows=ROWS, clusters=IDS)
        entry = {"name": "kmeans", "features": features, "normalise": normalise}
        record = {"status": status, "files": hashes(path), "settings": {"assigner": entry}, **facts}
        records = {"embed": embedded | {"fingerprint": embed}, "assign/kmeans": record}
        path.with_suffix(".json").write_text(json.dumps({"records": records}))
        return Shown(tmp_path, asked, of or data(np.arange(40) % 4), "A", 0, "kmeans")

    return made


def test_clusters_are_read_with_their_rows(run):
    found = clusters(run())
    np.testing.assert_array_equal(found.rows, ROWS)
    np.testing.assert_array_equal(found.ids, IDS)
    assert no_clusters(run()) is None


def test_clusters_of_other_features_or_of_none_are_one_line(run):
    with pytest.raises(StageError, match=r"kmeans\.npz was made from other features than those of"):
        clusters(run(embed="other"))
    failed = run(status="not_possible", reason="K=9 of N=3")
    with pytest.raises(StageError, match=r"kmeans\.npz: no clusters, their stage ended as not_possible .K=9 of N=3."):
        clusters(failed)
    assert no_clusters(failed) == "no clusters, their stage ended as not_possible (K=9 of N=3)"
    damaged = run()
    (damaged.folder / "clusters" / "kmeans.npz").write_bytes(b"x")
    with pytest.raises(StageError, match=r"kmeans\.npz"):
        clusters(damaged)


@pytest.mark.parametrize(
    ("features", "normalise", "asked", "expected"),
    [
        ("h", False, None, ("h", False)), ("z", True, None, ("z", True)), ("p", False, None, ("h", True)),
        ("h", False, "z", ("z", False)),
    ],
)  # fmt: skip
def test_distances_are_to_the_mean_of_the_cluster(run, features, normalise, asked, expected):
    shown = run(features=features, normalise=normalise, asked=asked)
    found = clusters(shown)
    assert space(shown, found) == expected
    x = (H if expected[0] == "h" else H[:, :2] + 1)[ROWS].astype(float)
    if expected[1]:
        x = np.array([row / np.sqrt((row**2).sum()) for row in x])
    means = {c: sum(x[i] for i in range(30) if IDS[i] == c) / (c == IDS).sum() for c in range(4)}
    distances = [np.sqrt(((x[i] - means[IDS[i]]) ** 2).sum()) for i in range(30)]
    np.testing.assert_allclose(spread(shown, found), distances, atol=1e-6)


def test_strips_show_the_nearest_and_the_farthest_once_each():
    found = Clusters(np.arange(10, 20), np.array([3, 3, 3, 3, 3, 3, 0, 0, 7, 7]), {})
    distances = np.array([5, 1, 2, 2, 9, 4, 1, 0, 1, 1.0])
    labels = np.full(20, 2)
    labels[[10, 11, 12, 16]] = [0, 0, 0, 1]
    strips = strips_of(found, distances, data(labels, ["a", "b", "c", "d"]), Settings(nearest=2, farthest=3))
    assert [(strip.cluster, strip.size) for strip in strips] == [(3, 6), (0, 2), (7, 2)]
    assert [row for row, _, _ in strips[0].near] == [11, 12]
    assert [row for row, _, _ in strips[0].far] == [14, 10, 15]
    assert strips[0].near[0] == (11, 1, "a")
    assert (strips[0].top, strips[0].pure, strips[0].share) == ("a", 0.5, 0.6)
    assert [row for row, _, _ in strips[1].near] == [17, 16]
    assert strips[1].far == []
    without = strips_of(found, distances, data(np.full(20, -1)), Settings())
    assert all(strip.top is None for strip in without)
    assert {name for strip in without for _, _, name in strip.near} == {None}


@pytest.mark.parametrize(("channels", "side"), [(3, 1), (1, 6), (3, 20)])
def test_a_gallery_shows_these_images_and_frames_other_classes(run, channels, side):
    images = RNG.integers(0, 256, (40, side, side + 1, channels), dtype=np.uint8)
    labels = np.full(40, 1)
    labels[ROWS[np.flatnonzero(IDS == 2)[:2]]] = 0
    shown = run(data(labels, ["cat", "dog"], images, 2, [f"f{i}.jpg" for i in range(40)], images.shape[1:]))
    figure, told = gallery.gallery({"A": shown}, shown.data, Settings(nearest=40, farthest=0, clusters=3))
    (axis,) = figure.axes
    order = [row["row"] for row in told]
    assert len(axis.images) == len(order) == sum(sorted(np.bincount(IDS))[1:])
    for image, row in zip(axis.images, order, strict=True):
        np.testing.assert_array_equal(image.get_array(), np.broadcast_to(images[row], (side, side + 1, 3)))
    frames = [patch for patch in axis.patches if isinstance(patch, Rectangle)]
    assert len(frames) == sum(labels[row] == 0 for row in order)
    if frames:
        where = {tuple(np.round((image.get_extent()[0], image.get_extent()[3]), 6)) for image, row in
                 zip(axis.images, order, strict=True) if labels[row] == 0}  # fmt: skip
        assert {tuple(np.round(frame.get_xy(), 6)) for frame in frames} == where
    assert told[0]["path"] == f"f{order[0]}.jpg"
    assert {row["class"] for row in told} <= {"cat", "dog"}
    assert "3 of 4, largest first" in axis.texts[-1].get_text()
    assert not cut_off(figure)


def test_a_gallery_without_labels_says_nothing_of_classes(run):
    images = np.zeros((40, 6, 6, 1), np.uint8)
    shown = run(data(np.full(40, -1), None, images))
    figure, told = gallery.gallery({"A": shown}, shown.data, Settings())
    assert not [patch for patch in figure.axes[0].patches if isinstance(patch, Rectangle)]
    assert not {"class", "top class", "path"} & {key for row in told for key in row}
    assert "class" not in " ".join(text.get_text() for text in figure.axes[0].texts)


def best(labels, ids):
    """Accuracy of each class under the best one-to-one matching, by trying all of them."""
    classes, found = sorted(set(labels)), sorted(set(ids))
    found += [None] * (len(classes) - len(found))
    ways = [dict(zip(classes, way, strict=True)) for way in itertools.permutations(found, len(classes))]
    hits = [[np.mean(ids[labels == c] == way[c]) if way[c] is not None else 0 for c in classes] for way in ways]
    sizes = [(labels == c).sum() for c in classes]
    return max(hits, key=lambda each: sum(h * n for h, n in zip(each, sizes, strict=True)))


@pytest.mark.parametrize("k", [2, 4, 6])
def test_the_accuracy_of_each_class(run, k):
    labels = np.repeat([0, 1, 3], [12, 11, 17])
    shown = run(data(labels, ["cat", "dog", "no row", "a $ bird"]))
    ids = np.where(RNG.random(30) < 0.7, labels[ROWS], RNG.integers(0, k, 30)) % k
    np.savez(shown.folder / "clusters" / "kmeans.npz", rows=ROWS, clusters=ids)
    stored = json.loads((shown.folder / "clusters" / "kmeans.json").read_text())
    stored["records"]["assign/kmeans"]["files"] = hashes(shown.folder / "clusters" / "kmeans.npz")
    (shown.folder / "clusters" / "kmeans.json").write_text(json.dumps(stored))
    figure, told = confusion.confusion({"A": shown}, shown.data, confusion.Settings())
    assert [row["name"] for row in told] == ["cat", "dog", "a $ bird"]
    np.testing.assert_allclose([row["accuracy"] for row in told], best(labels[ROWS], ids), atol=1e-6)
    for row in told:
        of_class = ids[labels[ROWS] == row["class"]]
        assert row["n"] == len(of_class)
        assert {c: row[f"cluster {c}"] for c in set(ids)} == {c: (of_class == c).sum() for c in set(ids)}
    axis = figure.axes[0]
    assert axis.get_title(loc="left") == f"A: ACC {100 * accuracy(labels[ROWS], ids):.2f}"
    named = [label.get_text() for label in axis.get_yticklabels()]
    assert named == [f"cat ({told[0]['n']})", f"dog ({told[1]['n']})", rf"a \$ bird ({told[2]['n']})"]
    right = axis.child_axes[0].get_yticklabels()
    assert [label.get_text() for label in right] == [f"{100 * row['accuracy']:.1f}" for row in told]
    shares = axis.images[0].get_array()
    columns = [label.get_text() for label in axis.get_xticklabels()]
    for i, row in enumerate(told):
        for j, column in enumerate(columns):
            held = 0 if column == "-" else row[f"cluster {column}"]
            assert shares[i, j] == pytest.approx(held / row["n"])
    assert not cut_off(figure)


def test_a_hundred_classes_fit_and_some_are_named():
    labels = np.arange(1000) % 100
    table = matched_confusion(labels, (labels * 7 + (RNG.random(1000) < 0.2)) % 120)
    figure = confusion.draw({"A": table}, {"A": [f"a class of a very long name {i}" for i in range(100)]})
    assert len(figure.axes[0].get_yticklabels()) <= 40
    assert not cut_off(figure)


def test_rows_without_labels_are_compared_with_no_class(run):
    shown = run(data(np.full(40, -1)))
    with pytest.raises(StageError, match=r"its scored rows have no labels .or several., .* draw a gallery instead"):
        confusion.confusion({"A": shown}, shown.data, confusion.Settings())


def test_a_failed_run_costs_itself(run):
    good, bad = run(), run()
    bad = Shown(bad.folder, None, bad.data, "B", 1, "kmeans", "diverged")
    runs, said = showable("f", {"A": good, "B, seed 1": bad}, diverged)
    assert list(runs) == ["A"]
    assert said == "; left out: B, seed 1: diverged"
    assert showable("f", {"A": good, "B": bad}, None) == ({"A": good, "B": bad}, "")
    with pytest.raises(StageError, match="figure 'f': nothing to show; B: diverged"):
        showable("f", {"B": bad}, diverged)
    for module in (gallery, confusion):
        assert module.LACKS is no_clusters
