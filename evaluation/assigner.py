"""The contract of an assigner: features -> cluster ids. All that one needs to know to write a new one.

A new assigner is one file, evaluation/assigners/{algorithm}.py, found by its name, with

    @dataclass(frozen=True)
    class Settings:                    # the keys of its entries in config/assigners.yaml, typed; a default = optional
        features: Literal["h", "z"]    # which array of features.npz: every assigner has this one
        clusters: int | Literal["classes"]

    class Mine(Assigner): ...          # below

    ASSIGNER = Mine

and beside it: an entry in config/assigners.yaml (`algorithm: {file name}` and the settings), which a table's row names
as `assigner:`, and tests/evaluation/assigners/test_{algorithm}.py. Nothing else knows it: the checks of the
configuration read `Settings` from the source, the generic tests of the wing run over every file.

- Rows. `fit` gets the features of the protocol's `fit` splits, `predict` those of its `score` splits and, where it has
  them, of its `seen` splits: dictionaries of arrays [n, ...] by name, the same names in both. Whatever is learnt is
  learnt in `fit`; `predict` changes nothing. An algorithm that knows only the
  rows it was fitted on refuses others (`only_fitted_rows`).
- New rows. `state` gives what `fit` learnt as plain arrays, which are stored beside the clusters; an assigner built of
  the same entry that gets them by `restore` predicts as the fitted one does, bit for bit. `confidence` says how sure it
  is of each row's cluster, in 0..1, and the class attribute `confidence_is` in words what that number is. Such an
  assigner sets `refuses_new_rows = ""`; any other leaves these alone, or says there why it cannot.
- Labels are never seen. The number of classes is known: clustering may know it.
- Determinism. Equal features and an equal seed give equal clusters; randomness comes from `seed` alone.
- Errors. AssignError for what cannot be clustered as asked, with the cure in the message; NonFinite (from `prepare`)
  for NaN and infinity. Both cost this assigner's rows of this run only: its record says `not_possible` or `non_finite`.
- Record. clusters/{assigner}.json holds the entry, the seed, the splits, whatever `facts()` adds of the fit, the hash
  of the stored state, and of the confidences of the scored rows the median and the value below which a twentieth lies.
- Stale. Its clusters are made anew when its file, or anything the file imports, changes: heavy imports (torch, umap) go
  inside functions, since another run may not need them.
"""

import abc
import importlib
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from evaluation.features import Features
from pipeline.record import StageError
from pipeline.wings import own_settings


class AssignError(StageError):
    """Features that cannot be clustered as asked."""


class Assigner(abc.ABC):
    """Base of every assigner: `settings` is its file's Settings, `classes` the number of classes of the data set."""

    refuses_new_rows: ClassVar[str] = "it does not store what it learnt"  # why; empty for one that restores its state
    confidence_is: ClassVar[str] = ""  # what `confidence` returns, in words

    def __init__(self, settings: Any, classes: int):
        self.settings = settings
        self.classes = classes

    @abc.abstractmethod
    def fit(self, features: Features, seed: int) -> None:
        """Learn from the rows to fit on."""

    @abc.abstractmethod
    def predict(self, features: Features) -> np.ndarray:
        """Cluster ids int64 [n] >= 0 of the rows of `features`."""

    def state(self) -> dict[str, np.ndarray]:
        """What `fit` learnt, name -> array of numbers: all that `restore` needs; empty where nothing is learnt."""
        return {}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Take up a `state` in place of fitting. Raises AssignError for an assigner that refuses new rows."""
        raise AssignError(f"new rows cannot be assigned: {self.refuses_new_rows}")

    def confidence(self, features: Features) -> np.ndarray:
        """How sure the cluster is that `predict` gives each row, float64 [n] in 0..1, as `confidence_is` says."""
        raise AssignError(f"there is no confidence: {self.refuses_new_rows}")

    def facts(self) -> dict[str, Any]:
        """What the record says of the fit; JSON values."""
        return {}

    @property
    def clusters(self) -> int:
        """K: the number that the settings ask for, or the number of classes."""
        return cluster_count(self.settings.clusters, self.classes)


def load(algorithm: str) -> Any:
    """The module of an algorithm. Raises ModuleNotFoundError for a name without a file."""
    return importlib.import_module(f"evaluation.assigners.{algorithm}")


def build(entry: Mapping[str, Any], classes: int) -> Assigner:
    """The assigner that an entry of config/assigners.yaml describes."""
    module = load(entry["algorithm"])
    return module.ASSIGNER(module.Settings(**own_settings("assigner", entry)), classes)


def cluster_count(asked: int | str, classes: int) -> int:
    """K: a number, or the number of classes."""
    return classes if asked == "classes" else int(asked)


def enough_rows(clusters: int, x: np.ndarray, least: int = 1) -> None:
    """Raise AssignError for more clusters than rows of x [N, d], or fewer than `least` rows."""
    if len(x) < least:
        raise AssignError(f"{len(x)} rows to fit on, but {least} are needed at least: fit on more")
    if clusters > len(x):
        raise AssignError(f"{clusters} clusters asked of {len(x)} rows: ask for fewer, or fit on more rows")


def only_fitted_rows(algorithm: str, x: np.ndarray, fitted_on: np.ndarray) -> None:
    """Raise AssignError unless the rows to predict are those an algorithm without a model was fitted on."""
    if not np.array_equal(x, fitted_on):
        raise AssignError(
            f"{algorithm} clusters only the rows it was fitted on; choose a protocol that fits and scores the same "
            "split (full, all), or another assigner"
        )
