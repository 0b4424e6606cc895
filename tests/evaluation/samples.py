"""Small data and short ways to run one file of a wing, for the tests of evaluation."""

import numpy as np

from evaluation import assigner as assigners
from evaluation import probe as probes
from evaluation.probe import Task
from pipeline import catalogue
from pipeline.wings import own_settings


def blobs(rows=120, clusters=4, width=6, seed=0):
    generator = np.random.default_rng(seed)
    labels = np.arange(rows) % clusters
    centres = np.eye(clusters, width) * 5
    return (centres[labels] + generator.normal(size=(rows, width)) * 0.3).astype(np.float32), labels


def assigner(name, classes=4, **changes):
    """The assigner of an entry in config/assigners.yaml, with changes."""
    return assigners.build(catalogue.entry("assigner", name) | changes, classes)


def probe(name, features, labels, train=None, test=None, seed=0, scored=None, data=None, **changes):
    """Results of an entry in config/probes.yaml, with changes, on the rows given: by default all."""
    entry = catalogue.entry("probe", name) | changes
    if isinstance(features, np.ndarray):
        features = {entry["features"]: features}
    every = np.arange(len(labels))
    train, test, scored = (every if rows is None else np.asarray(rows) for rows in (train, test, scored))
    task = Task(features, np.asarray(labels), data, train, test, scored, probes.settings_of(entry), seed)
    return probes.load(entry["algorithm"]).PROBE(task)


def algorithm(wing, name):
    """The settings of an entry beside the file it names."""
    entry = catalogue.entry(wing, name)
    return entry["algorithm"], own_settings(wing, entry)
