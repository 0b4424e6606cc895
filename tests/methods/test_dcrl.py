import copy
import math

import numpy as np
import pytest
import torch

from methods.blocks.clusters import cluster_means, cluster_neighbours, rank_agreement
from methods.blocks.networks import MLP
from methods.blocks.plane import plane_centres
from methods.dcrl import DCRL, Settings, align_loss, cluster_loss, isometry_loss, rank_loss
from methods.method import Batch, Context, DataFacts
from pipeline.recipes import resolve

GENERATOR = torch.Generator().manual_seed(0)


def random(*shape):
    return torch.randn(*shape, generator=GENERATOR, dtype=torch.float64)


MU, V = random(4, 3), random(4, 6)
X, Z = random(14, 6), random(14, 3)
S = torch.tensor([0] * 6 + [1] * 5 + [2] * 3)  # cluster 3 is empty


def distance(a, b):
    return math.sqrt(sum((float(p) - float(q)) ** 2 for p, q in zip(a, b, strict=True)))


@pytest.mark.parametrize("follow", ["code", "paper"])
def test_rank_loss_equals_loops(follow):
    gaps = [[distance(MU[i], MU[j]) - 3 * distance(V[i], V[j]) for j in range(4)] for i in range(4)]
    for i in range(4):
        gaps[i][i] = 1e-4 - 3e-4  # distances are at least 1e-4
    flat = [gap for row in gaps for gap in row]
    expected = sum(map(abs, flat)) if follow == "paper" else math.sqrt(sum(g * g for g in flat)) / 4
    assert rank_loss(MU, V, 3.0, follow).item() == pytest.approx(expected, rel=1e-9)


def test_rank_loss_has_the_appendix_gradient_and_reaches_only_the_centres():
    """Eq. 11: dL/dmu_i = 2 sum_j sign(d_mu - s d_v) (mu_i - mu_j) / d_mu."""
    mu, v = MU.clone().requires_grad_(), V.clone().requires_grad_()
    rank_loss(mu, v, 3.0, "paper").backward()
    expected = torch.zeros_like(MU)
    for i in range(4):
        for j in range(4):
            if i != j:
                sign = math.copysign(1, distance(MU[i], MU[j]) - 3 * distance(V[i], V[j]))
                expected[i] += 2 * sign * (MU[i] - MU[j]) / distance(MU[i], MU[j])
    torch.testing.assert_close(mu.grad, expected)
    assert v.grad is None


@pytest.mark.parametrize("follow", ["code", "paper"])
def test_isometry_loss_equals_loops_and_reaches_only_the_encoder(follow):
    near = cluster_neighbours(Z, S, 3)
    gaps = torch.tensor([[distance(X[i], X[j]) if j >= 0 else 0 for j in near[i]] for i in range(14)])
    terms = []
    for i in range(14):
        for j in near[i].tolist():
            if j >= 0:
                dx, dz = distance(X[i], X[j]), distance(Z[i], Z[j])
                terms.append(abs(dx - dz) if follow == "paper" else dx / math.sqrt(6) - dz / math.sqrt(3))
    expected = sum(terms) if follow == "paper" else math.sqrt(sum(t * t for t in terms))
    z = Z.clone().requires_grad_()
    loss = isometry_loss(z, near, gaps.double(), 6, follow)
    assert loss.item() == pytest.approx(expected, rel=1e-6)
    assert torch.autograd.gradcheck(lambda z: isometry_loss(z, near, gaps.double(), 6, follow), (z,))


@pytest.mark.parametrize("follow", ["code", "paper"])
def test_align_loss_equals_loops_and_pulls_both_sides(follow):
    before = random(4, 3)
    means = [Z[members].mean(0) if members.any() else before[j] for j, members in enumerate(S.eq(k) for k in range(4))]
    expected = sum(distance(MU[j], means[j]) for j in range(4))
    z, mu = Z.clone().requires_grad_(), MU.clone().requires_grad_()
    loss = align_loss(z, mu, S, before, follow)
    assert loss.item() == pytest.approx(expected / (4 if follow == "code" else 1), rel=1e-9)
    loss.backward()
    # Eqs. 12 and 13: a unit vector from mean to centre; each member of the cluster carries its share of the opposite.
    scale = 4 if follow == "code" else 1
    unit = (MU[1] - means[1]) / distance(MU[1], means[1]) / scale
    torch.testing.assert_close(mu.grad[1], unit)
    torch.testing.assert_close(z.grad[S == 1], -(unit / 5).expand(5, 3))


def test_cluster_loss_of_code_and_paper_differ_by_the_number_of_clusters():
    q = torch.softmax(random(9, 4), 1)
    p = torch.softmax(random(9, 4), 1)
    expected = sum(float(p[i, j]) * math.log(float(p[i, j]) / float(q[i, j])) for i in range(9) for j in range(4)) / 9
    assert cluster_loss(p, q, "paper").item() == pytest.approx(expected)
    assert cluster_loss(p, q, "code").item() == pytest.approx(expected / 4)


def test_neighbours_stay_in_their_cluster_and_small_clusters_have_none():
    near = cluster_neighbours(Z, S, 3)
    assert (near[S == 2] == -1).all()  # three members, k = 3
    for i in range(11):
        own = [j for j in range(14) if S[j] == S[i] and j != i]
        expected = sorted(own, key=lambda j: distance(Z[i], Z[j]))[:3]
        assert near[i].tolist() == expected
    twins = cluster_neighbours(torch.zeros(5, 2), torch.zeros(5, dtype=torch.long), 3)
    assert all(i not in twins[i] for i in range(5))


def test_neighbours_do_not_depend_on_the_block(monkeypatch):
    from methods.blocks import clusters

    whole = cluster_neighbours(Z, S, 3)
    monkeypatch.setattr(clusters, "BLOCK", 7)
    assert torch.equal(cluster_neighbours(Z, S, 3), whole)


def test_rank_agreement():
    assert rank_agreement(MU, 7 * MU) == 1
    far = torch.tensor([[0.0], [1.0], [10.0]])
    near = torch.tensor([[0.0], [10.0], [1.0]])
    assert rank_agreement(far, near) == pytest.approx(3 / 9)  # the diagonal alone: every order of the others turned
    torch.testing.assert_close(cluster_means(Z, S, MU)[3], MU[3])


def build(rows=90, **settings):
    recipe = resolve("dcrl", "digits")
    torch.manual_seed(0)
    method = DCRL(
        MLP((1, 6, 1), [16, 3]),
        DataFacts(3, (1, 6, 1), rows),
        Settings(**{**recipe["settings"], "init_rows": 60, "start_epoch": 1, "ramp_epochs": 4, **settings}),
    )
    method.weights = recipe["weights"]
    return method


def data(rows=90, spread=0.2):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(rows, 6, generator=generator) * spread + torch.eye(3, 6)[torch.arange(rows) % 3]


def context(x, epoch=0):
    return Context(epoch, 8, len(x), lambda rows: x[rows].view(-1, 1, 1, 6), lambda *path: 5)


def epoch_of(method, x, number, optimiser):
    method.before_epoch(context(x, number))
    for index in torch.arange(len(x)).split(30):
        terms = method.losses(Batch([x[index].view(-1, 1, 1, 6)], index))
        optimiser.zero_grad()
        sum(method.weights[name] * value for name, value in terms.items()).backward()
        optimiser.step()
    method.after_epoch(context(x, number))


def test_weights_over_the_epochs():
    method = build(start_epoch=10, ramp_epochs=150)
    factors = {}
    for epoch in (0, 9, 10, 80, 150, 160, 299):
        method.epoch.fill_(epoch)
        factors[epoch] = method.schedule()
    assert factors[9] == factors[0] == {"reconstruction": 1, "cluster": 1, "rank": 0, "isometry": 0, "align": 0}
    assert (factors[10]["cluster"], factors[10]["isometry"]) == (1, 0)
    assert factors[80]["reconstruction"] == pytest.approx(0.5)
    assert factors[80]["isometry"] == pytest.approx(70 / 150)
    assert (factors[150]["cluster"], factors[160]["isometry"], factors[299]["isometry"]) == (0, 1, 1)
    paper = build(follow="paper", ramp_epochs=150)
    paper.epoch.fill_(75)
    assert paper.schedule() == {"reconstruction": 1, "cluster": 0.5, "rank": 1, "isometry": 0.5, "align": 1}


def test_the_gradient_of_the_whole_data_step_is_taken_at_the_latents_of_the_epochs_start():
    x = data()
    method = build()
    method.before_epoch(context(x, 0))
    method.before_epoch(context(x, 2))
    start = method.latents.clone()
    with torch.no_grad():  # as if batches had moved everything
        for parameter in method.parameters():
            parameter += 0.01 * torch.ones_like(parameter)
    found = method._structure_gradient(context(x, 2), method.latents)
    z, mu = start.clone().requires_grad_(), method.centres.detach().clone().requires_grad_()
    total = method.schedule()["isometry"] * isometry_loss(z, method.near, method.near_gaps, 6, "code")
    total = total + align_loss(z, mu, method.clusters, method.latent_means, "code")
    of_z, of_mu = torch.autograd.grad(total, (z, mu))
    expected = torch.autograd.grad(method.backbone(x), list(method.backbone.parameters()), of_z)
    for one, other in zip(found, [*expected, of_mu], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_chunks_change_nothing(monkeypatch):
    from methods import dcrl

    x, results = data(), []
    for chunk in (1 << 22, 64):
        monkeypatch.setattr(dcrl, "CHUNK", chunk)
        method = build()
        method.before_epoch(context(x, 0))
        method.before_epoch(context(x, 2))
        results.append(method._structure_gradient(context(x, 2), method.latents))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("gradient", ["vjp", "epoch_start", "recompute"])
def test_every_form_of_the_delayed_gradient_trains_and_resumes(gradient):
    x = data()
    one = build(isometry_gradient=gradient)
    optimiser = torch.optim.Adam(one.parameters(), 1e-3)
    for number in range(3):
        epoch_of(one, x, number, optimiser)
    assert all(torch.isfinite(p).all() for p in one.parameters())
    other = build(isometry_gradient=gradient)
    other.load_state_dict(copy.deepcopy(one.state_dict()))
    second = torch.optim.Adam(other.parameters(), 1e-3)
    second.load_state_dict(copy.deepcopy(optimiser.state_dict()))
    epoch_of(one, x, 3, optimiser)
    epoch_of(other, x, 3, second)
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)  # the second optimiser's moments came along


def test_every_batch_of_an_epoch_carries_the_same_share_of_the_rank_loss():
    x = data()
    method = build()
    start = context(x, 2)
    start.batch_size = 40  # 90 rows: batches of 40, 40, 10; the released program divides by 90 // 40
    method.before_epoch(context(x, 0))
    method.before_epoch(start)
    whole = rank_loss(method.centres, method.input_means, method.settings.rank_scale, "code").item()
    for rows in (40, 10):
        share = method.losses(Batch([x[:rows].view(-1, 1, 1, 6)], torch.arange(rows)))["rank"].item()
        assert share == pytest.approx(whole / 2)


def test_without_alternation_all_terms_stand_in_one_step():
    x = data()
    method = build(alternating=False)
    method.before_epoch(context(x, 0))
    method.before_epoch(context(x, 2))
    terms = method.losses(Batch([x[:30].view(-1, 1, 1, 6)], torch.arange(30)))
    assert set(terms) == {"reconstruction", "cluster", "rank", "isometry", "align"}
    before = [p.detach().clone() for p in method.parameters()]
    method.after_epoch(context(x, 2))
    assert all(torch.equal(a, b) for a, b in zip(before, method.parameters(), strict=True))


def test_an_empty_cluster_keeps_its_means():
    x = data()
    method = build()
    method.before_epoch(context(x, 0))
    kept = method.input_means[2].clone()
    with torch.no_grad():
        method.centres[2] += 1e4
    method.before_epoch(context(x, 2))
    assert (method.clusters != 2).all()
    assert torch.equal(method.input_means[2], kept)
    assert all(math.isfinite(value) for value in method.statistics().values())
    method.after_epoch(context(x, 2))
    assert torch.isfinite(method.centres).all()


def test_centres_start_in_the_data_and_a_choice_never_asks_for_labels():
    """Blobs that an untrained encoder keeps apart are found row for row.

    Wider ones overlap in its latents, and then what is found turns on the last bits of a processor's products.
    """
    x = data(spread=0.05)
    several = [{"initialisations": 3, "choose": choose} for choose in ("inertia", "silhouette", "likelihood")]
    for settings in ({}, *several):
        method = build(**settings)
        method.before_epoch(context(x, 0))
        assert len(set(zip(np.arange(90) % 3, method.clusters.tolist(), strict=True))) == 3
        assert np.bincount(method.clusters).tolist() == [30, 30, 30]


@pytest.mark.parametrize("criterion", ["inertia", "silhouette", "likelihood"])
def test_starting_centres_are_means_of_latents(criterion):
    generator = torch.Generator().manual_seed(0)
    means = torch.eye(3, 4) * 20
    z = means.repeat_interleave(torch.tensor([60, 20, 40]), 0) + torch.randn(120, 4, generator=generator)
    figure, centres = plane_centres(z, 3, criterion, seed=5)
    parts = torch.stack([part.mean(0) for part in z.split([60, 20, 40])])
    nearest = torch.cdist(parts, centres.float()).min(1)
    assert sorted(nearest.indices.tolist()) == [0, 1, 2]
    assert nearest.values.max() < 0.1
    again, same = plane_centres(z, 3, criterion, seed=5)
    assert (again, True) == (figure, torch.equal(same, centres))
    with pytest.raises(ValueError, match="NaN"):
        plane_centres(z * torch.nan, 3, criterion, seed=5)
