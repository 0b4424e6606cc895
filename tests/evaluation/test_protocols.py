"""Which rows are fitted, scored and probed, proven by poisoning all the others, for every protocol."""

import json
import sys

import numpy as np
import pytest

import evaluation.assign
import evaluation.evaluate
from evaluation.probe import ProbeError
from evaluation.probes import low_shot_svm
from pipeline import catalogue
from pipeline.record import StageError, hashes
from preparation.prepared import Prepared, open_prepared
from tests import poison
from tests.evaluation.samples import probe

QUICK = {"kmeans": {"n_init": 3}, "sinkhorn": {"n_init": 3, "iterations": 20}, "gmm": {}, "kmeans_components": {}}
EPOCHS = {"epochs": 5, "batch_size": 16}
PROBES = {
    "logistic": {},
    "knn3": {},
    "linear": EPOCHS | {"lr": 1},
    "linear_mixem": EPOCHS | {"lr": 0.05, "patience": 2},
    "voc07_svm": {},
}


def features_of(data, seed=0):
    """h and p that tell classes apart, but not perfectly, in dimensions of very different scale."""
    generator = np.random.default_rng(seed)
    labels = data.labels % poison.CLASSES
    h = np.eye(poison.CLASSES, 5)[labels] + generator.normal(size=(len(labels), 5)) * 0.45
    p = np.exp(h[:, : poison.CLASSES] * 2)
    scale = np.array([1, 10, 0.1, 3, 1])
    return {"h": (h * scale).astype(np.float32), "p": (p / p.sum(1, keepdims=True)).astype(np.float32)}


@pytest.fixture
def stages(tmp_path, monkeypatch):
    """Run the stages' own mains on features as a run leaves them."""
    made = iter(range(10**6))

    def leave(folder, features):
        out = tmp_path / f"out{next(made)}"
        out.mkdir()
        np.savez(out / "features.npz", **features)
        card = json.loads((folder / "card.json").read_text())["record"]
        embedded = {"fingerprint": "e", "files": hashes(out / "features.npz")}
        records = {"prepare": card, "train": {"status": "ok"}, "embed": embedded}
        (out / "features.json").write_text(json.dumps({"records": records}))
        return out

    def run(module, folder, out, protocol, *words):
        given = ["--data", folder, "--features", out / "features.npz", "--protocol", protocol, "--seed", 0, *words]
        monkeypatch.setattr(sys, "argv", [module.__name__, *map(str, given)])
        module.main()

    def entry(kind, name, changes):
        return json.dumps({"name": name, **catalogue.entry(kind, name), **changes})

    class Stages:
        def assign(self, folder, features, protocol, name="kmeans"):
            """(arrays, facts of the fit) of an assigner's clusters; views of a few rows lie beside the features."""
            out = leave(folder, features | {"view1_z": np.zeros((3, 5), np.float32)})
            path = out / f"{name}.npz"
            asked = entry("assigner", name, QUICK[name])
            run(evaluation.assign, folder, out, protocol, "--assigner", asked, "--out", path)
            with np.load(path) as stored:
                arrays = dict(stored)
            record = json.loads(path.with_suffix(".json").read_text())["records"][f"assign/{name}"]
            assert record["status"] == "ok", record
            facts = ("inertia", "iterations", "log_likelihood", "fitted_on", "scored_on")
            return arrays, {key: record[key] for key in facts if key in record}

        def score(self, folder, features, protocol):
            """Metrics of K-means' clusters."""
            out = leave(folder, features)
            asked = entry("assigner", "kmeans", QUICK["kmeans"])
            run(evaluation.assign, folder, out, protocol, "--assigner", asked, "--out", out / "kmeans.npz")
            words = ("--clusters", out / "kmeans.npz", "--out", out / "metrics.json")
            run(evaluation.evaluate, folder, out, protocol, *words)
            return json.loads((out / "metrics" / "clustering" / "kmeans.json").read_text())["result"]

        def probe(self, folder, features, protocol, probes=PROBES):
            """Probe -> result."""
            out = leave(folder, features)
            asked = [entry("probe", name, changes) for name, changes in probes.items()]
            run(evaluation.evaluate, folder, out, protocol, "--probes", *asked, "--out", out / "metrics.json")
            return {name: json.loads((out / "metrics" / f"{name}.json").read_text())["result"] for name in probes}

    return Stages()


def noisy(features, rows, value=None):
    """The features with large noise, or one value, in some rows."""
    changed = {name: values.copy() for name, values in features.items()}
    for values in changed.values():
        noise = np.random.default_rng(9).normal(size=(len(rows), values.shape[1])) * 50
        values[rows] = noise if value is None else value
    return changed


# ---- assign: fitted on `fit`, predicts `score` (and `seen`)


@pytest.mark.parametrize("protocol", [*poison.PROTOCOLS, *poison.WITHOUT_LABELS])
def test_an_assigner_is_fitted_on_its_rows_and_predicts_the_scored_ones(protocol, stages, tmp_path):
    folder = poison.of_protocol(tmp_path, protocol)
    data, splits = open_prepared(folder), catalogue.entry("protocol", protocol)
    features, fit, score = features_of(data), data.rows(splits["fit"]), data.rows(splits["score"])
    clusters, facts = stages.assign(folder, features, protocol)
    assert np.array_equal(clusters["rows"], score)
    assert [facts["fitted_on"], facts["scored_on"]] == [len(fit), len(score)]
    unread = poison.others(data, splits["fit"], splits["score"], splits.get("seen", []))
    labels = np.flatnonzero(data.labels >= 0)
    again, same = stages.assign(poison.poison(folder, tmp_path / "poisoned", None, labels),
                                noisy(features, unread, np.nan), protocol)  # fmt: skip
    assert same == facts
    assert all(np.array_equal(clusters[name], again[name]) for name in clusters)
    _, moved = stages.assign(folder, noisy(features, fit[:5]), protocol)
    assert moved["inertia"] != facts["inertia"]
    if "seen" in splits:
        assert np.array_equal(clusters["seen_rows"], data.rows(splits["seen"]))
        assert len(clusters["seen"]) == len(clusters["seen_rows"])
        assert clusters["seen"].min() >= 0


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.parametrize("protocol", ["split", "holdout"])
def test_a_scored_row_that_is_not_fitted_changes_no_other_rows_cluster(name, protocol, stages, tmp_path):
    folder = poison.of_protocol(tmp_path, protocol)
    data, splits = open_prepared(folder), catalogue.entry("protocol", protocol)
    features, score = features_of(data), data.rows(splits["score"])
    clusters, facts = stages.assign(folder, features, protocol, name)
    again, same = stages.assign(folder, noisy(features, score[::2]), protocol, name)
    assert same == facts
    assert np.array_equal(clusters["clusters"][1::2], again["clusters"][1::2])
    assert np.array_equal(clusters["seen"], again["seen"])
    assert not np.array_equal(clusters["clusters"][::2], again["clusters"][::2])


# ---- metrics: labels of the scored rows


@pytest.mark.parametrize("protocol", poison.PROTOCOLS)
def test_metrics_read_labels_of_the_scored_rows_alone(protocol, stages, tmp_path):
    folder = poison.of_protocol(tmp_path, protocol)
    data, splits = open_prepared(folder), catalogue.entry("protocol", protocol)
    features, score = features_of(data), data.rows(splits["score"])
    found = stages.score(folder, features, protocol)
    assert found["status"] == "ok"
    assert found["n"] == len(score)
    unread = poison.others(data, splits["score"], splits.get("seen", []))
    unread = unread[data.labels[unread] >= 0]
    assert stages.score(poison.poison(folder, tmp_path / "unread", None, unread), features, protocol) == found
    read = stages.score(poison.poison(folder, tmp_path / "read", None, score[:10]), features, protocol)
    assert read["ACC"] != found["ACC"]
    if "seen" in splits:
        assert found["seen"]["n"] == len(data.rows(splits["seen"]))
        assert read["seen"] == found["seen"]


# ---- probes: trained on probe.train, scored on probe.test


@pytest.mark.parametrize("protocol", poison.PROTOCOLS)
def test_probes_read_their_own_rows_alone(protocol, stages, tmp_path):
    folder = poison.of_protocol(tmp_path, protocol)
    data, splits = open_prepared(folder), catalogue.entry("protocol", protocol)["probe"]
    features, train, test = features_of(data), data.rows(splits["train"]), data.rows(splits["test"])
    found = stages.probe(folder, features, protocol)
    assert {result["status"] for result in found.values()} == {"ok"}
    same = np.array_equal(train, test)
    for result in found.values():
        assert [result["trained_on"], result["n"]] == ([round(0.8 * len(train)), len(train) // 5] if same else
                                                       [len(train), len(test)])  # fmt: skip
    unread = poison.others(data, splits["train"], splits["test"])
    labels = unread[data.labels[unread] >= 0]
    if len(unread):
        poisoned = poison.poison(folder, tmp_path / "unread", unread, labels)
        assert stages.probe(poisoned, noisy(features, unread), protocol) == found
    read = stages.probe(poison.poison(folder, tmp_path / "read", None, train[::2]), features, protocol)
    assert all(read[name] != found[name] for name in found)


@pytest.fixture
def parts(tmp_path):
    """A folder with two test splits, b of quite another place and scale than a, and the protocols that probe them."""
    folder = poison.prepare(tmp_path / "data", {"train": 60, "a": 30, "b": 30})
    data = open_prepared(folder)
    features = features_of(data)
    for values in features.values():
        values[data.rows(["b"])] = values[data.rows(["b"])] * 4 + 3
    plain = {"train": ["train"], "fit": ["train"], "score": ["a"], "title": "made"}
    protocols = {
        key: json.dumps({"name": key, **plain, "probe": {"train": ["train"], "test": list(key)}})
        for key in ("a", "b", "ab")
    }
    return folder, data, features, protocols


def hits(result):
    return round(result["ACC"] * result["n"])


def test_what_a_probe_predicts_for_a_row_does_not_depend_on_other_test_rows(parts, stages):
    """Standardised, selected and fitted without the test rows: hits on two splits add up to the hits on both."""
    folder, _, features, protocols = parts
    probes = {name: changes for name, changes in PROBES.items() if name != "voc07_svm"}
    found = {key: stages.probe(folder, features, text, probes) for key, text in protocols.items()}
    for name in probes:
        assert hits(found["a"][name]) + hits(found["b"][name]) == hits(found["ab"][name]), name
        assert 10 < hits(found["a"][name]) <= 30


def test_no_epoch_is_chosen_on_test_rows_unless_the_record_says_so(parts, stages, tmp_path):
    folder, data, features, protocols = parts
    wide = {"epochs": 30, "batch_size": 16, "lr": 0.003, "patience": 30}
    probes = {"linear": EPOCHS | {"lr": 1}, "linear_mixem": wide, "linear_mixem_code": wide}
    test = data.rows(["a"])
    poisoned = poison.poison(folder, tmp_path / "poisoned", None, test)
    found = stages.probe(folder, features, protocols["a"], probes)
    again = stages.probe(poisoned, noisy(features, test), protocols["a"], probes)
    chosen = {name: (found[name]["epoch"], again[name]["epoch"]) for name in probes}
    assert chosen["linear"] == (5, 5)
    assert chosen["linear_mixem"][0] == chosen["linear_mixem"][1]
    assert chosen["linear_mixem_code"][0] != chosen["linear_mixem_code"][1]  # the leak that it admits
    assert [found[name]["selected_on_test"] for name in probes] == [False, False, True]


def test_no_cost_is_chosen_on_test_rows_unless_the_record_says_so(parts, stages, tmp_path, monkeypatch):
    folder, data, features, protocols = parts
    test, used, own = data.rows(["a"]), [], low_shot_svm._goyal_cost
    monkeypatch.setattr(low_shot_svm, "GOYAL_COSTS", (1e-6, 1e-2, 1.0, 100.0))
    monkeypatch.setattr(low_shot_svm, "_goyal_cost", lambda *given: used.append(own(*given)) or used[-1])
    poisoned = poison.poison(folder, tmp_path / "poisoned", None, test)
    found = {}
    for name in ("lowshot_svm_goyal", "lowshot_svm_goyal_code"):
        for where, given in ((folder, features), (poisoned, noisy(features, test))):
            result = stages.probe(where, given, protocols["a"], {name: {"shots": [2, 4, 8], "draws": 2}})[name]
            assert result["selected_on_test"] == (name == "lowshot_svm_goyal_code")
            found[name, where] = used.copy()
            used.clear()
    costs = [found["lowshot_svm_goyal", where] for where in (folder, poisoned)]
    assert costs[0] == costs[1]
    assert len(costs[0]) == 6
    faithful = [found["lowshot_svm_goyal_code", where] for where in (folder, poisoned)]
    assert faithful[0] != faithful[1]


def test_what_is_reported_is_the_chosen_epoch(parts, stages):
    """A run that ends with the epoch that a longer one chose predicts the same."""
    folder, _, features, protocols = parts
    long = {"epochs": 40, "batch_size": 16, "lr": 0.05, "patience": 40}
    found = stages.probe(folder, features, protocols["ab"], {"linear_mixem": long})["linear_mixem"]
    assert 1 <= found["epoch"] < 40
    short = long | {"epochs": found["epoch"]}
    again = stages.probe(folder, features, protocols["ab"], {"linear_mixem": short})["linear_mixem"]
    assert {**again, "epochs": 40} == found


def test_without_labels_a_collapse_is_judged_by_the_classes_of_the_card(tmp_path):
    path = tmp_path / "kmeans.npz"
    np.savez(path, rows=np.arange(6), clusters=np.zeros(6, int), seen_rows=np.arange(6), seen=np.zeros(6, int))
    for classes in (1, 3):
        data = Prepared(tmp_path, {"classes": classes}, np.full(6, -1))
        found = evaluation.evaluate._score(path, {"status": "ok", "files": hashes(path)}, data)
        assert [found["degenerate"], found["seen"]["degenerate"]] == [classes == 3] * 2


def test_rows_without_labels_are_not_probed(stages, tmp_path):
    """By hand; the pipeline refuses it before any job."""
    folder = poison.of_protocol(tmp_path, "clusters")
    with pytest.raises(StageError, match="protocol 'clusters' has no splits for probes: leave them out"):
        stages.probe(folder, features_of(open_prepared(folder)), "clusters")
    views = {"z": np.eye(4), "view1_z": np.eye(4), "view2_z": np.eye(4)}
    with pytest.raises(ProbeError, match="1 scored rows have no label: no pair is of the same class for sure"):
        probe("similarity", views, np.array([0, 0, 1, -1]))
    assert probe("similarity", views, np.array([0, 0, 1, -1]), scored=[0, 1, 2])["same_class"] == 0
