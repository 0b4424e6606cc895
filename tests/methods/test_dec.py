import numpy as np
import pytest
import torch

from methods.blocks.networks import MLP
from methods.blocks.student_t import soft_assignment, squared_distances, target_distribution
from methods.dec import Dec, Settings, divergence
from methods.method import Batch, Context, DataFacts

GENERATOR = torch.Generator().manual_seed(0)
Z = torch.randn(7, 3, generator=GENERATOR, dtype=torch.float64)
MU = torch.randn(4, 3, generator=GENERATOR, dtype=torch.float64)


def by_loops(z, mu):
    """Eqs. 1 and 3 in plain numbers."""
    n, k = len(z), len(mu)
    kernel = [
        [1 / (1 + sum((float(a) - float(b)) ** 2 for a, b in zip(z[i], mu[j], strict=True))) for j in range(k)]
        for i in range(n)
    ]
    q = [[value / sum(row) for value in row] for row in kernel]
    f = [sum(q[i][j] for i in range(n)) for j in range(k)]
    p = [[q[i][j] ** 2 / f[j] for j in range(k)] for i in range(n)]
    return np.array(q), np.array([[value / sum(row) for value in row] for row in p])


def test_assignment_and_target_equal_loops():
    q, p = by_loops(Z, MU)
    np.testing.assert_allclose(soft_assignment(Z, MU), q, atol=1e-12)
    np.testing.assert_allclose(target_distribution(soft_assignment(Z, MU)), p, atol=1e-12)


def test_gradients_are_those_of_the_paper():
    """DEC eqs. 4 and 5 (alpha = 1), DCRL eq. 4: the gradient of the summed KL with the target held fixed."""
    z, mu = Z.clone().requires_grad_(), MU.clone().requires_grad_()
    q = soft_assignment(z, mu)
    p = target_distribution(q).detach()
    (divergence(p, q) * len(z)).backward()
    weight = (p - q.detach()) / (1 + squared_distances(Z, MU))  # [N, K]
    apart = Z.unsqueeze(1) - MU.unsqueeze(0)
    torch.testing.assert_close(z.grad, 2 * (weight.unsqueeze(2) * apart).sum(1))
    torch.testing.assert_close(mu.grad, -2 * (weight.unsqueeze(2) * apart).sum(0))


def test_a_target_sharpens_and_balances():
    q = torch.tensor([[0.6, 0.4], [0.9, 0.1], [0.8, 0.2], [0.3, 0.7]], dtype=torch.float64)
    p = target_distribution(q)
    torch.testing.assert_close(p.sum(1), torch.ones(4, dtype=torch.float64))
    assert p[1, 0] > q[1, 0]
    assert p[0, 1] > q[0, 1]  # the rarer cluster gains what lies between
    assert divergence(q, q) == 0


def facts(rows=60):
    return DataFacts(3, (1, 5, 1), rows)


def context(x, epoch=0, step=0):
    return Context(epoch, 10, len(x), lambda rows: x[rows].view(-1, 1, 1, 5), lambda *path: 1, step=step)


def dec(**changes):
    torch.manual_seed(0)
    method = Dec(
        MLP((1, 5, 1), [6, 2]), facts(), Settings(**({"interval": 4, "tolerance": 0.1, "n_init": 3} | changes))
    )
    method.weights = {"cluster": 1.0, "reconstruction": 0.0}
    return method


def test_centres_are_kmeans_and_move_with_a_step():
    x = torch.randn(60, 5)
    method = dec()
    method.before_epoch(context(x))
    method.before_step(context(x))
    placed = method.centres.detach().clone()
    assert len(placed.unique(dim=0)) == 3
    optimiser = torch.optim.SGD(method.parameters(), 0.5)
    losses = method.losses(Batch([x.view(-1, 1, 1, 5)], torch.arange(60)))
    assert set(losses) == {"cluster"}  # no decoder is run whose weight is 0
    losses["cluster"].backward()
    optimiser.step()
    assert not torch.equal(method.centres, placed)
    assert method.decoder[0].weight.grad is None


def test_the_target_is_refreshed_every_interval_and_ends_training_when_labels_stay():
    x = torch.randn(60, 5)
    method = dec()
    method.before_epoch(context(x))
    method.before_step(context(x))
    first = method.target.clone()
    assert method.changed == 1
    assert not method.finished  # the first refresh compares with nothing
    with torch.no_grad():
        method.centres += 0.1
    method.before_step(context(x, step=3))
    assert torch.equal(method.target, first)
    method.before_step(context(x, step=4))
    assert not torch.equal(method.target, first)
    method.before_step(context(x, step=8))
    assert method.changed == 0
    assert method.finished
    state = method.state_dict()
    other = dec()
    other.load_state_dict(state)
    assert other.finished  # a resumed run knows it


def test_a_new_epoch_keeps_the_centres():
    x = torch.randn(60, 5)
    method = dec()
    method.before_epoch(context(x))
    placed = method.centres.detach().clone()
    method.before_epoch(context(x + 5, epoch=1))
    assert torch.equal(method.centres, placed)


@pytest.mark.parametrize("number", [0, 1])
def test_layerwise_pretraining_trains_one_layer(number):
    from methods import autoencoder

    torch.manual_seed(0)
    method = autoencoder.AutoEncoder(MLP((1, 5, 1), [6, 2]), facts(), autoencoder.Settings(0.0, 2, dropout=0.2))
    x = torch.rand(60, 5)
    method.before_epoch(context(x, epoch=2 * number))
    method.losses(Batch([x.view(-1, 1, 1, 5)], torch.arange(60)))["reconstruction"].backward()
    down = [method.backbone.layers[0], method.backbone.layers[2]]
    up = [method.decoder[2], method.decoder[0]]
    for place, layer in enumerate((*down, *up)):
        assert (layer.weight.grad is not None) == (place % 2 == number)
    method.zero_grad()
    method.before_epoch(context(x, epoch=4))
    method.losses(Batch([x.view(-1, 1, 1, 5)], torch.arange(60)))["reconstruction"].backward()
    assert all(layer.weight.grad is not None for layer in (*down, *up))


def test_denoising_rebuilds_the_clean_input():
    from methods import autoencoder

    method = autoencoder.AutoEncoder(MLP((1, 5, 1), [5]), facts(), autoencoder.Settings(3.0, 0, dropout=0.0))
    with torch.no_grad():
        for layer in (method.backbone.layers[0], method.decoder[0]):
            layer.weight.copy_(torch.eye(5))
            layer.bias.zero_()
    x = torch.rand(2000, 5)
    loss = method.losses(Batch([x.view(-1, 1, 1, 5)], torch.arange(2000)))["reconstruction"]
    assert loss.item() == pytest.approx(9, rel=0.1)  # an identity network leaves exactly the noise
