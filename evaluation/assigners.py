"""Assigners: features -> cluster ids. Fit and predict are apart, so that a row can say what it was fitted on.

An assigner class takes its configuration (config/assigners.yaml) and the number of classes; `fit(features, seed)` and
`predict(features)` take the feature arrays by name (h [N, d], p [N, K], ...), restricted to the rows in question.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logsumexp
from sklearn.cluster import AgglomerativeClustering
from sklearn.mixture import GaussianMixture

from evaluation.normalised_cut import normalised_cut
from pipeline.record import StageError

if TYPE_CHECKING:
    from methods.blocks.kmeans import KMeans

Features = Mapping[str, np.ndarray]


class AssignError(StageError):
    """Features that cannot be clustered as asked."""


class KMeansAssigner:
    """K-means with `n_init` restarts on the chosen features, L2-normalised or raw."""

    def __init__(self, settings: Mapping[str, Any], classes: int):
        self.settings = settings
        self.clusters = cluster_count(settings, classes)

    def fit(self, features: Features, seed: int) -> None:
        self.model = fit_kmeans(prepare(features, self.settings), self.clusters, seed, self.settings)

    def predict(self, features: Features) -> np.ndarray:
        return predict_kmeans(self.model, prepare(features, self.settings))

    def facts(self) -> dict[str, Any]:
        """What a record says of the fit."""
        return {"inertia": self.model.inertia, "iterations": self.model.iterations, "clusters": self.clusters}


class KMeansComponentsAssigner(KMeansAssigner):
    """K-means started once from the means of MIX'EM's components (spec: MIX'EM sec. 3.3).

    Start m is the mean of the features whose dominant component (argmax of p) is m, not normalised again. With more
    components than clusters the most frequent ones serve; missing starts are filled one after the other by the row
    farthest from all starts so far, which is deterministic (the paper is silent on empty components).
    """

    def fit(self, features: Features, seed: int) -> None:
        x = prepare(features, self.settings)
        if "p" not in features:
            raise AssignError("kmeans_components needs component probabilities p, which this method does not give")
        starts = component_centres(x, features["p"].argmax(1), min(self.clusters, len(x)))
        self.model = fit_kmeans(x, self.clusters, seed, self.settings, starts)


def component_centres(x: np.ndarray, dominant: np.ndarray, clusters: int) -> np.ndarray:
    """x [N, d], dominant component [N] -> starting centres [clusters, d]."""
    ids, counts = np.unique(dominant, return_counts=True)
    chosen = ids[np.argsort(-counts, kind="stable")][:clusters]
    centres = [x[dominant == component].mean(0) for component in np.sort(chosen)]
    while len(centres) < clusters:
        distance = np.min([((x - centre) ** 2).sum(1) for centre in centres], axis=0)
        centres.append(x[distance.argmax()])
    return np.asarray(centres, dtype=x.dtype)


class SinkhornAssigner:
    """Balanced assignment: every cluster takes about N/K of the fitted rows.

    Scores are log-probabilities (`features: p`), or cosine similarities with K-means centres as prototypes. Fitting
    finds the scaling of the clusters; unseen rows are assigned with that scaling.
    """

    def __init__(self, settings: Mapping[str, Any], classes: int):
        self.settings = settings
        self.clusters = cluster_count(settings, classes)

    def fit(self, features: Features, seed: int) -> None:
        x = prepare(features, self.settings)
        self.prototypes = None
        if self.settings["features"] != "p":
            prototypes = fit_kmeans(x, self.clusters, seed, self.settings).centres.numpy()
            self.prototypes = prototypes / np.maximum(np.linalg.norm(prototypes, axis=1, keepdims=True), 1e-12)
        logits = self._scores(x)
        scale = np.zeros(logits.shape[1])
        for _ in range(self.settings["iterations"]):
            rows = logsumexp(logits + scale, axis=1, keepdims=True)
            scale -= logsumexp(logits + scale - rows, axis=0) - np.log(len(x) / logits.shape[1])
        self.scale = scale

    def predict(self, features: Features) -> np.ndarray:
        return (self._scores(prepare(features, self.settings)) + self.scale).argmax(1).astype(np.int64)

    def facts(self) -> dict[str, Any]:
        return {"clusters": len(self.scale)}

    def _scores(self, x: np.ndarray) -> np.ndarray:
        x = x.astype(np.float64)
        scores = np.log(np.maximum(x, 1e-30)) if self.prototypes is None else x @ self.prototypes.T
        return scores / self.settings["epsilon"]


class MixtureAssigner:
    """Gaussian mixture with full covariances on the features, or on their UMAP embedding (N2D)."""

    def __init__(self, settings: Mapping[str, Any], classes: int):
        self.settings = settings
        self.clusters = cluster_count(settings, classes)

    def fit(self, features: Features, seed: int) -> None:
        x = prepare(features, self.settings).astype(np.float64)
        _enough(self.clusters, x)
        self.manifold = None
        if "umap_neighbours" in self.settings:
            from umap import UMAP  # numba: ten seconds that other assigners need not pay

            # N2D: as many dimensions as clusters, no minimum distance. A fixed seed makes it single-threaded.
            self.manifold = UMAP(
                n_components=self.clusters,
                n_neighbors=min(self.settings["umap_neighbours"], len(x) - 1),
                min_dist=0.0,
                random_state=seed,
                n_jobs=1,
            )
            x = self.manifold.fit_transform(x).astype(np.float64)
        if self.settings["algorithm"] == "umap_kmeans":
            self.model: Any = fit_kmeans(x.astype(np.float32), self.clusters, seed, self.settings)
        else:
            restarts = self.settings.get("n_init", 1)  # the likeliest is kept
            mixture = GaussianMixture(self.clusters, covariance_type="full", n_init=restarts, random_state=seed)
            self.model = mixture.fit(x)

    def predict(self, features: Features) -> np.ndarray:
        x = prepare(features, self.settings).astype(np.float64)
        if self.manifold is not None:
            x = self.manifold.transform(x).astype(np.float64)
        if self.settings["algorithm"] == "umap_kmeans":
            return predict_kmeans(self.model, x.astype(np.float32))
        return self.model.predict(x).astype(np.int64)

    def facts(self) -> dict[str, Any]:
        mixture = isinstance(self.model, GaussianMixture)
        return {"clusters": self.clusters, **({"log_likelihood": float(self.model.lower_bound_)} if mixture else {})}


class TransductiveAssigner:
    """Algorithms that cluster the rows they are given and know no others: predicting other rows is refused.

    spectral: normalised cut on a symmetrised nearest-neighbour graph (SC-Ncut); agglomerative: Ward's linkage.
    """

    def __init__(self, settings: Mapping[str, Any], classes: int):
        self.settings = settings
        self.clusters = cluster_count(settings, classes)

    def fit(self, features: Features, seed: int) -> None:
        self.fitted_on = prepare(features, self.settings)
        _enough(self.clusters, self.fitted_on)
        if self.settings["algorithm"] == "spectral":
            self.labels = normalised_cut(self.fitted_on, self.clusters, self.settings["neighbours"], seed)
        else:
            ward = AgglomerativeClustering(self.clusters, linkage="ward")
            self.labels = ward.fit_predict(self.fitted_on).astype(np.int64)

    def predict(self, features: Features) -> np.ndarray:
        if not np.array_equal(prepare(features, self.settings), self.fitted_on):
            raise AssignError(
                f"{self.settings['algorithm']} clusters only the rows it was fitted on; choose a protocol that fits "
                "and scores the same split (full, all), or another assigner"
            )
        return self.labels

    def facts(self) -> dict[str, Any]:
        return {"clusters": self.clusters}


def fit_kmeans(
    x: np.ndarray, clusters: int, seed: int, settings: Mapping[str, Any], starts: np.ndarray | None = None
) -> "KMeans":
    """K-means of x [N, d] float32 with the restarts that `settings` asks for, or from the centres `starts` [K, d]."""
    import torch  # two seconds that other assigners need not pay

    from methods.blocks.kmeans import kmeans

    _enough(clusters, x)
    return kmeans(
        torch.from_numpy(np.ascontiguousarray(x)),
        clusters,
        n_init=settings.get("n_init", 1),
        init=settings.get("init", "random") if starts is None else torch.from_numpy(starts),
        max_iter=settings.get("max_iter", 300),
        seed=seed,
        finalists=settings.get("finalists"),
    )


def predict_kmeans(model: "KMeans", x: np.ndarray) -> np.ndarray:
    """Nearest centre of each row of x [N, d] -> [N]."""
    import torch

    return model.predict(torch.from_numpy(np.ascontiguousarray(x))).numpy()


def cluster_count(settings: Mapping[str, Any], classes: int) -> int:
    """K: a number, or the number of classes, which clustering may know."""
    asked = settings.get("clusters", "classes")
    return classes if asked == "classes" else asked


def _enough(clusters: int, x: np.ndarray) -> None:
    if clusters > len(x):
        raise AssignError(f"{clusters} clusters asked of {len(x)} rows: ask for fewer, or fit on more rows")


class ArgmaxAssigner:
    """The most probable cluster of each image; nothing to fit."""

    def __init__(self, settings: Mapping[str, Any], classes: int):
        self.settings = settings

    def fit(self, features: Features, seed: int) -> None:
        self.predict(features)

    def predict(self, features: Features) -> np.ndarray:
        return prepare(features, self.settings).argmax(1).astype(np.int64)

    def facts(self) -> dict[str, Any]:
        return {}


def prepare(features: Features, settings: Mapping[str, Any]) -> np.ndarray:
    """The array that `settings` names, checked finite and, where asked, with unit rows. float32 [N, d]."""
    name = settings["features"]
    if name not in features:
        raise AssignError(f"features {name!r} asked for, but the method gives only {', '.join(sorted(features))}")
    x = np.asarray(features[name], dtype=np.float32)
    x = x.reshape(len(x), -1)
    if not np.isfinite(x).all():
        raise NonFinite(f"features {name!r} are not finite in {int((~np.isfinite(x)).any(1).sum())} of {len(x)} rows")
    if settings.get("normalise"):
        x = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return x


class NonFinite(AssignError):
    """Features with NaN or infinity: a failed run, recorded as such instead of being clustered."""


ALGORITHMS = {
    "kmeans": KMeansAssigner,
    "kmeans_components": KMeansComponentsAssigner,
    "argmax": ArgmaxAssigner,
    "sinkhorn": SinkhornAssigner,
    "spectral": TransductiveAssigner,
    "agglomerative": TransductiveAssigner,
    "gmm": MixtureAssigner,
    "umap_gmm": MixtureAssigner,
    "umap_kmeans": MixtureAssigner,
}
