"""Normalised cut on a nearest-neighbour graph: SC-Ncut of the deep-clustering papers (Shi and Malik, PAMI 2000).

scikit-learn's SpectralClustering step by step, but for the eigenvectors: it solves with the Laplacian, whose factors
fill up on a neighbour graph, so that 70,000 rows take hours; here ARPACK multiplies by the affinity, in seconds.
"""

import numpy as np
from scipy.sparse import csr_array, diags_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import LinearOperator, eigsh
from sklearn.cluster import k_means
from sklearn.neighbors import kneighbors_graph

DENSE = 500  # rows up to which the whole spectrum is as cheap


def normalised_cut(x: np.ndarray, clusters: int, neighbours: int, seed: int) -> np.ndarray:
    """Rows x [N, d] -> cluster ids [N] int64, by K-means on the graph's spectral embedding.

    Each row is joined to its `neighbours` nearest rows, itself among them; a one-sided edge counts half. Raises
    ValueError for non-finite rows.
    """
    graph = kneighbors_graph(x, min(neighbours, len(x)), include_self=True)
    affinity = csr_array(0.5 * (graph + graph.T))
    return k_means(embedding(affinity, clusters, seed), clusters, n_init=20, random_state=seed)[1].astype(np.int64)


def embedding(affinity: csr_array, width: int, seed: int) -> np.ndarray:
    """Symmetric affinity [N, N] -> D^-1/2 times the first `width` eigenvectors of D^-1/2 A D^-1/2, [N, width].

    The diagonal of A is ignored. Of a graph in several components the first eigenvectors are known, one for each (the
    largest first); a Lanczos method would miss some of these equal values, so it only looks for the rest.
    """
    affinity = affinity.copy()
    affinity.setdiag(0)
    degrees = affinity.sum(1)
    roots = np.sqrt(np.where(degrees > 0, degrees, 1))  # a row without neighbours is a component of its own
    scaled = diags_array(1 / roots) @ affinity @ diags_array(1 / roots)
    count, component = connected_components(affinity, directed=False)
    largest = np.argsort(-np.bincount(component), kind="stable")[: min(count, width)]
    known = (component[:, None] == largest) * roots[:, None]
    known /= np.linalg.norm(known, axis=0)
    wanted = width - known.shape[1]
    if not wanted:
        return known / roots[:, None]
    if len(roots) <= max(DENSE, 2 * width):
        vectors = np.linalg.eigh(scaled.toarray() - known @ known.T)[1][:, -wanted:]
    else:
        rest = LinearOperator(scaled.shape, lambda v: scaled @ v - known @ (known.T @ v), dtype=np.float64)
        start = np.random.default_rng(seed).uniform(-1, 1, len(roots))
        vectors = eigsh(rest, wanted, which="LA", v0=start)[1]
    return np.hstack([known, vectors]) / roots[:, None]
