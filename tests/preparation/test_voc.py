"""VOC07: official lists and photographs (made ones here), several labels an image, from the files to the score."""

import json
import sys

import numpy as np
import pytest
from PIL import Image

from evaluation import evaluate
from pipeline import catalogue
from pipeline.naming import ConfigError
from pipeline.plan import Plan
from pipeline.record import Record, hashes
from preparation.prepared import DataError, open_prepared, write_prepared
from preparation.readers import read
from preparation.voc import CLASSES
from tests.evaluation.samples import probe

SIZES = {"train": 12, "test": 8}
KEYS = ("clustering/c", "voc07_svm")


@pytest.fixture
def voc(tmp_path):
    """(spec, root, labels [20, 20]): 12 + 8 images, each with a third of the classes; some others are difficult."""
    base = tmp_path / "VOCdevkit" / "VOC2007"
    for folder in ("ImageSets/Main", "JPEGImages"):
        (base / folder).mkdir(parents=True)
    image, label = np.arange(20)[:, None], np.arange(20)
    labels = np.where((image + label) % 3 == 0, 1, np.where((image * label) % 7 == 1, 0, -1))
    numbers = [f"{i:06d}" for i in range(20)]
    for number in numbers:
        Image.new("RGB", (10, 8), (int(number), 0, 0)).save(base / "JPEGImages" / f"{number}.jpg")
    for c, name in enumerate(CLASSES):
        for image_set, rows in (("trainval", range(12)), ("test", range(12, 20))):
            lines = [f"{numbers[i]} {labels[i, c]:2d}" for i in rows]
            (base / "ImageSets/Main" / f"{name}_{image_set}.txt").write_text("\n".join(lines) + "\n")
    return catalogue.entry("data set", "voc07") | {"splits": SIZES}, tmp_path, labels


def prepared(voc, folder):
    spec, root, _ = voc
    raw = read(spec, root, False)
    record = Record("prepare", ("preparation.prepare",), {}, {})
    write_prepared(folder, "voc07", spec, raw.images, raw.labels, raw.splits, raw.source, record, raw.notes, raw.root,
                   raw.class_names)  # fmt: skip
    return open_prepared(folder)


def test_lists_become_labels_of_every_class(voc, tmp_path):
    data = prepared(voc, tmp_path / "prepared")
    np.testing.assert_array_equal(data.labels, voc[2])
    assert data.images[13] == "JPEGImages/000013.jpg"
    assert (data.root / data.images[13]).is_file()
    assert data.card["splits"] == {"train": [0, 12], "test": [12, 20]}
    assert data.card["counts"]["train"] == (voc[2][:12] == 1).sum(0).tolist()
    assert len(CLASSES) == len(set(CLASSES)) == data.card["classes"] == 20
    assert data.card["class_names"] == list(CLASSES)


def test_official_sizes():
    assert catalogue.entry("data set", "voc07")["splits"] == {"train": 5011, "test": 4952}


def test_features_that_show_the_labels_score_one_and_noise_does_not(voc, tmp_path):
    data = prepared(voc, tmp_path / "prepared")
    rows = [data.rows([split]) for split in ("train", "test")]
    clear = np.where(data.labels == 1, 1.0, 0.0).astype(np.float32)
    found = probe("voc07_svm", clear, data.labels, *rows)
    assert found["mAP"] == pytest.approx(1.0)
    noise = np.random.default_rng(0).normal(size=clear.shape).astype(np.float32)
    assert probe("voc07_svm", noise, data.labels, *rows)["mAP"] < 0.95


def test_files_that_are_not_the_official_ones_are_named(voc, tmp_path):
    spec, root, _ = voc
    lists, pictures = (root / "VOCdevkit/VOC2007" / part for part in ("ImageSets/Main", "JPEGImages"))
    cat = lists / "cat_trainval.txt"
    kept = cat.read_text()
    cat.write_text(kept.replace("000003", "000099"))
    with pytest.raises(DataError, match=r"cat_trainval.txt: 12 images, not the 12 of aeroplane_trainval.txt"):
        read(spec, root, False)
    cat.write_text(kept.replace("-1", "7"))
    with pytest.raises(DataError, match=r"cat_trainval.txt: lines of an image and 1, 0 or -1 expected"):
        read(spec, root, False)
    cat.unlink()
    with pytest.raises(DataError, match=r"cat_trainval.txt: not found; unpack"):
        read(spec, root, False)
    cat.write_text(kept)
    cat.write_bytes(b"\xff")
    with pytest.raises(DataError, match=r"cat_trainval.txt: cannot be read .*; unpack the archives again"):
        read(spec, root, False)
    cat.write_text(kept)
    (pictures / "000003.jpg").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"000003.jpg: cannot be decoded"):
        read(spec, root, False)
    (pictures / "000003.jpg").write_bytes((pictures / "000005.jpg").read_bytes())
    (pictures / "000004.jpg").unlink()
    with pytest.raises(DataError, match=r"000004.jpg: not found, but listed in trainval"):
        read(spec, root, False)
    with pytest.raises(DataError, match="set BENCH_DATA_ROOT"):
        read(spec, None, False)


def test_labels_of_the_wrong_kind_are_refused(voc, tmp_path):
    spec, root, labels = voc
    record = Record("prepare", ("preparation.prepare",), {}, {})
    paths = np.array([f"{i}.jpg" for i in range(20)])
    with pytest.raises(DataError, match=r"labels of shape \[20\] found, \[N, 20\] expected"):
        write_prepared(tmp_path / "x", "voc07", spec, paths, labels[:, 0], SIZES, "made", record, {}, str(root))
    one = spec | {"multilabel": False}
    with pytest.raises(DataError, match=r"labels of shape \[20, 20\] found, \[N\] expected"):
        write_prepared(tmp_path / "x", "voc07", one, paths, labels, SIZES, "made", record, {}, str(root))


def test_what_needs_one_label_an_image_is_refused_before_any_job(monkeypatch):
    default = catalogue.read_yaml(catalogue.CONFIG / "config.yaml") | {"tables": ["pcl_voc07"]}
    runs = Plan(default).runs.all()
    assert {(run.dataset, run.recipe) for run in runs} >= {("voc07", "transfer-pcl"), ("imagenet1k", "pcl")}
    table, entry = catalogue.entry("table", "pcl_voc07"), catalogue.entry
    for row in ({"assigner": "kmeans"}, {"probe": "linear"}):
        known = {"table": table | {"rows": [{"label": "x", "recipe": "transfer", **row}]}}
        monkeypatch.setattr(catalogue, "entry", lambda kind, name, known=known: known.get(kind) or entry(kind, name))
        asked = next(iter(row.values()))
        with pytest.raises(ConfigError, match=f"several labels, which '{asked}' cannot use"):
            Plan(default)


def test_clusters_of_images_with_several_labels_are_not_scored_and_machines_are(voc, tmp_path, monkeypatch):
    data = prepared(voc, tmp_path / "prepared")
    np.savez(tmp_path / "features.npz", h=np.where(data.labels == 1, 1.0, 0.0).astype(np.float32))
    np.savez(tmp_path / "c.npz", rows=np.arange(8), clusters=np.zeros(8, int), seen_rows=[], seen=[])
    embedded = {"fingerprint": "e", "files": hashes(tmp_path / "features.npz")}
    records = {"prepare": data.card["record"], "train": {"status": "ok"}, "embed": embedded}
    assigned = {"status": "ok", "fingerprint": "a", "files": hashes(tmp_path / "c.npz")}
    (tmp_path / "features.json").write_text(json.dumps({"records": records}))
    (tmp_path / "c.json").write_text(json.dumps({"records": {**records, "assign/c": assigned}}))
    words = ["--data", tmp_path / "prepared", "--features", tmp_path / "features.npz", "--clusters", tmp_path / "c.npz"]
    words += ["--probes", "voc07_svm", "--protocol", "split", "--seed", 0, "--out", tmp_path / "metrics.json"]
    monkeypatch.setattr(sys, "argv", ["evaluate", *map(str, words)])
    evaluate.main()
    found = [json.loads((tmp_path / "metrics" / f"{key}.json").read_text())["result"] for key in KEYS]
    assert found[0]["status"] == "not_possible"
    assert "several labels: clusters cannot be scored" in found[0]["reason"]
    assert found[1]["mAP"] == pytest.approx(1.0)
