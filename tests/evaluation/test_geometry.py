import numpy as np
import pytest
from sklearn.manifold import trustworthiness

from evaluation import geometry as module
from evaluation.geometry import GeometryError, centre_rank_agreement, geometry


def ranks(points):
    """Full rank table by sorting, itself first: the way the papers' evaluators do it."""
    d = np.sqrt(((points[:, None] - points[None]) ** 2).sum(2))
    order = d.copy()
    np.fill_diagonal(order, -1)
    places = order.argsort(1, kind="stable")
    r = np.empty_like(places)
    np.put_along_axis(r, places, np.arange(len(d))[None].repeat(len(d), 0), 1)
    return d, r, places


def by_loops(x, z, neighbours=(3, 4, 5, 6, 7)):
    """RRE, Trust, Cont, RMSE, LGD as sums over single points."""
    n = len(x)
    (dx, rx, px), (dz, rz, pz) = ranks(x), ranks(z)
    found = {name: [] for name in ("RRE", "Trust", "Cont", "LGD")}
    for k in neighbours:
        h = n * sum(abs(n - 2 * m) / m for m in range(1, k + 1))
        zx = xz = trust = cont = lgd = 0.0
        for i in range(n):
            for j in pz[i, 1 : k + 1]:
                zx += abs(rx[i, j] - rz[i, j]) / rz[i, j]
                trust += max(rx[i, j] - k, 0)
            for j in px[i, 1 : k + 1]:
                xz += abs(rx[i, j] - rz[i, j]) / rx[i, j]
                cont += max(rz[i, j] - k, 0)
                lgd += (dx[i, j] / np.sqrt(x.shape[1]) - dz[i, j] / np.sqrt(z.shape[1])) ** 2
        found["RRE"].append((zx / h + xz / h) / 2)
        found["Trust"].append(1 - 2 / (n * k * (2 * n - 3 * k - 1)) * trust)
        found["Cont"].append(1 - 2 / (n * k * (2 * n - 3 * k - 1)) * cont)
        found["LGD"].append(np.sqrt(lgd / (k * n)))
    return {**{name: np.mean(v) for name, v in found.items()}, "RMSE": np.sqrt(((dx - dz) ** 2).mean())}


def points(n=60, d=5, m=2, seed=0):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(n, d))
    return x, x[:, :m] + 0.3 * generator.normal(size=(n, m))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("block", [1, 7, 10_000])
def test_equals_loops_whatever_the_block(seed, block, monkeypatch):
    x, z = points(seed=seed)
    monkeypatch.setattr(module, "BLOCK_NUMBERS", block * len(x))
    found = geometry(x, z)
    for name, value in by_loops(x, z).items():
        assert found[name] == pytest.approx(value, abs=1e-10), name
    assert found["RRE_text"] == pytest.approx(2 * found["RRE"])


@pytest.mark.parametrize("k", [3, 4, 5, 6, 7])
def test_trust_and_cont_are_scikit_learns(k):
    x, z = points(n=150)
    found = geometry(x, z)
    assert found[f"Trust@{k}"] == pytest.approx(trustworthiness(x, z, n_neighbors=k), abs=1e-12)
    assert found[f"Cont@{k}"] == pytest.approx(trustworthiness(z, x, n_neighbors=k), abs=1e-12)


def test_identity_and_scaling():
    x, z = points()
    same = geometry(x, x)
    assert {n: same[n] for n in ("RRE", "Trust", "Cont", "RMSE", "LGD")} == pytest.approx(
        {"RRE": 0, "Trust": 1, "Cont": 1, "RMSE": 0, "LGD": 0}, abs=1e-12
    )
    plain, scaled = geometry(x, z), geometry(x, 3.7 * z)
    for name in ("RRE", "Trust", "Cont"):
        assert scaled[name] == pytest.approx(plain[name], abs=1e-12)
    assert scaled["RMSE"] != pytest.approx(plain["RMSE"])


def test_duplicates_and_ties_are_exact():
    """Integer grids are full of ties; 9 identical rows and k = 7 put duplicates ahead of everything."""
    generator = np.random.default_rng(0)
    x = generator.integers(0, 3, (80, 2)).astype(float)
    x[:9] = 1
    z = generator.integers(0, 3, (80, 2)).astype(float)
    found = geometry(x, z)
    for name, value in by_loops(x, z).items():
        # The root of a rounding error: duplicates are 1e-8 apart in RMSE, never in ranks.
        assert found[name] == pytest.approx(value, abs=1e-8 if name == "RMSE" else 1e-10), name
    assert geometry(x, x)["RRE"] == pytest.approx(0)


def test_float32_offsets_do_not_lose_neighbours():
    x, z = points()
    far = geometry((x + 1e4).astype(np.float64), z)
    assert far["Trust"] == pytest.approx(geometry(x, z)["Trust"], abs=1e-9)


def test_centre_ranks():
    generator = np.random.default_rng(0)
    clusters = np.arange(200) % 10
    x = generator.normal(size=(200, 5)) + 5 * generator.normal(size=(10, 5))[clusters]
    assert centre_rank_agreement(x, x, clusters, 10) == 1
    assert centre_rank_agreement(x, 2.5 * x, clusters, 10) == 1
    draws = [centre_rank_agreement(x, generator.normal(size=(10, 3))[clusters] * 9, clusters, 10) for _ in range(300)]
    assert np.mean(draws) == pytest.approx(0.2, abs=0.02)  # chance: 2/C
    with pytest.raises(GeometryError, match=r"empty: \[3\]"):
        centre_rank_agreement(x, x, np.where(clusters == 3, 4, clusters), 10)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x, z: (x[:12], z[:12]), None),
        (lambda x, z: (x[:11], z[:11]), "N=11 is too small for k=7"),
        (lambda x, z: (x, z[:-1]), "60 inputs, 59 embeddings"),
        (lambda x, z: (x, np.where(z == z[3], np.nan, z)), "embedding holds NaN or infinity"),
        (lambda x, z: (x.astype(str), z), "input must be numbers"),
    ],
)
def test_odd_inputs(change, message):
    x, z = change(*points())
    if message is None:
        assert np.isfinite(list(geometry(x, z).values())).all()
        return
    with pytest.raises(GeometryError, match=message):
        geometry(x, z)
