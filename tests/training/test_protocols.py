"""Which rows and which labels train, proven by poisoning all the others, for every protocol."""

import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import training.train
from pipeline import catalogue, recipes
from pipeline.provenance import canonical_json
from preparation.prepared import open_prepared
from tests import poison

SMALL = {"base": None, "batch_size": 8, "schedule": {"epochs": 1}, "network": {"widths": [4], "pool_after": []}}


@pytest.fixture
def train(tmp_path, monkeypatch):
    """Train a recipe on a folder; returns its weights, and what it recorded."""
    monkeypatch.setenv("BENCH_DEVICE", "cpu")

    def run(name, data, protocol):
        out = tmp_path / f"run{len(list(tmp_path.glob('run*')))}"
        recipe = canonical_json(recipes.resolve(name, "digits_200", {"*": SMALL}))
        words = ["--data", data, "--recipe", recipe, "--protocol", protocol, "--seed", 0, "--out", out]
        monkeypatch.setattr(sys, "argv", ["train", *map(str, words), "--resume", str(tmp_path / "resume")])
        training.train.main()
        record = json.loads((out / "train.json").read_text())["records"]["train"]
        with np.load(out / "snapshots.npz") as stored:
            rows = stored["rows"]
        return SimpleNamespace(weights=torch.load(out / "model.pt")["method"], record=record, rows=rows)

    return run


def same(one, other):
    return all(torch.equal(value, other.weights[name]) for name, value in one.weights.items())


@pytest.mark.parametrize("protocol", [*poison.PROTOCOLS, *poison.WITHOUT_LABELS])
def test_images_of_the_training_splits_train_and_no_label_does(protocol, train, tmp_path):
    folder = poison.of_protocol(tmp_path, protocol)
    data, every = open_prepared(folder), catalogue.entry("protocol", protocol)
    rows, unread = data.rows(every["train"]), poison.others(data, every["train"])
    whole = train("simclr", folder, protocol)
    assert whole.record["settings"]["protocol"] == {"name": protocol, "train": every["train"]}
    assert np.array_equal(whole.rows, rows)
    labelled = np.flatnonzero(data.labels >= 0)
    assert same(whole, train("simclr", poison.poison(folder, tmp_path / "unread", unread, labelled), protocol))
    assert not same(whole, train("simclr", poison.poison(folder, tmp_path / "read", rows[-8:]), protocol))


@pytest.mark.parametrize("protocol", poison.PROTOCOLS)
def test_a_method_with_labels_reads_those_of_the_probes_training_splits_alone(protocol, train, tmp_path):
    folder = poison.of_protocol(tmp_path, protocol)
    data, splits = open_prepared(folder), catalogue.entry("protocol", protocol)["probe"]["train"]
    rows, unread = data.rows(splits), poison.others(data, splits)
    whole = train("supervised", folder, protocol)
    assert whole.record["settings"]["protocol"] == {"name": protocol, "train": splits}
    assert np.array_equal(whole.rows, rows)
    assert same(whole, train("supervised", poison.poison(folder, tmp_path / "unread", unread, unread), protocol))
    assert not same(whole, train("supervised", poison.poison(folder, tmp_path / "labels", None, rows[:4]), protocol))
    assert not same(whole, train("supervised", poison.poison(folder, tmp_path / "images", rows[:4]), protocol))
    if protocol != "all":  # where everything is scored no row is left
        assert len(np.intersect1d(rows, data.rows(catalogue.entry("protocol", protocol)["score"]))) == (
            len(rows) if protocol == "training" else 0
        )


def test_scored_images_that_a_recipe_watches_choose_but_do_not_train():
    """What training reads of the scored splits is named in its record, and only where the recipe watches them."""
    protocol = catalogue.entry("protocol", "split")
    plain, watching = (recipes.resolve(name, "digits") for name in ("scan", "scan-test_unsup"))
    assert recipes.splits_read(plain, "split", protocol) == {"name": "split", "train": ["train"]}
    read = recipes.splits_read(watching, "split", protocol)
    assert read == {"name": "split", "train": ["train"], "score": ["test"]}
