"""Two real gloo processes with half the batch each against one process with all of it: losses and gradients."""

import dataclasses
import os
import subprocess

import numpy as np
import pytest
import torch
import torch.distributed as dist

from methods.blocks.contrast import nt_xent
from methods.blocks.distributed import gather, gather_constant
from methods.method import Batch, Context, DataFacts, Method, build_method, load_method
from pipeline.recipes import method_names, resolve
from tests.conftest import ROOT, warm_python
from tests.ranks import RANKS, together
from tests.training.test_resume import columns, start_until

ROWS = 8


def data(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(ROWS, 5, dtype=torch.float64, generator=generator) for _ in range(2)]


def rows_in_pairs():
    """Four pairs, which are clusters by nearest neighbours."""
    x = data()[0]
    return 5 * x[torch.arange(ROWS) % 4] + 0.1 * x


def simclr_loss(layer, views):
    return nt_xent(layer(views[0]), layer(views[1]), 0.5)


SMALL = {"embedding": 4, "hidden": 6}
KEYS = {"embedding": 4, "queue": 12, "shuffle": False}
LABELS = {"threshold": 0.35, "ema": 0.9}
DCRL = {"start_epoch": 0, "ramp_epochs": 2, "neighbours": 1, "init_rows": ROWS}
LOCAL = {"embedding": 4, "background": 4, "clusters": 3, "clusterings": 2}
JULE = {"embedding": 4, "period": 1, "merged": 0.1, "neighbours": 2, "margin": 2.0}
# What it shows -> (recipe, its settings, epoch of the step). Every method that trains stands here.
CASES = {
    "simclr": ("simclr", {"embedding": 4}, 0),
    "simclr, anchors of one view": ("simclr", {"embedding": 4, "anchors": "first"}, 0),
    "mixem": ("mixem", {"embedding": 4}, 0),
    "mixem, paper": ("mixem-paper", {"embedding": 4}, 0),
    "moco": ("moco", KEYS, 0),
    "co2": ("co2", KEYS, 0),
    "pcl": ("pcl", {**KEYS, "clusters": [2, 3], "warmup_epochs": 0}, 0),
    "cdc": ("cdc", {**KEYS, "clusters": 3, "threshold": 0.35}, 0),
    "cdc, negatives in the batch": ("cdc", {**KEYS, "clusters": 3, "queue": 0, "threshold": 0.35}, 0),
    "swav": ("swav", {"embedding": 4, "prototypes": 3, "queue": 8, "queue_epoch": 0, "frozen_epochs": 0}, 0),
    "swav, frozen prototypes": ("swav", {"embedding": 4, "prototypes": 3, "frozen_epochs": 1}, 0),
    "deepcluster_v2": ("deepcluster_v2", {"embedding": 4, "clusters": 3, "heads": 2}, 0),
    "instdisc": ("instdisc", {"embedding": 4}, 0),
    "instdisc, drawn rows": ("instdisc", {"embedding": 4, "negatives": 3}, 0),
    "instdisc, told from noise": ("instdisc", {"embedding": 4, "negatives": 3, "form": "nce"}, 0),
    "jule": ("jule", JULE, 0),
    "jule, released gradient": ("jule-released", JULE, 0),
    "localagg": ("localagg", {**LOCAL, "warmup_epochs": 0}, 0),
    "localagg, warm-up": ("localagg", {**LOCAL, "warmup_epochs": 1}, 0),
    "scan": ("scan", {"heads": 2}, 0),
    "selflabel": ("selflabel", {**LABELS, "heads": 2}, 0),
    "selflabel, not balanced": ("selflabel", {**LABELS, "heads": 2, "balance": False}, 0),
    "cdc_selflabel": ("cdc_selflabel", {**LABELS, "embedding": 4, "cluster_temperature": 1.0}, 0),
    "byol": ("byol", SMALL, 1),
    "simsiam": ("simsiam", {"embedding": 4, "bottleneck": 3}, 0),
    "barlow_twins": ("barlow_twins", SMALL, 0),
    "vicreg": ("vicreg", SMALL, 0),
    "wmse": ("wmse", {"hidden": 6, "embedding": 2, "slice_size": ROWS}, 0),
    "uniclr": ("uniclr", {"widths": [4]}, 0),
    # 2N - 1 is over D for the rows of both processes, not for those of one.
    "uniclr, whitening": ("uniclr-whitening", {"widths": [8], "ridge": 0.1}, 0),
    "uniclr, trace": ("uniclr-trace", {"widths": [8], "ridge": 0.1}, 0),
    "uniclr, released": ("uniclr-released", {"widths": [4], "affinity": "whitening", "ridge": 0.1}, 0),
    "uniclr, keys and predictor": ("uniclr-ema_predictor", {"widths": [4], "predictor": 6}, 0),
    "supervised": ("supervised", {}, 0),
    "autoencoder": ("autoencoder", {"noise": 0}, 0),
    "autoencoder, first layer": ("autoencoder", {"noise": 0, "layerwise_epochs": 1}, 0),
    "autoencoder, second layer": ("autoencoder", {"noise": 0, "layerwise_epochs": 1}, 1),
    "dec, without reconstruction": ("dec", {"n_init": 2}, 0),
    "idec": ("idec", {"n_init": 2}, 0),
    "dcrl": ("dcrl", DCRL, 0),
    "dcrl, paper": ("dcrl-paper", {**DCRL, "neighbours": 1}, 1),
    "dcrl, one optimiser": ("dcrl-wo_at", DCRL, 1),
}


def test_every_method_that_trains_is_among_the_cases():
    trained = {name for name in method_names() if load_method(name).losses is not Method.losses}
    assert {resolve(recipe, "digits")["method"] for recipe, _, _ in CASES.values()} == trained


def without_batch_norm(name: str, settings: dict) -> Method:
    """A method of flattened images whose layers see each row alone, so that halves of a batch are like the whole."""
    mlp = resolve(name, "digits")["network"]["backbone"] == "mlp"
    network = {"backbone": "mlp", "widths": [4, 3]} if mlp else {"backbone": "none"}
    recipe = resolve(name, "digits", {"*": {"network": network}, name: {"settings": settings}})
    torch.manual_seed(2)
    method = build_method(recipe, DataFacts(3, (1, 5, 1), ROWS))
    for module in list(method.modules()):
        for place, child in module.named_children():
            if isinstance(child, torch.nn.BatchNorm1d):
                setattr(module, place, torch.nn.Identity())
    return method.train()


def batch_of(method: Method, share: slice) -> Batch:
    """The rows `share` of one batch of the whole training set, with whatever the method asks for."""
    one, other = (view[share].float().view(-1, 1, 1, 5) for view in data())
    index = torch.arange(ROWS)[share]
    return Batch(
        [one, other][: method.views or 1],
        index,
        labels=index % 3 if method.uses_labels else None,
        clean=other if method.clean_view else None,
        partners=[other] if method.uses_neighbours else [],
    )


def step_of(case, share, wrap=lambda module: module):
    """(terms, gradients, state) of one step of training, in the loop's order of calls, on the rows `share`."""
    name, settings, epoch = CASES[case]
    method = without_batch_norm(name, settings)
    everything = (rows_in_pairs() if name.startswith("jule") else data()[0]).float().view(ROWS, 1, 1, 5)
    context = Context(epoch, 4, ROWS, lambda rows: everything[rows], lambda *path: 7, step=epoch, steps=4)
    context.batch_size = ROWS
    if epoch:  # centres and targets of the first epoch are what the others start from
        method.before_epoch(dataclasses.replace(context, epoch=0, step=0))
        method.before_step(dataclasses.replace(context, epoch=0, step=0))
    method.before_epoch(context)
    method.train()
    method.before_step(context)
    torch.manual_seed(3)
    learned = {key: p for key, p in method.named_parameters() if p.requires_grad}
    optimiser = torch.optim.SGD(learned.values(), 0.1)
    wrapped = wrap(method)  # held until the backward pass, which it synchronises
    terms = wrapped(batch_of(method, share))
    sum(method.weight(key) * value for key, value in terms.items() if method.active(key)).backward()
    gradients = {k: torch.zeros_like(p) if p.grad is None else p.grad.clone() for k, p in learned.items()}
    optimiser.step()
    method.after_step()
    method.after_epoch(context)
    state = {key: value for key, value in method.state_dict().items() if isinstance(value, torch.Tensor)}
    return torch.stack([terms[key].detach() for key in sorted(terms)]), gradients, state


def in_parallel(module):
    """As stage `train` wraps a method (training/train.py)."""
    return torch.nn.parallel.DistributedDataParallel(module, find_unused_parameters=True)


def work(rank, folder):
    share = slice(rank * ROWS // RANKS, (rank + 1) * ROWS // RANKS)
    result = {}
    torch.manual_seed(0)
    layer = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(5, 4).double())
    loss = simclr_loss(layer, [view[share] for view in data()])
    loss.backward()
    total = loss.detach().clone()
    dist.all_reduce(total)
    result["nt_xent"] = (total.item() / RANKS, layer.module.weight.grad)
    for case in CASES:
        values, gradients, state = step_of(case, share, in_parallel)
        dist.all_reduce(values)
        result[case] = values / RANKS, gradients, state
    x = torch.arange(2.0) + 10 * rank
    result["gathered"] = (gather(x), gather_constant(x.long()))
    torch.save(result, folder / f"{rank}.pt")


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    together(work, folder)
    return [torch.load(folder / f"{rank}.pt") for rank in range(RANKS)]


def test_nt_xent_equals_one_process(ranks):
    torch.manual_seed(0)
    layer = torch.nn.Linear(5, 4).double()
    loss = simclr_loss(layer, data())
    loss.backward()
    for result in ranks:
        assert result["nt_xent"][0] == pytest.approx(loss.item(), abs=1e-12)
        torch.testing.assert_close(result["nt_xent"][1], layer.weight.grad, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_a_step_equals_that_of_one_process(ranks, case):
    """Terms, gradients, and after the step weights, key encoders, queues in the batch's order, prototypes, counters."""
    values, gradients, state = step_of(case, slice(None))
    largest = max(float(gradient.abs().max()) for gradient in gradients.values())
    assert largest > 1e-4
    rounding = 1e-5 * max(1, largest)  # a gradient that is zero on paper is a difference of ones as large as this
    for theirs, their_gradients, their_state in (result[case] for result in ranks):
        torch.testing.assert_close(theirs, values, rtol=1e-4, atol=1e-6)
        for key, gradient in gradients.items():
            torch.testing.assert_close(their_gradients[key], gradient, rtol=1e-4, atol=rounding)
        assert their_state.keys() == state.keys()
        for key, value in state.items():
            torch.testing.assert_close(their_state[key], value, rtol=1e-4, atol=1e-5)


def test_gather_is_in_rank_order(ranks):
    for result in ranks:
        assert result["gathered"][0].tolist() == [0, 1, 10, 11]
        assert result["gathered"][1].tolist() == [0, 1, 10, 11]


def environment(minutes):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("BENCH_", "SLURM_"))}
    path = os.pathsep.join([warm_python(), os.environ["PATH"]])
    return kept | {"PATH": path, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "BENCH_CHECKPOINT_MINUTES": minutes}


def train(folder, out, resume):
    from pipeline.provenance import canonical_json
    from pipeline.recipes import resolve

    changes = {"base": None, "batch_size": 64, "schedule": {"epochs": 6}, "network": {"widths": [8, 16]}}
    words = [
        "--data",
        folder,
        "--recipe",
        canonical_json(resolve("mixem", "digits_200", {"*": changes})),
        "--protocol",
        "full",
    ]
    words += ["--seed", "3", "--devices", "2", "--device", "cpu", "--out", out, "--resume", resume]
    return ["python", "-m", "training.train", *map(str, words)]


def test_training_resumes_exactly_on_two_processes_and_embeds_every_row_once(digits_200, tmp_path):
    whole, broken, resume = tmp_path / "whole", tmp_path / "broken", tmp_path / "resume"
    done = subprocess.run(
        train(digits_200, whole, tmp_path / "r"),
        env=environment("10"),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    process = start_until(train(digits_200, broken, resume), resume, lambda state: state["epoch"] >= 2)
    process.terminate()  # reaches one process only: the two must agree to stop
    _, errors = process.communicate(timeout=90)
    assert "state saved" in errors, errors
    done = subprocess.run(
        train(digits_200, broken, resume),
        env=environment("10"),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert "resuming at epoch" in done.stdout, done.stderr
    one, other = (torch.load(folder / "model.pt", weights_only=True)["method"] for folder in (whole, broken))
    for name in one:
        assert torch.equal(one[name], other[name]), name
    assert columns(whole / "history.csv") == columns(broken / "history.csv")
    # 200 images on one and on two processes: the same rows.
    features = []
    for devices in ("1", "2"):
        out = tmp_path / devices
        words = [
            "--data",
            digits_200,
            "--model",
            whole / "model.pt",
            "--out",
            out,
            "--devices",
            devices,
            "--device",
            "cpu",
        ]
        command = ["python", "-m", "training.embed", *map(str, words)]
        done = subprocess.run(command, env=environment("10"), capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        with np.load(out / "features.npz") as stored:
            features.append({key: stored[key] for key in stored.files})
    assert features[0]["h"].shape == (200, 16)
    for name, values in features[0].items():
        np.testing.assert_allclose(features[1][name], values, rtol=1e-5, atol=1e-6)
