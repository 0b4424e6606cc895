"""The memory bank against published values worked by hand, and loops."""

import math

import pytest
import torch
import torch.nn.functional as F

from methods.blocks.memory_bank import Instances, MemoryBank, similarities

M = torch.tensor([[1.0, 0], [0.6, 0.8], [0, 1], [-0.6, 0.8]], dtype=torch.float64)
Z = torch.tensor([[0.8, 0.6], [0, 1]], dtype=torch.float64)
Y = torch.tensor([0, 2])
DRAWN = torch.tensor([[1, 3], [0, 1]])


def unit(rows, width, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return F.normalize(torch.randn(rows, width, generator=generator, dtype=torch.float64), dim=1)


def test_softmax_over_all_rows():
    assert Instances("softmax", 0.1, 1)(Z, M, Y, None).item() == pytest.approx(1.0230078048, abs=1e-9)


@pytest.mark.parametrize(
    ("tau", "normaliser", "value"), [(1, 7.8540401059, 1.6616669193), (0.1, 28503.4422, 1.5772964344)]
)
def test_noise_contrast(tau, normaliser, value):
    found = Instances("nce", tau, 1).double()
    assert found(Z, M, Y, DRAWN).item() == pytest.approx(value, rel=1e-6)
    assert found.normaliser.item() == pytest.approx(normaliser, rel=1e-6)


def nce_by_loops(z, vectors, index, others, tau, normaliser):
    total, rows = 0.0, len(vectors)
    for i in range(len(z)):
        noise = len(others[i]) / rows
        v = math.exp(float(z[i] @ vectors[index[i]]) / tau) / normaliser
        total -= math.log(v / (v + noise + 1e-7))
        for j in others[i]:
            v = math.exp(float(z[i] @ vectors[j]) / tau) / normaliser
            total -= math.log(noise / (v + noise + 1e-7))
    return total / len(z)


def test_the_normaliser_is_the_first_batch_or_follows():
    vectors, batches = unit(9, 3), [unit(4, 3, seed) for seed in (1, 2)]
    index, others = torch.tensor([3, 0, 8, 1]), torch.tensor([[1, 1], [0, 5], [2, 3], [7, 6]])
    for constant in (1, 0.9):
        loss, normaliser = Instances("nce", 0.3, constant).double(), None
        for z in batches:
            own = [[float(z[i] @ vectors[j]) for j in (index[i], *others[i])] for i in range(4)]
            now = 9 * sum(math.exp(s / 0.3) for row in own for s in row) / 12
            normaliser = now if normaliser is None else constant * normaliser + (1 - constant) * now
            expected = nce_by_loops(z, vectors, index, others, 0.3, normaliser)
            assert loss(z, vectors, index, others).item() == pytest.approx(expected, rel=1e-6)
            assert loss.normaliser.item() == pytest.approx(normaliser, rel=1e-6)


def test_noise_contrast_with_all_rows_takes_each_once():
    z, vectors = unit(3, 3, 1), unit(5, 3)
    loss, every = Instances("nce", 0.3, 1).double(), torch.arange(5).expand(3, 5)
    index = torch.tensor([4, 0, 2])
    expected = Instances("nce", 0.3, 1).double()(z, vectors, index, every)
    torch.testing.assert_close(loss(z, vectors, index, None), expected)


def test_softmax_over_drawn_rows_has_the_own_one_first():
    z, vectors, index = unit(2, 3, 1), unit(5, 3), torch.tensor([4, 1])
    others = torch.tensor([[0, 0, 4], [2, 3, 0]])  # with replacement; the own row may be drawn
    total = 0.0
    for i in range(2):
        scores = [float(z[i] @ vectors[j]) / 0.2 for j in (index[i], *others[i])]
        total += math.log(sum(map(math.exp, scores))) - scores[0]
    assert Instances("softmax", 0.2, 1)(z, vectors, index, others).item() == pytest.approx(total / 2)


@pytest.mark.parametrize("count", [2, 40])  # copies of rows, and the product with the whole bank
def test_both_ways_to_the_products_are_one(count):
    z, vectors = unit(3, 4, 1), unit(30, 4)
    index, others = torch.tensor([4, 1, 29]), torch.arange(3 * count).view(3, count) * 7 % 30
    found = similarities(z, vectors, index, others)
    for i in range(3):
        for place, j in enumerate([index[i], *others[i]]):
            assert found[i, place].item() == pytest.approx(float(z[i] @ vectors[j]))


@pytest.mark.parametrize("form", ["softmax", "nce"])
@pytest.mark.parametrize("others", [None, DRAWN])
def test_gradients(form, others):
    loss = Instances(form, 0.5, 1).double()
    loss.normaliser.fill_(7.0)
    z, vectors = Z.clone().requires_grad_(), M.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: loss(x, M, Y, others), z)
    loss(z, vectors, Y, others).backward()
    assert vectors.grad is None


def test_the_bank_takes_up_a_step_after_it():
    bank = MemoryBank(4, 2, 0.5).double()
    bank.vectors.copy_(M)
    bank.hold(torch.tensor([0, 2]), torch.tensor([[0.8, 0.6], [0, 1]], dtype=torch.float64))
    assert torch.equal(bank.vectors, M)
    bank.after_step()
    expected = torch.tensor([0.9486832981, 0.3162277660], dtype=torch.float64)
    torch.testing.assert_close(bank.vectors[0], expected, rtol=0, atol=1e-9)
    assert torch.equal(bank.vectors[1:], M[1:])


def test_a_row_that_is_there_twice_takes_the_later_embedding():
    for order in ([0, 1], [1, 0]):
        bank = MemoryBank(4, 2, 0.5).double()
        bank.vectors.copy_(M)
        z = Z[order]
        bank.hold(torch.tensor([3, 3]), z)
        bank.after_step()
        torch.testing.assert_close(bank.vectors[3], F.normalize(M[3] + z[1], dim=0))


def test_odd_embeddings_leave_unit_rows():
    bank = MemoryBank(5, 3, 0.5)
    torch.testing.assert_close(bank.vectors.norm(dim=1), torch.ones(5))
    opposite = -bank.vectors[:2]
    bank.hold(torch.tensor([0, 1]), opposite)
    bank.after_step()
    torch.testing.assert_close(bank.vectors[:2], opposite)
    assert bank.vectors.norm(dim=1).min() > 0.99


def test_draws_are_even_and_those_of_the_step():
    bank = MemoryBank(6, 2, 0.5)
    assert bank.draw(3, None) is None
    torch.manual_seed(0)
    drawn = bank.draw(500, 24)
    assert drawn.shape == (500, 24)
    counts = torch.bincount(drawn.flatten(), minlength=6)
    assert len(counts) == 6
    assert (counts / 2000 - 1).abs().max() < 0.1
    torch.manual_seed(0)
    assert torch.equal(bank.draw(500, 24), drawn)


@pytest.mark.parametrize("form", ["softmax", "nce"])
@pytest.mark.parametrize("count", [None, 3])
def test_equal_embeddings_sit_at_chance(form, count):
    same = torch.ones(7, 4, dtype=torch.float64) / 2
    loss, others = Instances(form, 0.1, 0.5).double(), None if count is None else torch.ones(2, count).long()
    if form == "nce":
        assert loss.chance(7, count) is None
        loss(unit(2, 4), same, torch.tensor([0, 5]), others)  # Z of an epoch before the collapse
    value = loss(same[:2], same, torch.tensor([0, 5]), others).item()
    assert value == pytest.approx(loss.chance(7, count), rel=1e-5)
