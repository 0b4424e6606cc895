import math

import pytest
import torch
import torch.nn.functional as F

from methods.blocks.contrast import info_nce, info_nce_in_batch
from methods.blocks.sinkhorn import sinkhorn
from methods.cdc import CDC, equipartition
from methods.method import Batch, DataFacts, build_method
from pipeline.recipes import resolve

S = torch.tensor([[0.8, 0.6], [0.6, 0.8], [1.0, 0.0], [0.8, 0.6]], dtype=torch.float64)


@pytest.mark.parametrize(("epsilon", "value"), [(0.05, 0.5955210912), (0.5, 1.2550289726)])
def test_oracle_of_the_equipartition_loss(epsilon, value):
    assert equipartition(S, sinkhorn(S, epsilon, 3), 0.1).item() == pytest.approx(value, abs=1e-9)


C, N_Q = torch.eye(2, dtype=torch.float64), torch.tensor([[0.6, 0.8], [1, 0]], dtype=torch.float64)
N_K = torch.tensor([[0.8, 0.6], [0.6, 0.8]], dtype=torch.float64)
QUEUE = torch.cat([torch.eye(2), torch.tensor([[0.0, 1.0], [-1.0, 0.0]])], 1).double()


def test_oracle_of_the_contrast():
    q, k = torch.cat([C, N_Q], 1), torch.cat([C, N_K], 1)
    assert info_nce(q, k, QUEUE, 0.15).item() == pytest.approx(0.1479056531, abs=1e-9)
    rows = [info_nce(q[i : i + 1], k[i : i + 1], QUEUE, 0.15).item() for i in range(2)]
    assert rows == pytest.approx([0.295765, 0.000047], abs=1e-6)
    # Normalising the joined vector once more halves every similarity.
    halves = [F.normalize(v, dim=1) for v in (q, k, QUEUE)]
    assert info_nce(*halves, 0.15).item() == pytest.approx(info_nce(q, k, QUEUE, 0.3).item(), abs=1e-12)


def unit(*shape, seed=0):
    return F.normalize(torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)), dim=1)


def test_three_forms_of_the_loss_are_one_number():
    """Eqs. 2, 3 and 5: similarity of clusters as a coefficient of the negatives, or of instances."""
    c_q, c_k, n_q, n_k = (unit(6, 4, seed=s) for s in range(4))
    tau = 0.15
    sc, sn = c_q @ c_k.T, n_q @ n_k.T
    plain = info_nce_in_batch(torch.cat([c_q, n_q], 1), torch.cat([c_k, n_k], 1), tau)
    for main, weight in ((sn, sc), (sc, sn)):
        total = 0.0
        for i in range(6):
            positive = torch.exp(main[i, i] / tau)
            rest = sum(
                torch.exp((weight[i, k] - weight[i, i]) / tau) * torch.exp(main[i, k] / tau) for k in range(6) if k != i
            )
            total = total - torch.log(positive / (positive + rest))
        assert (total / 6).item() == pytest.approx(plain.item(), abs=1e-12)


def test_gradient_of_a_negative_carries_the_coefficient():
    """Eq. 8, by finite differences of the loss of one image."""
    tau = 0.15
    sn = torch.tensor([0.7, 0.2, -0.4, 0.5], dtype=torch.float64)  # s^n_ij, j = 0 the positive
    sc = torch.tensor([0.9, -0.3, 0.6, 0.1], dtype=torch.float64)

    def loss(sn):
        return -((sn + sc) / tau).log_softmax(0)[0]

    weight = torch.exp((sc - sc[0]) / tau)
    below = torch.exp(sn[0] / tau) + (weight[1:] * torch.exp(sn[1:] / tau)).sum()
    expected = weight[1:] * torch.exp(sn[1:] / tau) / below / tau
    step = 1e-6
    for j in (1, 2, 3):
        moved = [sn + sign * step * F.one_hot(torch.tensor(j), 4) for sign in (1, -1)]
        assert ((loss(moved[0]) - loss(moved[1])) / (2 * step)).item() == pytest.approx(
            expected[j - 1].item(), rel=1e-6
        )
    leaf = sn.clone().requires_grad_()
    loss(leaf).backward()
    assert leaf.grad[0].item() == pytest.approx(-expected.sum().item())


def build(seed=0, queue=16, weights=None, **settings):
    recipe = resolve("cdc", "digits", {"*": {"network": {"widths": [8, 16]}}})
    recipe["settings"] |= {"queue": queue, "embedding": 6, **settings}
    recipe["weights"] |= weights or {}
    torch.manual_seed(seed)
    return build_method(recipe, DataFacts(5, (8, 8, 1), 64)).train()


def batch(count=8, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return Batch([torch.randn(count, 1, 8, 8, generator=generator) for _ in range(2)], torch.arange(count))


@pytest.mark.parametrize("queue", [0, 16])
@pytest.mark.parametrize("symmetric", [False, True])
def test_both_forms_train(queue, symmetric):
    method = build(queue=queue, symmetric=symmetric)
    terms = method.losses(batch())
    assert set(terms) == {"contrast", "equipartition"}
    sum(terms.values()).backward()
    assert all(p.grad is not None for p in [*method.backbone.parameters(), *method.head.parameters()])
    method.after_step()
    if queue:
        assert method.keys.queue.place == 8
        assert all(p.grad is None for p in method.keys.parameters())
        torch.testing.assert_close(method.keys.negatives[:, :5].norm(dim=1), torch.ones(16))
        torch.testing.assert_close(method.keys.negatives[:, 5:].norm(dim=1), torch.ones(16))
    statistics = method.statistics()
    assert 1 <= statistics["occupied_clusters"] <= 5
    assert method.occupancy.counts.sum() == 0


def test_no_gradient_through_the_targets():
    method = build(target_view="same", queue=0)
    zc = unit(8, 5).float().requires_grad_()
    q = method.targets(zc)
    assert not q.requires_grad
    torch.testing.assert_close(q.sum(1), torch.ones(8))
    torch.testing.assert_close(q, sinkhorn(zc.detach(), 0.05, 3))


def test_swapped_targets_come_from_the_other_view():
    views = batch()
    same, swap = build(queue=0, target_view="same"), build(queue=0, target_view="swap")
    parts = [swap.parts(swap.head(swap.backbone(x))) for x in views.views]
    expected = [
        equipartition(parts[i][0], swap.targets(parts[1 - i][0]), swap.settings.cluster_temperature) for i in (0, 1)
    ]
    swap = build(queue=0, target_view="swap")
    assert swap.losses(views)["equipartition"].item() == pytest.approx((sum(expected) / 2).item(), rel=1e-5)
    assert same.losses(views)["equipartition"].item() != pytest.approx((sum(expected) / 2).item(), rel=1e-3)


def test_parts_have_unit_length_and_joint_normalisation_is_a_key():
    x = batch().views[0]
    found = build().eval().features(x)
    torch.testing.assert_close(found["zc"].norm(dim=1), torch.ones(8))
    torch.testing.assert_close(found["zn"].norm(dim=1), torch.ones(8))
    torch.testing.assert_close(found["z"].norm(dim=1), torch.full((8,), math.sqrt(2)))
    torch.testing.assert_close(found["p"], (found["zc"] / 0.1).softmax(1))
    once_more = build(joint_renorm=True).eval().features(x)["z"]
    torch.testing.assert_close(once_more @ once_more.T, found["z"] @ found["z"].T / 2)
    raw = build(normalise_zc=False).eval().features(x)["zc"]
    assert (raw.norm(dim=1) - 1).abs().max() > 0.01


def test_the_literal_sinkhorn_input_overflows_where_the_default_does_not():
    """The text divides by t before exp(. / epsilon): 1 / (0.1 * 0.05) = 200 is beyond float32."""
    zc = F.normalize(torch.randn(64, 5, generator=torch.Generator().manual_seed(0)), dim=1)
    literal = build(sinkhorn_input="zc_over_t", stabilise="none").targets(zc)
    assert not torch.isfinite(literal).all()
    assert torch.isfinite(build(stabilise="none").targets(zc)).all()
    stabilised = build(sinkhorn_input="zc_over_t", stabilise="log").targets(zc)
    torch.testing.assert_close(stabilised.sum(1), torch.ones(64))


def test_more_clusters_than_images_in_the_batch():
    method = build(clusters=40, queue=0)
    terms = method.losses(batch())
    assert all(torch.isfinite(value) for value in terms.values())
    assert method.features(batch().views[0])["p"].shape == (8, 40)


def test_self_labels_without_a_confident_image_are_harmless():
    method = build(queue=0, weights={"self_label": 1.0}, threshold=0.9999999)
    terms = method.losses(batch())
    assert terms["self_label"] == 0
    sum(terms.values()).backward()
    assert all(torch.isfinite(p.grad).all() for p in method.head.parameters())
    assert method.statistics()["confident"] == 0


def test_self_labels_teach_the_label_of_the_other_view():
    method = build(queue=0, weights={"self_label": 1.0}, threshold=0.5)
    zc, other = torch.eye(5)[[0, 1, 2]], torch.eye(5)[[0, 1, 3]]
    found = method._self_label(zc, other)
    each = F.cross_entropy(zc / method.settings.cluster_temperature, torch.tensor([0, 1, 3]), reduction="none")
    assert found.item() == pytest.approx(each.mean().item(), rel=1e-5)


def test_a_term_without_weight_is_not_computed():
    assert set(build(queue=0, weights={"equipartition": 0}).losses(batch())) == {"contrast"}


def test_class_reads_like_its_recipe():
    assert CDC.terms == ("contrast", "equipartition", "self_label")
    assert set(resolve("cdc", "cifar10")["weights"]) == set(CDC.terms)
    for variant in ("no_equipartition", "no_zc_norm", "no_t", "only_equipartition"):
        resolve(f"cdc-{variant}", "stl10")


def test_the_contrast_with_a_queue_falls_below_chance_within_an_epoch(digits_200):
    """Thirty steps on real digits; at first the loss rises to about ln(1 + queue) as real keys replace noise."""
    from preparation.prepared import open_prepared

    images = open_prepared(digits_200).images[:192]
    x = torch.from_numpy(images.copy()).permute(0, 3, 1, 2).float() / 255
    method = build(queue=256, shuffle=False, momentum=0.9)
    optimiser = torch.optim.Adam([p for p in method.parameters() if p.requires_grad], 3e-3)
    generator, losses = torch.Generator().manual_seed(0), []
    for step in range(30):
        own = x[step % 3 * 64 :][:64]
        views = [own + 0.1 * torch.randn(own.shape, generator=generator) for _ in range(2)]
        terms = method.losses(Batch(views, torch.arange(64)))
        optimiser.zero_grad()
        sum(method.weights[name] * value for name, value in terms.items()).backward()
        optimiser.step()
        method.after_step()
        losses.append(terms["contrast"].item())
    chance = method.chance(64)["contrast"]
    assert chance == pytest.approx(math.log(257))
    assert losses[-1] < 0.9 * chance
