"""Starting centres from a t-SNE plane: some latents are embedded in two dimensions and clustered there (DCRL)."""

import numpy as np
import torch
from torch import Tensor

KMEANS_STARTS, MIXTURE_STARTS = 20, 10


def plane_centres(z: Tensor, clusters: int, criterion: str, seed: int) -> tuple[float, Tensor]:
    """z [n, m] -> (how bad this start is, comparable between starts; centres [clusters, m] in the latent space).

    "inertia" (the released code) and "silhouette": K-means in the plane, and the members' mean. "likelihood" (ours):
    the likeliest of ten Gaussian mixtures, at unit variance of the plane, and the mean weighted by responsibility.
    K-means in a plane prefers clusters of one size and often joins two small ones and splits a large one.
    """
    import sklearn.cluster
    import sklearn.manifold
    import sklearn.metrics
    import sklearn.mixture

    z = z.float().cpu().numpy()
    # scikit-learn's defaults of the time, which have changed since.
    plane = sklearn.manifold.TSNE(
        init="random",
        learning_rate=200.0,
        perplexity=min(30.0, (len(z) - 1) / 3),
        early_exaggeration=12.0,
        random_state=seed % 2**31,
    ).fit_transform(z)
    if criterion == "likelihood":
        plane = (plane / plane.std()).astype(np.float64)
        mixture = sklearn.mixture.GaussianMixture(clusters, n_init=MIXTURE_STARTS, random_state=0).fit(plane)
        members, badness = mixture.predict_proba(plane), -mixture.lower_bound_
    else:
        fitted = sklearn.cluster.KMeans(clusters, n_init=KMEANS_STARTS, random_state=0).fit(plane)
        members, badness = np.eye(clusters)[fitted.labels_], fitted.inertia_
        if criterion == "silhouette":
            badness = -sklearn.metrics.silhouette_score(plane, fitted.labels_)
    return float(badness), torch.from_numpy(members.T @ z / members.sum(0)[:, None])
