"""Methods with an encoder that follows by momentum: the real loop against the papers' formulas, written down anew."""

import math

import pytest
import torch

from tests.methods.reference.harness import BATCH, ROWS, SEED, follow_along, normalised_pictures
from tests.methods.reference.weights import Weights, cross_entropy, enqueue, unit
from training.seeds import derive

QUEUE, M, TAU = 12, 0.8, 0.2
KEYS = {"embedding": 5, "queue": QUEUE, "momentum": M, "temperature": TAU, "shuffle": False}


def info_nce(q, k, queue):
    """Mean of -log exp(q k / tau) / (exp(q k / tau) + sum_n exp(q n / tau)) (MoCo eq. 1)."""
    losses = []
    for query, key in zip(q, k, strict=True):
        scores = torch.cat([(query @ key).unsqueeze(0), queue @ query]) / TAU
        losses.append(torch.logsumexp(scores, 0) - scores[0])
    return torch.stack(losses).mean()


def contrast(w, step, symmetric, key):
    """(loss, q, k) of a step, in the order in which the views pass the networks; the queue as earlier steps left it."""
    queue = w["keys.queue.keys"]
    q, k = unit(w.embed(step.views[0])), key(step.views[1])
    loss = info_nce(q, k, queue)
    if symmetric:
        loss = (loss + info_nce(unit(w.embed(step.views[1])), key(step.views[0]), queue)) / 2
    return loss, q, k


def keys_of(w):
    """x -> unit keys, without gradient."""

    def key(x):
        with torch.no_grad():
            return unit(w.embed(x, "keys"))

    return key


def after(w, k):
    w.drift("keys", M, "backbone", "head")
    enqueue(w, "keys.queue", k)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("layers", [1, 2])
def test_moco(symmetric, layers):
    run = follow_along("moco", settings={**KEYS, "symmetric": symmetric, "layers": layers})
    w = Weights(run, "backbone", "head")
    w.copy_of("keys", "backbone", "head")
    for step in run.steps:
        loss, _, k = contrast(w, step, symmetric, keys_of(w))
        w.step(step, {"contrast": loss})
        after(w, k)
    run.check(w, 1e-5)


def test_moco_with_shuffled_keys_and_split_batch_norm():
    network = {"split_batch_norm": 2}
    run = follow_along("moco", settings={**KEYS, "symmetric": False, "shuffle": True}, network=network)
    w = Weights(run, "backbone", "head")
    w.copy_of("keys", "backbone", "head")
    for step in run.steps:
        order = torch.randperm(
            BATCH, generator=torch.Generator().manual_seed(derive(SEED, "step", step.epoch, step.number))
        )

        def key(x, order=order):
            k = torch.empty(BATCH, 5, dtype=torch.float64)
            k[order] = keys_of(w)(x[order])
            return k

        loss, _, k = contrast(w, step, False, key)
        w.step(step, {"contrast": loss})
        after(w, k)
    run.check(w, 1e-5)


@pytest.mark.parametrize("symmetric", [True, False])
def test_co2(symmetric):
    settings = {**KEYS, "symmetric": symmetric, "consistency_temperature": 0.3}
    run = follow_along("co2", double=False, settings=settings, weights={"contrast": 1, "consistency": 2})
    w = Weights(run, "backbone", "head")
    w.copy_of("keys", "backbone", "head")
    for step in run.steps:
        queue = w["keys.queue.keys"]
        loss, q, k = contrast(w, step, symmetric, keys_of(w))
        of_q, of_k = ((v @ queue.T / 0.3).softmax(1) for v in (q, k))
        forth, back = ((a * (a / b).log()).sum(1).mean() for a, b in ((of_k, of_q), (of_q, of_k)))
        w.step(step, {"contrast": loss, "consistency": (forth + back) / 2})
        after(w, k)
    run.check(w, 1e-4)


# ---- PCL

COUNTS, ALPHA = [2, 4], 10


def phi_of(features, raw, assigned):
    """Eq. 12 with the released code's treatment of small clusters, percentiles and scale."""
    phi = []
    for cluster in range(len(raw)):
        members = features[assigned == cluster]
        spread = (members - raw[cluster]).square().sum(1).sqrt().mean() if len(members) > 1 else None
        phi.append(None if spread is None else float(spread) / math.log(len(members) + ALPHA))
    most = max(value for value in phi if value is not None)
    phi = torch.tensor([most if value is None else value for value in phi], dtype=torch.float64)
    low, high = torch.quantile(phi, 0.1), torch.quantile(phi, 0.9)
    phi = phi.clip(low, high)
    return TAU * phi / phi.mean()


def e_step(w, run, epoch):
    """Clusters of the KEY encoder's features: the run's partition must be a fixed point of K-means on ours."""
    with torch.no_grad():
        features = unit(w.embed(run.images, "keys", training=False))
    for number, count in enumerate(COUNTS):
        assigned = run.marks[epoch][f"assigned{number}"]
        raw = torch.stack([features[assigned == cluster].mean(0) for cluster in range(count)])
        nearest = torch.cdist(features, raw).argmin(1)
        assert torch.equal(nearest, assigned)
        w[f"assigned{number}"] = assigned
        w[f"prototypes{number}"] = unit(raw)
        w[f"phi{number}"] = phi_of(features, raw, assigned)


def spread_out(method):
    """Embeddings in all directions, in eval mode too: of a narrow bundle raw and unit centres would hardly differ."""
    for _ in range(60):  # until running statistics are those of the batch
        h = method.backbone(normalised_pictures())
    hidden = method.head[:2](h)
    variances, axes = torch.linalg.eigh(hidden.T.cov() + 1e-6 * torch.eye(hidden.shape[1]))
    last = method.head[2]  # steep: the steps must be small
    last.weight.copy_((axes / variances.sqrt()).T[-len(last.weight) :])
    last.bias.copy_(-last.weight @ hidden.mean(0))
    method.inherited()


def test_pcl():
    settings = {**KEYS, "symmetric": False, "clusters": COUNTS, "warmup_epochs": 1, "smoothing": ALPHA, "form": "full"}
    run = follow_along(
        "pcl", double=False, settings=settings, schedule={"epochs": 3}, optimiser={"lr": 0.002}, prepare=spread_out
    )
    w = Weights(run, "backbone", "head")
    w.copy_of("keys", "backbone", "head")
    for epoch, steps in run.epochs():
        if epoch:
            e_step(w, run, epoch)
            w["ready"] = torch.tensor(True)
        for step in steps:
            loss, q, k = contrast(w, step, False, keys_of(w))
            terms = {"contrast": loss}
            if epoch:
                parts = [
                    cross_entropy(q @ w[f"prototypes{n}"].T / w[f"phi{n}"], w[f"assigned{n}"][step.index])
                    for n in range(len(COUNTS))
                ]
                terms["prototypes"] = sum(parts) / len(parts)
            w.step(step, terms, 0.002)
            after(w, k)
    run.check(w, 1e-4)


# ---- BYOL


@pytest.mark.parametrize("symmetric", [True, False])
def test_byol(symmetric):
    settings = {"hidden": 6, "embedding": 4, "momentum": 0.7, "symmetric": symmetric}
    run = follow_along("byol", settings=settings)
    w = Weights(run, "backbone", "head", "predictor")
    w.copy_of("target", "backbone", "head")

    def loss_of(online, other):
        p = w.stack(w.embed(online), "predictor")
        with torch.no_grad():
            z = w.embed(other, "target")
        return (unit(p) - unit(z)).square().sum(1).mean()  # |p - z|^2 = 2 - 2 cos

    steps = 2 * ROWS // BATCH
    for number, step in enumerate(run.steps):
        first, second = step.views
        loss = loss_of(first, second)
        if symmetric:
            loss = loss + loss_of(second, first)
        w.step(step, {"prediction": loss})
        momentum = 1 - (1 - 0.7) * (math.cos(math.pi * number / steps) + 1) / 2
        w.drift("target", momentum, "backbone", "head")
        w["momentum"] = torch.tensor(momentum, dtype=torch.float64)
    run.check(w, 1e-5)
