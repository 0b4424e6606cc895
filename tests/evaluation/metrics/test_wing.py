"""Every file of the wing keeps the contract of evaluation/metric.py; a new file is tested without a word here."""

import importlib
import json

import numpy as np
import pytest

from evaluation import metric
from evaluation.metric import MetricError, clustering_metrics
from evaluation.metrics import sizes
from pipeline.wings import wing_modules

LABELS = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, 2])
CLUSTERS = np.array([0, 0, 3, 1, 1, 1, 2, 2, 4, 4])


@pytest.mark.parametrize("name", wing_modules("metric"))
def test_every_file_returns_plain_finite_numbers_whatever_the_names_and_the_order(name):
    module = importlib.import_module(name)
    assert module.__doc__
    found = module.METRIC(LABELS, CLUSTERS)
    json.dumps(found, allow_nan=False)
    assert all(type(value) in (int, float, bool) for value in found.values())
    order = np.random.default_rng(0).permutation(len(LABELS))
    again = module.METRIC(LABELS[order] * 3, 9 - 2 * CLUSTERS[order])
    assert again == pytest.approx(found)
    one = module.METRIC(np.array([5]), np.array([9]))
    assert set(one) == set(found)
    json.dumps(one, allow_nan=False)


def test_the_wing_is_the_sum_of_its_files():
    parts = [importlib.import_module(name).METRIC(LABELS, CLUSTERS) for name in wing_modules("metric")]
    merged = clustering_metrics(LABELS, CLUSTERS)
    assert len(merged) == sum(map(len, parts))
    assert list(merged) == [key for part in parts for key in part]


def test_two_files_with_one_name_are_refused(monkeypatch):
    monkeypatch.setattr(metric, "wing_modules", lambda kind: ("evaluation.metrics.ari", "evaluation.metrics.ari"))
    with pytest.raises(MetricError, match=r"metrics\.ari: 'ARI' is returned by another file"):
        clustering_metrics(LABELS, CLUSTERS)


def test_several_labels_are_refused():
    with pytest.raises(MetricError, match="several labels: clusters cannot be scored"):
        clustering_metrics(np.ones((10, 3), int), CLUSTERS)


@pytest.mark.parametrize("name", wing_modules("metric"))
def test_what_a_file_says_without_labels_it_says_with_labels_too(name):
    module = importlib.import_module(name)
    if hasattr(module, "UNLABELLED"):
        found = module.UNLABELLED(CLUSTERS, 3)
        assert set(found) <= set(module.METRIC(LABELS, CLUSTERS))
        assert all(type(value) in (int, float, bool) for value in found.values())
        assert module.UNLABELLED(9 - 2 * CLUSTERS[::-1], 3) == pytest.approx(found)


def test_rows_without_labels_have_no_scores():
    """No accuracy, neither zero nor that of one class: the names are not there."""
    none = np.full(10, -1)
    found = clustering_metrics(none, CLUSTERS, 3)
    assert found == sizes.sizes_alone(CLUSTERS, 3)
    assert clustering_metrics(none, CLUSTERS * 0, 3)["degenerate"]
    assert not clustering_metrics(none, CLUSTERS * 0, 1)["degenerate"]
    some = np.where(np.arange(10) == 4, 0, none)
    for labels in (some, np.where(np.arange(10) == 4, -1, LABELS)):
        with pytest.raises(MetricError, match=r"labels contain -1: unlabelled rows \(-1\) cannot be scored"):
            clustering_metrics(labels, CLUSTERS, 3)
    for clusters in (CLUSTERS - 1, CLUSTERS[:4], CLUSTERS / 2):
        with pytest.raises(MetricError, match="clusters"):
            clustering_metrics(none, clusters, 3)
    with pytest.raises(MetricError, match="labels must be integers"):
        clustering_metrics(none / 1, CLUSTERS, 3)
