"""Features of a run, as every assigner and probe reads them."""

from collections.abc import Mapping

import numpy as np

from pipeline.record import StageError

Features = Mapping[str, np.ndarray]  # name (h, z, p, ...) -> [N, ...]


class FeatureError(StageError):
    """Features that cannot be used as asked."""


class NonFinite(FeatureError):
    """Features with NaN or infinity: a failed run, recorded as such instead of being clustered or probed."""


def prepare(features: Features, name: str, normalise: bool = False) -> np.ndarray:
    """The array `name` as float32 [N, d], checked finite and, where asked, with unit rows.

    Raises FeatureError for an array that the method does not give, NonFinite for NaN or infinity.
    """
    if name not in features:
        raise FeatureError(f"features {name!r} asked for, but the method gives only {', '.join(sorted(features))}")
    x = np.asarray(features[name], dtype=np.float32)
    x = x.reshape(len(x), -1)
    if not np.isfinite(x).all():
        raise NonFinite(f"features {name!r} are not finite in {int((~np.isfinite(x)).any(1).sum())} of {len(x)} rows")
    if normalise:
        x = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return x
