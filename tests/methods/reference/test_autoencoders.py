"""The autoencoder family: the real loop against the papers' formulas, written down once more."""

import pytest
import torch
import torch.nn.functional as F

from tests.methods.reference.harness import BATCH, CLASSES, ROWS, SEED, follow_along
from tests.methods.reference.weights import Weights
from training.seeds import derive

LAYERS = 3


def encode(w, x):
    return w.stack(x.flatten(1), "backbone.layers")


def mse(a, b):
    return (a - b).square().mean()


def drawn_in(step):
    """torch's generator as it stands when a step begins."""
    torch.manual_seed(derive(SEED, "step", step.epoch, step.number))


# ---- autoencoder


def test_autoencoder():
    run = follow_along("autoencoder", settings={"noise": 0.2}, schedule={"epochs": 2})
    w = Weights(run, "backbone", "decoder")
    for step in run.steps:
        x = step.views[0].flatten(1)
        drawn_in(step)
        noisy = x + 0.2 * torch.randn(len(x), 64, dtype=torch.float64)
        w.step(step, {"reconstruction": mse(w.stack(encode(w, noisy), "decoder"), x)})
        w["epoch"] = torch.tensor(step.epoch)
    run.check(w, 1e-5)


def layer(w, name, x):
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]


def test_autoencoder_layer_by_layer():
    """One epoch for each of three layers, on the frozen layers below it; then end to end, without dropout."""
    settings = {"noise": 0, "layerwise_epochs": 1, "dropout": 0.3}
    run = follow_along("autoencoder", settings=settings, schedule={"epochs": 4}, optimiser={"lr": 0.5})
    w = Weights(run, "backbone", "decoder")
    for step in run.steps:
        x, n = step.views[0].flatten(1), step.epoch
        w["epoch"] = torch.tensor(n)
        if n == LAYERS:
            w.step(step, {"reconstruction": mse(w.stack(encode(w, x), "decoder"), x)}, 0.5)
            continue
        for below in range(n):
            x = layer(w, f"backbone.layers.{2 * below}", x).relu().detach()
        drawn_in(step)
        kept = F.dropout(torch.ones_like(x), 0.3)
        code = layer(w, f"backbone.layers.{2 * n}", x * kept)
        code = code if n == LAYERS - 1 else code.relu()
        code = code * F.dropout(torch.ones_like(code), 0.3)
        back = layer(w, f"decoder.{2 * (LAYERS - 1 - n)}", code)
        w.step(step, {"reconstruction": mse(back if n == 0 else back.relu(), x)}, 0.5)
    run.check(w, 1e-5)


# ---- DEC and IDEC


def squared(a, b):
    return torch.stack([(row - b).square().sum(1) for row in a])


def student(z, centres):
    kernel = 1 / (1 + squared(z, centres))
    return kernel / kernel.sum(1, keepdim=True)


def sharpened(q):
    weight = q**2 / q.sum(0)
    return weight / weight.sum(1, keepdim=True)


def kl(p, q):
    """[B, K], every summand of KL(P || Q)."""
    return p * (p / q).log()


@pytest.mark.parametrize("name", ["dec", "idec"])
def test_dec(name):
    rate = 0.05
    optimiser = {"name": "sgd", "lr": rate, "momentum": 0, "weight_decay": 0}
    run = follow_along(name, settings={"interval": 3, "tolerance": 0.0, "n_init": 3}, optimiser=optimiser)
    assert run.recipe["weights"] == {"dec": {"cluster": 1, "reconstruction": 0}}.get(
        name, {"cluster": 0.1, "reconstruction": 1}
    )
    w = Weights(run, "backbone", "decoder", "centres")
    z = encode(w, run.images).detach()
    w["centres"] = run.marks[0]["centres"].clone().requires_grad_()
    own = squared(z, w["centres"].detach()).argmin(1)
    for cluster in range(CLASSES):  # K-means has found a fixed point of the encoder's latents
        torch.testing.assert_close(w["centres"][cluster].detach(), z[own == cluster].mean(0), rtol=1e-5, atol=1e-5)
    for number, step in enumerate(run.steps):
        if number % 3 == 0:
            q = student(encode(w, run.images), w["centres"]).detach()
            w["target"] = sharpened(q)
            w["changed"] = (q.argmax(1) != w["labels"]).double().mean()
            w["labels"] = q.argmax(1)
        x = step.views[0].flatten(1)
        z = encode(w, x)
        terms = {"cluster": kl(w["target"][step.index], student(z, w["centres"])).sum(1).mean()}
        if name == "idec":
            terms["reconstruction"] = mse(w.stack(z, "decoder"), x)
        w.step(step, terms, rate)
    run.check(w, 1e-5)


# ---- DCRL

NEAR, START, RAMP, SCALE = 2, 1, 3, 3


def gaps_between(points):
    """Distances of all pairs; of a point with itself the least that the program knows, 1e-4."""
    rows = []
    for i, a in enumerate(points):
        one = [(a - b).square().sum().sqrt() if i != j else a.sum() * 0 + 1e-4 for j, b in enumerate(points)]
        rows.append(torch.stack(one))
    return torch.stack(rows)


def rank_term(centres, means, follow):
    gap = gaps_between(centres) - SCALE * gaps_between(means)
    return gap.square().sum().sqrt() / CLASSES if follow == "code" else gap.abs().sum()


def isometry_term(z, x, near, follow):
    """L_LIS over the pairs (i, j) of `near` [N, k], -1 for none: distances of x [N, d] against those of z [N, m]."""
    differences = []
    for i, others in enumerate(near.tolist()):
        for j in others:
            if j >= 0:
                dx, dz = ((v[i] - v[j]).square().sum().sqrt() for v in (x, z))
                differences.append(dx / 8 - dz / 3**0.5 if follow == "code" else dx - dz)
    if not differences:
        return z.sum() * 0
    found = torch.stack(differences)
    return found.square().sum().sqrt() if follow == "code" else found.abs().sum()


def align_term(z, centres, clusters, before, follow):
    gaps = []
    for c in range(CLASSES):
        mean = z[clusters == c].mean(0) if (clusters == c).any() else before[c]
        gaps.append((centres[c] - mean).square().sum().sqrt())
    return torch.stack(gaps).mean() if follow == "code" else torch.stack(gaps).sum()


def neighbours_of(z, clusters):
    near = torch.full((len(z), NEAR), -1)
    for i in range(len(z)):
        others = [j for j in range(len(z)) if j != i and clusters[j] == clusters[i]]
        if len(others) >= NEAR:
            near[i] = torch.tensor(sorted(others, key=lambda j: float((z[i] - z[j]).square().sum()))[:NEAR])
    return near


def factors(epoch, follow):
    """(of reconstruction, clustering, rank, isometry, align) in an epoch."""
    if follow == "paper":
        a, b = max(0.0, 1 - epoch / RAMP), min(1.0, epoch / RAMP)
        return {"reconstruction": 1.0, "cluster": a, "rank": 1.0, "isometry": b, "align": 1.0}
    if epoch < START:
        return {"reconstruction": 1.0, "cluster": 1.0, "rank": 0.0, "isometry": 0.0, "align": 0.0}
    a, b = 1 - (epoch - START) / (RAMP - START), (epoch - START) / RAMP
    return {"reconstruction": a, "cluster": a, "rank": 1.0, "isometry": b, "align": 1.0}


class Adam:
    """The whole-data step's optimiser (Kingma and Ba), written out."""

    def __init__(self, rate):
        self.rate, self.count, self.first, self.second = rate, 0, {}, {}

    def step(self, w, gradients):
        self.count += 1
        for name, g in gradients.items():
            self.first[name] = 0.9 * self.first.get(name, 0) + 0.1 * g
            self.second[name] = 0.999 * self.second.get(name, 0) + 0.001 * g * g
            mean, square = self.first[name] / (1 - 0.9**self.count), self.second[name] / (1 - 0.999**self.count)
            w.move(name, -self.rate * mean / (square.sqrt() + 1e-8))


class Dcrl:
    """DCRL's two alternating steps on copied weights."""

    def __init__(self, run, follow, gradient, alternating):
        self.run, self.follow, self.gradient, self.alternating = run, follow, gradient, alternating
        self.w = Weights(run, "backbone", "decoder", "centres")
        self.w["centres"] = run.marks[0]["centres"].clone().requires_grad_()  # from a t-SNE plane
        self.adam, self.x = Adam(0.01), run.images.flatten(1)

    def structured(self, epoch):
        return self.follow == "paper" or epoch >= START

    def begin(self, epoch):
        w = self.w
        w["epoch"], w["batches"] = torch.tensor(epoch), torch.tensor(float(ROWS // BATCH), dtype=torch.float64)
        z = encode(w, self.x).detach()
        q = student(z, w["centres"]).detach()
        w["latents"], w["target"], w["clusters"] = z, sharpened(q), q.argmax(1)
        for name, values in (("input_means", self.x), ("latent_means", z)):
            w[name] = w[name].clone()
            for c in w["clusters"].unique():
                w[name][c] = values[w["clusters"] == c].mean(0)
        if self.structured(epoch):
            w["near"] = near = neighbours_of(z, w["clusters"])
            w["near_gaps"] = (self.x[near.clamp(min=0)] - self.x[:, None]).square().sum(2).sqrt() * (near >= 0)
            self.early = self.structure_gradients(epoch, z) if self.gradient == "epoch_start" else {}

    def structure_gradients(self, epoch, z):
        """Gradient of the structure terms at latents z, carried through the network as it is now."""
        w, factor, weight = self.w, factors(epoch, self.follow), self.run.recipe["weights"]
        z, centres = z.clone().requires_grad_(), w["centres"].detach().clone().requires_grad_()
        loss = weight["isometry"] * factor["isometry"] * isometry_term(z, self.x, w["near"], self.follow)
        loss = loss + weight["align"] * align_term(z, centres, w["clusters"], w["latent_means"], self.follow)
        of_z, of_centres = torch.autograd.grad(loss, (z, centres))
        names = [name for name in w.learned if name.startswith("backbone")]
        through = torch.autograd.grad((encode(w, self.x) * of_z).sum(), [w[name] for name in names])
        return {**dict(zip(names, through, strict=True)), "centres": of_centres}

    def batch(self, step):
        w, follow, factor = self.w, self.follow, factors(step.epoch, self.follow)
        x = step.views[0].flatten(1)
        z = encode(w, x)
        each = kl(w["target"][step.index], student(z, w["centres"]))
        rank = rank_term(w["centres"], w["input_means"], follow)
        terms = {
            "reconstruction": mse(w.stack(z, "decoder"), x),
            "cluster": each.mean() if follow == "code" else each.sum(1).mean(),
            "rank": rank / (ROWS // BATCH) if self.alternating else rank,
        }
        if not self.alternating and self.structured(step.epoch):
            clusters = w["clusters"][step.index]
            terms["isometry"] = isometry_term(z, x, neighbours_of(z.detach(), clusters), follow)
            terms["align"] = align_term(z, w["centres"], clusters, w["latent_means"], follow)
        w.step(step, {name: factor[name] * value for name, value in terms.items()}, 0.05)

    def end(self, epoch):
        if not self.alternating or not self.structured(epoch):
            return
        at = encode(self.w, self.x).detach() if self.gradient == "recompute" else self.w["latents"]
        self.adam.step(self.w, self.early or self.structure_gradients(epoch, at))


@pytest.mark.parametrize(
    ("follow", "gradient", "alternating"),
    [
        ("code", "vjp", True),
        ("code", "epoch_start", True),
        ("code", "recompute", True),
        ("paper", "vjp", True),
        ("code", "vjp", False),
    ],
)
def test_dcrl(follow, gradient, alternating):
    settings = {"follow": follow, "isometry_gradient": gradient, "alternating": alternating, "start_epoch": START}
    settings |= {"ramp_epochs": RAMP, "neighbours": NEAR, "rank_scale": SCALE, "structure_lr": 0.01, "init_rows": ROWS}
    weights = {"reconstruction": 1, "cluster": 0.5, "rank": 0.02, "isometry": 0.5, "align": 0.7}
    run = follow_along("dcrl", settings=settings, weights=weights, schedule={"epochs": 3}, optimiser={"lr": 0.05})
    reference = Dcrl(run, follow, gradient, alternating)
    for epoch, steps in run.epochs():
        reference.begin(epoch)
        for step in steps:
            reference.batch(step)
        reference.end(epoch)
    assert (reference.w["near"] >= 0).any() == reference.structured(epoch)
    run.check(reference.w, 2e-5)
