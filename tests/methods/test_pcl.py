import math

import pytest
import torch
import torch.nn.functional as F

from methods.method import Batch, Context, DataFacts, build_method
from methods.pcl import LEAST_PHI, concentration, prototype_nce
from pipeline.recipes import resolve


def test_concentration_by_hand():
    """Three clusters of 4, 2 and 1 members, alpha 10, tau 0.2."""
    distance = torch.tensor([1.0, 2.0, 3.0, 2.0, 0.5, 1.5, 0.0])
    assigned = torch.tensor([0, 0, 0, 0, 1, 1, 2])
    raw = [2 / math.log(14), 1 / math.log(12)]
    phi = torch.tensor([raw[0], raw[1], max(raw)])  # one member: the largest
    low, high = phi.quantile(0.1), phi.quantile(0.9)
    clipped = phi.clamp(low, high)
    torch.testing.assert_close(concentration(distance, assigned, 3, 10, 0.2), 0.2 * clipped / clipped.mean())


@pytest.mark.parametrize("seed", range(4))
def test_concentration_has_the_temperature_as_mean_and_a_bounded_range(seed):
    generator = torch.Generator().manual_seed(seed)
    distance, assigned = torch.rand(500, generator=generator), torch.randint(0, 40, (500,), generator=generator)
    assigned[assigned == 7] = 8  # an empty cluster
    phi = concentration(distance, assigned, 40, 10, 0.1)
    assert phi.mean().item() == pytest.approx(0.1)
    sizes = torch.bincount(assigned, minlength=40)
    raw = torch.zeros(40).index_add_(0, assigned, distance) / sizes.clamp(min=1) / (sizes + 10).log()
    raw[sizes <= 1] = raw[sizes > 1].max()
    assert phi.max() / phi.min() <= raw.quantile(0.9) / raw.quantile(0.1) + 1e-4


def test_concentration_without_any_spread_is_the_temperature():
    same = concentration(torch.zeros(6), torch.tensor([0, 0, 0, 1, 1, 1]), 2, 10, 0.2)
    torch.testing.assert_close(same, torch.full((2,), 0.2))
    torch.testing.assert_close(concentration(torch.zeros(2), torch.tensor([0, 1]), 2, 10, 0.2), torch.full((2,), 0.2))


def test_clusters_of_duplicates_leave_loss_and_gradient_finite():
    """A fifth of the clusters holds one image many times over: no spread, and even the clipped phi would be 0."""
    assigned = torch.arange(10).repeat_interleave(5)
    distance = torch.rand(50, generator=torch.Generator().manual_seed(0))
    distance[assigned < 2] = 0
    phi = concentration(distance, assigned, 10, 10, 0.2)
    assert phi.mean().item() == pytest.approx(0.2)
    assert phi.min() >= 0.9 * LEAST_PHI * 0.2  # a tenth of the mean before the last scaling
    q = torch.randn(50, 6, generator=torch.Generator().manual_seed(1)).requires_grad_()
    prototypes = F.normalize(torch.randn(10, 6, generator=torch.Generator().manual_seed(2)), dim=1)
    loss = prototype_nce(F.normalize(q, dim=1), prototypes, phi, assigned)
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(q.grad).all()


def test_training_images_that_are_duplicates_leave_everything_finite():
    x = X.clone()
    x[:30] = X[torch.arange(30) % 3]
    method = build(clusters=[4, 9], warmup_epochs=0)
    method.before_epoch(context(0, x))
    terms = method.losses(Batch([x[:8], x[:8]], torch.arange(8)))
    sum(terms.values()).backward()
    assert all(torch.isfinite(p.grad).all() for p in method.parameters() if p.requires_grad)
    assert min(method.phi0.min(), method.phi1.min()) > 0


def build(rows=40, seed=0, **settings):
    recipe = resolve("pcl", "digits", {"*": {"network": {"widths": [8, 16], "split_batch_norm": 2}}})
    recipe["settings"] |= {"queue": 24, "embedding": 6, "clusters": [4, 9], "warmup_epochs": 1, **settings}
    torch.manual_seed(seed)
    return build_method(recipe, DataFacts(10, (8, 8, 1), rows)).train()


X = torch.rand(40, 1, 8, 8, generator=torch.Generator().manual_seed(0))


def context(epoch, x=X, seed=3):
    return Context(epoch, 9, len(x), lambda rows: x[rows], lambda *path: seed + hash(path[-1]) % 7)


def batch():
    generator = torch.Generator().manual_seed(1)
    return Batch([torch.rand(8, 1, 8, 8, generator=generator) for _ in range(2)], torch.arange(8))


def test_warm_up_has_no_prototypes():
    method = build()
    method.before_epoch(context(0))
    assert set(method.losses(batch())) == {"contrast"}
    method.before_epoch(context(1))
    terms = method.losses(batch())
    assert set(terms) == {"contrast", "prototypes"}
    sum(terms.values()).backward()
    assert all(p.grad is None for p in method.keys.parameters())
    assert all(p.grad is not None for p in method.head.parameters())


def test_e_step_repeats_and_does_not_hang_on_the_order_of_rows():
    one, again = build(), build()
    for method in (one, again):
        method.before_epoch(context(1))
    assert torch.equal(one.assigned1, again.assigned1)
    torch.testing.assert_close(one.prototypes0.norm(dim=1), torch.ones(4))
    assert one.phi0.mean().item() == pytest.approx(one.settings.temperature, rel=1e-5)
    order = torch.randperm(40, generator=torch.Generator().manual_seed(5))
    other = build()
    other.before_epoch(context(1, X[order]))
    same = one.assigned0[order].unsqueeze(0) == one.assigned0[order].unsqueeze(1)
    assert torch.equal(same, other.assigned0.unsqueeze(0) == other.assigned0.unsqueeze(1))  # up to naming
    assert one.training


def test_loss_is_the_cross_entropy_of_scaled_similarities():
    method = build(symmetric=False)
    method.before_epoch(context(1))
    views = batch()
    found = method.losses(views)["prototypes"]
    method = build(symmetric=False)
    method.before_epoch(context(1))
    q = method.query(views.views[0])
    expected = 0.0
    for prototypes, phi, assigned in (
        (method.prototypes0, method.phi0, method.assigned0),
        (method.prototypes1, method.phi1, method.assigned1),
    ):
        for i in range(8):
            logits = [(q[i] @ prototypes[j] / phi[j]).item() for j in range(len(prototypes))]
            expected += math.log(sum(map(math.exp, logits))) - logits[assigned[i]]
    assert found.item() == pytest.approx(expected / 16, rel=1e-4)


def test_sampled_with_all_others_is_full():
    method = build(form="sampled", negatives=10**6)
    method.before_epoch(context(1))
    own = method.assigned1[:8]
    candidates, target = method._sample(own, 9)
    assert sorted(candidates.tolist()) == list(range(9))  # no prototype twice
    assert torch.equal(candidates[target], own)
    q = F.normalize(torch.randn(8, 6), dim=1)
    full = prototype_nce(q, method.prototypes1, method.phi1, own)
    torch.testing.assert_close(prototype_nce(q, method.prototypes1[candidates], method.phi1[candidates], target), full)
    few, _ = build(form="sampled", negatives=2)._sample(torch.tensor([3, 3, 5]), 9)
    assert few.tolist()[:2] == [3, 5]
    assert len(few) == 4
    assert not {3, 5} & set(few.tolist()[2:])


def test_prototypes_are_part_of_the_state():
    one, other = build(), build(seed=1)
    one.before_epoch(context(1))
    other.load_state_dict(one.state_dict())
    assert other.ready
    assert torch.equal(other.assigned0, one.assigned0)


def test_shares_of_the_rows_and_too_many_prototypes():
    assert build(clusters=[0.1, 7]).counts == [4, 7]
    with pytest.raises(ValueError, match="50 prototypes asked of 40 training rows"):
        build(clusters=[50])


def test_expectation_and_maximisation_lower_the_objective_on_a_toy():
    """Appendix G: at given prototypes every M-step lowers the objective of all rows, and so do the epochs."""
    generator = torch.Generator().manual_seed(0)
    centres = torch.rand(4, 1, 8, 8, generator=generator)
    x = (centres[torch.arange(40) % 4] + 0.15 * torch.randn(40, 1, 8, 8, generator=generator)).clamp(0, 1)
    method = build(clusters=[4], warmup_epochs=0, symmetric=False, momentum=0.5)
    optimiser = torch.optim.Adam([p for p in method.parameters() if p.requires_grad], 1e-2)
    objective = []
    for epoch in range(8):
        method.before_epoch(context(epoch, x))
        within = []
        for _ in range(10):
            terms = method.losses(Batch([x, x], torch.arange(40)))
            optimiser.zero_grad()
            terms["prototypes"].backward()
            optimiser.step()
            method.after_step()
            within.append(terms["prototypes"].item())
        assert within[-1] < within[0], epoch
        objective.append(within[-1])
    assert objective[-1] < 0.75 * objective[0]
