import pytest
import torch

from methods.method import Batch, DataFacts, build_method
from pipeline.recipes import resolve

X = torch.rand(6, 1, 8, 8, generator=torch.Generator().manual_seed(0))
ROWS = torch.tensor([30, 2, 11, 0, 7, 39])


def build(name="instdisc", **settings):
    recipe = resolve(name, "digits", {"*": {"network": {"widths": [8, 16]}}})
    recipe["settings"] |= {"embedding": 6, **settings}
    torch.manual_seed(0)
    return build_method(recipe, DataFacts(10, (8, 8, 1), 40)).train()


def test_the_loss_is_that_of_the_rows_of_the_bank_before_the_step():
    method = build()
    before = method.bank.vectors.clone()
    loss = method.losses(Batch([X], ROWS))["instance"]
    z = method.embed(X)
    expected = torch.stack([torch.logsumexp(before @ z[i] / 0.1, 0) - before[ROWS[i]] @ z[i] / 0.1 for i in range(6)])
    torch.testing.assert_close(loss, expected.mean())
    assert torch.equal(method.bank.vectors, before)
    method.after_step()
    moved = before[ROWS] + z.detach()
    torch.testing.assert_close(method.bank.vectors[ROWS], moved / moved.norm(dim=1, keepdim=True))


@pytest.mark.parametrize("name", ["instdisc", "instdisc-nce", "instdisc-moving"])
def test_gradients_reach_the_network_alone(name):
    method = build(name)
    method.losses(Batch([X], ROWS))["instance"].backward()
    assert all(p.grad is not None and p.grad.any() for p in method.parameters())
    assert not method.bank.vectors.requires_grad


def test_the_form_and_the_number_of_negatives_are_the_recipes():
    values = {}
    for name, settings in {
        "all": {},
        "few": {"negatives": 3},
        "nce": {"form": "nce"},
        "few, nce": {"form": "nce", "negatives": 3},
    }.items():
        torch.manual_seed(1)
        values[name] = build(**settings).losses(Batch([X], ROWS))["instance"].item()
    assert len({round(value, 4) for value in values.values()}) == 4
    assert build("instdisc-moving").instances.constant == 0.99


@pytest.mark.parametrize("settings", [{}, {"negatives": 5}, {"form": "nce", "negatives": 5}])
def test_equal_embeddings_sit_at_chance(settings):
    method = build(**settings)
    with torch.no_grad():
        method.head[0].weight.zero_()
        method.bank.vectors.copy_(torch.nn.functional.normalize(method.head[0].bias, dim=0).expand(40, -1))
    for _ in range(2):
        value = method.losses(Batch([X], ROWS))["instance"].item()
    assert value == pytest.approx(method.chance(6)["instance"], rel=1e-4)
