"""The contract of a probe: features of a finished run -> results. All that one needs to know to write a new one.

A new probe is one file, evaluation/probes/{algorithm}.py, found by its name, with

    @dataclass(frozen=True)
    class Settings:                    # the keys of its entries in config/probes.yaml, typed; a default = optional
        features: Literal["h", "z"]    # which array of features.npz
        normalise: bool                # unit rows; every probe has these two

    def mine(task: Task) -> dict[str, Any]: ...

    PROBE = mine

and beside it: an entry in config/probes.yaml (`algorithm: {file name}` and the settings), which a table's row names as
`probe:`; for each new number an entry in config/metrics.yaml; tests/evaluation/probes/test_{algorithm}.py. Nothing else
knows it: the checks of the configuration read `Settings` from the source, the generic tests run over every file.

- In: one `Task` (below). Features are arrays of a finished run, so no probe can touch the backbone or its statistics.
- Out: name -> int, float, bool or text. Numbers are fractions, not percent; `n` is the number of scored rows. A number
  that is not finite is left out and named under `undefined`. `selected_on_test: True` says that test labels chose
  something (a table marks such a row). The record adds the entry's own keys.
- Determinism. Equal features and an equal seed give equal results; randomness comes from `task.seed` alone.
- Errors. ProbeError (or ValueError) for rows on which the probe has no meaning: its record says `not_possible` and why.
  NonFinite from `task.array`: `non_finite`. Anything else is a bug: `failed`, and the stage ends with an error
  after all other probes have been written.
- `several_labels = True` at the top of the file: it can score images with several labels. Others are refused for these.
- Stale. A probe is computed anew when its file, or anything the file imports, changes; heavy imports belong into the
  file, not here: it is imported only when its probe is computed.
"""

import importlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation.features import Features, prepare
from pipeline.record import StageError
from pipeline.wings import own_settings
from preparation.prepared import Prepared

Labelled = tuple[np.ndarray, np.ndarray]  # features [n, d], labels [n] or [n, C]


class ProbeError(StageError):
    """Rows on which a probe has no meaning."""


@dataclass(frozen=True)
class Task:
    """What a probe gets."""

    features: Features  # name -> [N, ...] of every row of the data set; view1_z, view2_z: [M, ...], rows of their own
    labels: np.ndarray  # int64 [N], -1 for none; or [N, C] of 1, 0 (difficult), -1 where images have several
    data: Prepared  # images and card
    train: np.ndarray  # row numbers of the protocol's splits: probe.train,
    test: np.ndarray  # probe.test,
    scored: np.ndarray  # and score
    settings: Any  # the file's Settings
    seed: int

    def array(self, name: str | None = None) -> np.ndarray:
        """The features that the settings name (or another array of them), float32 [N, d], normalised as they ask."""
        return prepare(self.features, name or self.settings.features, self.settings.normalise)

    def labelled(self) -> tuple[Labelled, Labelled]:
        """(train, test) features and labels; equal rows mean a stratified 80/20 hold-out by the seed.

        Raises ProbeError for rows without a label, and for classes too small to be split.
        """
        train, test = self.train, self.test
        unlabelled = int((self.labels[train] < 0).sum() + (self.labels[test] < 0).sum())
        if unlabelled and self.labels.ndim == 1:
            raise ProbeError(
                f"{unlabelled} rows without a label: a probe needs labels, choose a protocol with such splits"
            )
        if np.array_equal(train, test):
            kept, held = stratified(self.labels[train], 0.2, self.seed)
            train, test = train[kept], train[held]
        x = self.array()
        return (x[train], self.labels[train]), (x[test], self.labels[test])


def stratified(labels: np.ndarray, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two parts of the rows with labels [n] or [n, C], as their numbers: the rest, and a hold-out of `share` of them.

    The hold-out has of each class (or combination of labels) as many rows as are due to it.

    Raises ProbeError, with the class or the numbers, where a part would lack a class.
    """
    classes, counts = np.unique(labels, axis=0, return_counts=True)
    held = math.ceil(share * len(labels))
    if (counts == 1).any():
        alone = classes[counts == 1]
        name = f"class {alone[0]}" if labels.ndim == 1 else "a combination of labels"
        others = f" (and {len(alone) - 1} more)" if len(alone) > 1 else ""
        raise ProbeError(f"{name} has 1 row{others}: a hold-out with every class needs 2 of each")
    if not 0 < len(classes) <= min(held, len(labels) - held):
        raise ProbeError(
            f"{len(labels)} rows of {len(classes)} classes are too few: a hold-out of {held} and the other "
            f"{len(labels) - held} must each have every class"
        )
    from sklearn.model_selection import train_test_split  # only probes that split need to wait for it

    rest, apart = train_test_split(np.arange(len(labels)), test_size=share, stratify=labels, random_state=seed)
    return rest, apart


def load(algorithm: str) -> Any:
    """The module of an algorithm. Raises ModuleNotFoundError for a name without a file."""
    return importlib.import_module(f"evaluation.probes.{algorithm}")


def settings_of(entry: Mapping[str, Any]) -> Any:
    """The Settings of the file that an entry of config/probes.yaml names."""
    return load(entry["algorithm"]).Settings(**own_settings("probe", entry))
