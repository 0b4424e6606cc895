"""Every file of the wing keeps the contract of evaluation/probe.py; a new file is tested without a word here."""

import dataclasses
import json
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from evaluation.features import FeatureError, NonFinite
from evaluation.probe import ProbeError, Task, load
from pipeline import catalogue
from pipeline.checks import for_several_labels
from pipeline.wings import signature, wing_names
from preparation.prepared import open_prepared
from tests.conftest import ROOT
from tests.evaluation.samples import algorithm, blobs, probe

ACCURATE = ("linear", "knn", "logistic")  # probes that report an accuracy of features
SMALL = {"shots": [1, 2], "draws": 1, "negatives": 20, "splits": 1, "epochs": 3}  # what makes an entry small


@pytest.mark.parametrize("name", wing_names("probe"))
def test_every_file_declares_settings_and_a_probe_and_is_used(name):
    module = load(name)
    assert dataclasses.is_dataclass(module.Settings)
    assert module.Settings.__dataclass_params__.frozen
    declared = signature("probe", name)
    assert set(declared.settings) == {field.name for field in dataclasses.fields(module.Settings)}
    assert {"features", "normalise"} <= set(declared.settings)
    assert declared.literals.get("several_labels", False) == getattr(module, "several_labels", False)
    assert callable(module.PROBE)
    assert module.__doc__
    assert name in {catalogue.entry("probe", entry)["algorithm"] for entry in catalogue.names("probe")}


def test_the_contract_imports_no_heavy_library():
    code = "import sys, evaluation.evaluate; print(sorted({'torch', 'sklearn', 'scipy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_probes_of_several_labels_say_so_themselves():
    assert {"low_shot_svm", "spread", "voc07_svm"} <= set(for_several_labels())
    assert not {"linear", "knn", "logistic"} & set(for_several_labels())


@pytest.mark.parametrize("name", catalogue.names("probe"))
def test_every_entry_gives_its_settings(name):
    file, settings = algorithm("probe", name)
    found = dataclasses.asdict(load(file).Settings(**settings))
    assert {key: found[key] for key in settings} == settings


@pytest.mark.parametrize("name", catalogue.names("probe"))
def test_every_probe_repeats_by_its_seed_and_returns_plain_values(name, digits_200):
    entry = catalogue.entry("probe", name)
    data = open_prepared(digits_200)
    h = data.images.reshape(200, -1)[:, 20:30].astype(np.float32) / 16 + 0.1
    p = np.eye(10, dtype=np.float32)[data.labels] * 0.9 + 0.01
    features = {"h": h, "z": h, "zc": h, "zn": h, "p": p} | {
        f"view{view}_{part}": h[:50] for view in (1, 2) for part in ("z", "zc", "zn")
    }
    before = {key: value.copy() for key, value in features.items()}
    changes = {key: value for key, value in SMALL.items() if key in entry}
    run = lambda: probe(name, features, data.labels, range(160), range(160, 200), 7, range(200), data, **changes)  # noqa: E731
    found = run()
    assert found == run()
    json.dumps(found, allow_nan=False)
    assert found.get("selected_on_test", False) == (entry.get("select") == "test")
    assert "status" not in found
    for key, value in before.items():
        np.testing.assert_array_equal(features[key], value)  # what it is given stays as it is


@pytest.mark.parametrize("name", catalogue.names("probe"))
def test_features_that_are_not_finite_or_not_there_are_refused(name, digits_200):
    data = open_prepared(digits_200)
    with pytest.raises(FeatureError, match="gives only other"):
        probe(name, {"other": np.ones((200, 4))}, data.labels, data=data)
    broken = np.ones((200, 10), dtype=np.float32)
    broken[2, 1] = np.nan
    features = dict.fromkeys(("h", "p", "z", "zc", "zn"), broken)
    features |= {f"view{view}_{part}": broken for view in (1, 2) for part in ("z", "zc", "zn")}
    with pytest.raises(NonFinite, match="not finite in 1 of 200 rows"):
        probe(name, features, data.labels, data=data)


PROBES = [n for n in catalogue.names("probe") if catalogue.entry("probe", n)["algorithm"] in ACCURATE]


@pytest.mark.parametrize("name", PROBES)
def test_every_probe_reads_separable_features_and_repeats(name):
    x, y = blobs(rows=1300)
    # LARS moves the weights by 8e-5 of their length a step: at ImageNet there are a hundred thousand of them.
    more = {"batch_size": 32} if catalogue.entry("probe", name).get("optimiser") == "lars" else {}
    run = lambda: probe(name, x, y, range(1000), range(1000, 1300), seed=1, **more)  # noqa: E731
    first = run()
    assert first["ACC"] > 0.95
    assert first == run()
    assert first["trained_on"] == 1000


def test_one_test_row_and_one_class():
    x, y = blobs(rows=41)
    for name in ("knn", "logistic", "linear"):
        assert probe(name, x, y, range(40), [40])["n"] == 1
    same = np.zeros(41, dtype=int)
    assert probe("knn", x, same, range(40), [40])["ACC"] == 1
    with pytest.raises(ProbeError, match="one class only"):
        probe("logistic", x, same, range(40), [40])


@pytest.mark.parametrize("normalise", [True, False])
def test_a_probe_reads_the_array_it_names_with_unit_rows_where_it_asks_for_them(normalise):
    arrays = {"h": np.array([[3.0, 4.0], [0.0, 2.0]]), "z": np.array([[5.0, 12.0], [1.0, 0.0]])}
    rows = np.arange(2)
    task = Task(arrays, np.array([0, 1]), None, rows, rows, rows, SimpleNamespace(features="h", normalise=normalise), 0)
    np.testing.assert_allclose(task.array(), [[0.6, 0.8], [0, 1]] if normalise else arrays["h"], rtol=1e-6)
    np.testing.assert_allclose(task.array("z"), [[5 / 13, 12 / 13], [1, 0]] if normalise else arrays["z"], rtol=1e-6)
