import math

import pytest
import torch
import torch.nn.functional as F

from methods.method import Batch, Context, DataFacts, build_method
from pipeline.recipes import resolve

X = torch.rand(40, 1, 8, 8, generator=torch.Generator().manual_seed(0))


def build(**settings):
    recipe = resolve("deepcluster_v2", "digits", {"*": {"network": {"widths": [8, 16]}}})
    recipe["settings"] |= {"embedding": 6, "clusters": 5, "heads": 2, **settings}
    torch.manual_seed(0)
    return build_method(recipe, DataFacts(10, (8, 8, 1), 40)).train()


def at(method, epoch):
    method.before_epoch(Context(epoch, 9, 40, lambda rows: X[rows], lambda *path: 3 + path[-1]))
    return method


def batch():
    generator = torch.Generator().manual_seed(1)
    return Batch([torch.rand(8, 1, 8, 8, generator=generator) for _ in range(2)], torch.arange(8) * 2)


def test_loss_equals_loops():
    method = at(build(), 0)
    views, total = batch(), 0.0
    found = method.losses(views)["assignment"].item()
    for view in views.views:
        z = method.embed(view)
        for centres, labels in zip(method.centres, method.assigned, strict=True):
            for i in range(8):
                logits = [(z[i] @ c / 0.1).item() for c in centres]
                total += math.log(sum(map(math.exp, logits))) - logits[labels[views.index[i]]]
    assert found == pytest.approx(total / 32, rel=1e-4)


def test_clusters_are_those_of_the_bank_which_training_fills():
    method = at(build(), 0)
    first = method.bank.clone()
    torch.testing.assert_close(method.centres.norm(dim=2), torch.ones(2, 5))
    nearest = (method.bank @ method.centres[0].T).argmax(1)
    assert (nearest == method.assigned[0]).float().mean() > 0.9  # ten iterations need not have converged
    views = batch()
    method.losses(views)
    with torch.no_grad():
        again = F.normalize(method.head(method.backbone(views.views[0])), dim=1)
    torch.testing.assert_close(method.bank[views.index], again)
    others = torch.ones(40).bool()
    others[views.index] = False
    assert torch.equal(method.bank[others], first[others])
    at(method, 1)  # later epochs cluster what the bank holds, and ask for no image
    assert method.training


def test_no_gradient_reaches_the_centres_and_too_many_clusters_are_refused():
    method = at(build(), 0)
    method.losses(batch())["assignment"].backward()
    assert all(p.grad is not None for p in method.parameters())
    assert not method.centres.requires_grad
    with pytest.raises(ValueError, match="50 clusters asked of 40 training rows"):
        build(clusters=50)


def test_equal_embeddings_sit_at_chance():
    method = at(build(), 0)
    with torch.no_grad():
        method.centres.copy_(method.centres[:, :1].expand_as(method.centres))
    assert method.losses(batch())["assignment"].item() == pytest.approx(method.chance(8)["assignment"], rel=1e-5)
