"""Two real gloo processes embed one data set: every row once, in order."""

import os
import socket
from types import SimpleNamespace

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from methods.method import DataFacts, Method
from training.augmentation import Augment
from training.embed import embed

RANKS = 2


def embed_rank(rank, port, folder):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    try:

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
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(embed_rank, (port, tmp_path), nprocs=RANKS)
    for rank in range(RANKS):
        np.testing.assert_allclose(np.load(tmp_path / f"{rank}.npy")[:, 0], np.arange(21) / 255, rtol=1e-6)
