"""Methods with a memory bank: the real loop against the papers' formulas, written down anew."""

import pytest
import torch

from tests.methods.reference.harness import BATCH, ROWS, SEED, follow_along
from tests.methods.reference.weights import Weights, unit
from training.seeds import derive

D, TAU, M, NEGATIVES = 5, 0.3, 0.4, 6
BANK = {"embedding": D, "temperature": TAU, "bank_momentum": M}


def drawn(step, count=NEGATIVES):
    """The other rows of each image of a step, as the program draws them."""
    generator = torch.Generator().manual_seed(derive(SEED, "step", step.epoch, step.number))
    return torch.randint(ROWS, (BATCH, count), generator=generator, dtype=torch.int32).long()


def found(z, bank, index, others):
    """Mean of -log exp(z M_i / tau) / sum_j exp(z M_j / tau), over all rows j or over i and the drawn ones."""
    losses = []
    for place, row in enumerate(index):
        columns = torch.arange(ROWS) if others is None else torch.cat([row.view(1), others[place]])
        losses.append(torch.logsumexp(bank[columns] @ z[place] / TAU, 0) - bank[row] @ z[place] / TAU)
    return torch.stack(losses).mean()


def told(z, bank, index, others, normaliser):
    """Each of 1 + m rows told from noise (InstDisc eq. 7)."""
    total, noise = 0, others.shape[1] / ROWS
    for place, row in enumerate(index):
        v = (bank[torch.cat([row.view(1), others[place]])] @ z[place] / TAU).exp() / normaliser
        total = total - (v[0] / (v[0] + noise + 1e-7)).log() - (noise / (v[1:] + noise + 1e-7)).log().sum()
    return total / len(z)


def remember(w, name, index, z):
    bank = w[name].clone()
    for row, vector in zip(index, z.detach(), strict=True):
        mean = M * bank[row] + (1 - M) * vector
        bank[row] = mean / mean.norm()
    w[name] = bank


@pytest.mark.parametrize("negatives", [None, NEGATIVES])
def test_instdisc(negatives):
    run = follow_along("instdisc", settings={**BANK, "negatives": negatives})
    w = Weights(run, "backbone", "head")
    for step in run.steps:
        z = unit(w.embed(step.views[0]))
        others = None if negatives is None else drawn(step)
        w.step(step, {"instance": found(z, w["bank.vectors"], step.index, others)})
        remember(w, "bank.vectors", step.index, z)
    run.check(w, 1e-5)


@pytest.mark.parametrize("constant", [1, 0.7])
def test_instdisc_told_from_noise(constant):
    settings = {**BANK, "negatives": NEGATIVES, "form": "nce", "constant": constant}
    run = follow_along("instdisc", settings=settings, double=False)
    w = Weights(run, "backbone", "head")
    normaliser = None
    for step in run.steps:
        z, others, bank = unit(w.embed(step.views[0])), drawn(step), w["bank.vectors"]
        columns = torch.cat([step.index.unsqueeze(1), others], dim=1)
        now = ROWS * (bank[columns] * z.detach().unsqueeze(1)).sum(2).div(TAU).exp().mean()
        normaliser = now if normaliser is None else constant * normaliser + (1 - constant) * now
        w.step(step, {"instance": told(z, bank, step.index, others, normaliser)})
        remember(w, "bank.vectors", step.index, z)
    w["instances.normaliser"] = normaliser
    run.check(w, 1e-4)


# ---- LocalAgg

K, H = 3, 2


def near_and_close(z, bank, index, assigned, count):
    """-log of what close rows weigh among the nearest `count`."""
    losses = []
    for place, row in enumerate(index):
        weights = (bank @ z[place] / TAU).exp()
        near = sorted(range(ROWS), key=lambda j: -weights[j].item())[:count]
        close = [j for j in near if any(assigned[h][j] == assigned[h][row] for h in range(H))]
        losses.append(-(weights[close].sum() / weights[near].sum() + 1e-7).log())
    return torch.stack(losses).mean()


def test_localagg():
    """An epoch of telling images apart, then one of aggregation by clusters that are a fixed point of K-means."""
    settings = {**BANK, "warmup_epochs": 1, "background": 6, "clusters": K, "clusterings": H}
    run = follow_along("localagg", settings=settings)
    w = Weights(run, "backbone", "head")
    for epoch, steps in run.epochs():
        bank = w["bank.vectors"]
        if epoch:
            w["assigned"], w["ready"] = run.marks[epoch]["assigned"], torch.tensor(True)
            for labels in w["assigned"]:
                centres = torch.stack([bank[labels == cluster].mean(0) for cluster in range(K)])
                assert torch.equal(torch.cdist(bank, centres).argmin(1), labels)
        for step in steps:
            z, bank = unit(w.embed(step.views[0])), w["bank.vectors"]
            if epoch:
                terms = {"aggregation": near_and_close(z, bank, step.index, w["assigned"], 6)}
            else:
                terms = {"instance": found(z, bank, step.index, None)}
            w.step(step, terms)
            remember(w, "bank.vectors", step.index, z)
    run.check(w, 1e-5)
