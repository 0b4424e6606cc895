"""Two real gloo processes with half the batch each against one process with all of it: losses and gradients."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from methods.blocks.contrast import nt_xent
from methods.blocks.distributed import gather, gather_constant
from methods.method import Batch, Context, DataFacts, Method, build_method
from methods.mixem import MixEm, Settings
from pipeline.recipes import resolve
from tests.conftest import ROOT
from tests.training.test_resume import columns, start_until

RANKS, ROWS = 2, 6


def data(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(ROWS, 5, dtype=torch.float64, generator=generator) for _ in range(2)]


def simclr_loss(layer, views):
    return nt_xent(layer(views[0]), layer(views[1]), 0.5)


def mixem(follow):
    class Flat(torch.nn.Module):
        width = 5

        def forward(self, x):
            return x

    torch.manual_seed(1)
    return MixEm(Flat(), DataFacts(3, (1, 5, 1), 8), Settings(3, embedding=4, temperature=0.5, follow=follow))


CHANGES = {
    "barlow_twins": {"hidden": 6, "embedding": 4},
    "vicreg": {"hidden": 6, "embedding": 4},
    "uniclr-whitening": {"widths": [4], "ridge": 1e-3},
    "uniclr-trace": {"widths": [4], "ridge": 1e-3},
    "cdc": {"clusters": 3, "embedding": 4, "queue": 10, "shuffle": False},
    "pcl": {"embedding": 4, "queue": 12, "shuffle": False, "clusters": [2, 3], "warmup_epochs": 0},
    "co2": {"embedding": 4, "queue": 12, "shuffle": False},
    "swav": {"embedding": 4, "prototypes": 3, "queue": 8, "queue_epoch": 0, "frozen_epochs": 0},
    "deepcluster_v2": {"embedding": 4, "clusters": 3, "heads": 2},
}


def without_batch_norm(name) -> Method:
    """A method of flattened images whose head sees each row alone, so that halves of a batch are like the whole."""
    recipe = resolve(name, "digits", {"*": {"network": {"backbone": "none"}}, name: {"settings": CHANGES[name]}})
    torch.manual_seed(2)
    method = build_method(recipe, DataFacts(3, (1, 5, 1), ROWS))
    if any(isinstance(module, torch.nn.BatchNorm1d) for module in method.head.modules()):
        method.head = torch.nn.Linear(5, 4)
    return method


def step_of(name, share, wrap=lambda module: module):
    """(method, terms) after one step of training on the rows `share`: gradients are there, queues are written."""
    method = without_batch_norm(name)
    everything = data()[0].float().view(ROWS, 1, 1, 5)
    method.before_epoch(Context(0, 2, ROWS, lambda rows: everything[rows], lambda *path: 7))
    views = [view[share].float().view(-1, 1, 1, 5) for view in data()]
    wrapped = wrap(method)  # held until the backward pass, which it synchronises
    terms = wrapped(Batch(views, torch.arange(ROWS)[share]))
    sum(recipe_weight * terms[key] for key, recipe_weight in method.weights.items() if key in terms).backward()
    method.after_step()
    return method, torch.stack([terms[key].detach() for key in sorted(terms)])


def work(rank, port, folder):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    try:
        share = slice(rank * ROWS // RANKS, (rank + 1) * ROWS // RANKS)
        result = {}
        torch.manual_seed(0)
        layer = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(5, 4).double())
        loss = simclr_loss(layer, [view[share] for view in data()])
        loss.backward()
        total = loss.detach().clone()
        dist.all_reduce(total)
        result["simclr"] = (total.item() / RANKS, layer.module.weight.grad)
        for follow in ("code", "paper"):
            model = torch.nn.parallel.DistributedDataParallel(mixem(follow))
            terms = model(Batch([view[share].float() for view in data()], torch.arange(3)))
            sum(terms.values()).backward()
            values = torch.stack([value.detach() for value in terms.values()])
            dist.all_reduce(values)
            result[follow] = (values / RANKS, [p.grad for p in model.module.parameters()])
            result[f"{follow}_counts"] = model.module.occupancy.counts
        for name in CHANGES:
            method, values = step_of(name, share, torch.nn.parallel.DistributedDataParallel)
            dist.all_reduce(values)
            gradients = [p.grad for p in method.parameters() if p.requires_grad]
            result[name] = (values / RANKS, gradients, dict(method.named_buffers()))
        x = torch.arange(2.0) + 10 * rank
        result["gathered"] = (gather(x), gather_constant(x.long()))
        torch.save(result, folder / f"{rank}.pt")
    finally:
        dist.destroy_process_group()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    import socket

    folder = tmp_path_factory.mktemp("ranks")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(work, (port, folder), nprocs=RANKS)
    return [torch.load(folder / f"{rank}.pt") for rank in range(RANKS)]


def test_nt_xent_equals_one_process(ranks):
    torch.manual_seed(0)
    layer = torch.nn.Linear(5, 4).double()
    loss = simclr_loss(layer, data())
    loss.backward()
    for result in ranks:
        assert result["simclr"][0] == pytest.approx(loss.item(), abs=1e-12)
        torch.testing.assert_close(result["simclr"][1], layer.weight.grad, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("follow", ["code", "paper"])
def test_mixem_equals_one_process(ranks, follow):
    model = mixem(follow)
    terms = model(Batch([view.float() for view in data()], torch.arange(ROWS)))
    sum(terms.values()).backward()
    for result in ranks:
        torch.testing.assert_close(result[follow][0], torch.stack([v.detach() for v in terms.values()]))
        for mine, theirs in zip(result[follow][1], model.parameters(), strict=True):
            torch.testing.assert_close(mine, theirs.grad, rtol=1e-4, atol=1e-6)
        assert torch.equal(result[f"{follow}_counts"], model.occupancy.counts)  # the same on every rank


@pytest.mark.parametrize("name", CHANGES)
def test_losses_gradients_queues_and_prototypes_equal_one_process(ranks, name):
    method, values = step_of(name, slice(None))
    learned = [p.grad for p in method.parameters() if p.requires_grad]
    assert any(gradient.abs().max() > 1e-4 for gradient in learned)
    for result in ranks:
        torch.testing.assert_close(result[name][0], values)
        for mine, theirs in zip(result[name][1], learned, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
        for key, buffer in method.named_buffers():  # the queue in the order of the whole batch, counters, prototypes
            torch.testing.assert_close(result[name][2][key], buffer, msg=key)


def test_gather_is_in_rank_order(ranks):
    for result in ranks:
        assert result["gathered"][0].tolist() == [0, 1, 10, 11]
        assert result["gathered"][1].tolist() == [0, 1, 10, 11]


def environment(minutes):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("BENCH_", "SLURM_"))}
    return kept | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "BENCH_CHECKPOINT_MINUTES": minutes}


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
    return [sys.executable, "-m", "training.train", *map(str, words)]


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
        command = [sys.executable, "-m", "training.embed", *map(str, words)]
        done = subprocess.run(command, env=environment("10"), capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        with np.load(out / "features.npz") as stored:
            features.append({key: stored[key] for key in stored.files})
    assert features[0]["h"].shape == (200, 16)
    for name, values in features[0].items():
        np.testing.assert_allclose(features[1][name], values, rtol=1e-5, atol=1e-6)


def embed_rank(rank, port, folder):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    try:
        from types import SimpleNamespace

        from methods.method import Method
        from training.augmentation import Augment
        from training.embed import embed

        class Flat(torch.nn.Module):
            def forward(self, x):
                return x.flatten(1)

        images = np.arange(21, dtype=np.uint8).reshape(21, 1, 1, 1)
        made = SimpleNamespace(images=images, root=None)
        plain = Augment({}, {"mean": [0.0], "std": [1.0]})
        method = Method(Flat(), DataFacts(2, (1, 1, 1), 21))
        np.save(folder / f"{rank}.npy", embed(method, made, plain, torch.device("cpu"))["h"])
    finally:
        dist.destroy_process_group()


def test_21_images_on_2_ranks_give_21_rows(tmp_path):
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(embed_rank, (port, tmp_path), nprocs=RANKS)
    for rank in range(RANKS):
        np.testing.assert_allclose(np.load(tmp_path / f"{rank}.npy")[:, 0], np.arange(21) / 255, rtol=1e-6)
