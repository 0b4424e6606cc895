"""Two real gloo processes embed one data set: every row once, in order."""

from types import SimpleNamespace

import numpy as np
import torch

from methods.method import DataFacts, Method
from tests.ranks import RANKS, together
from training.augmentation import Augment
from training.embed import embed


def embed_rank(rank, folder):

    class Flat(torch.nn.Module):
        def forward(self, x):
            return x.flatten(1)

    images = np.arange(21, dtype=np.uint8).reshape(21, 1, 1, 1)
    made = SimpleNamespace(images=images, root=None)
    plain = Augment({}, {"mean": [0.0], "std": [1.0]})
    method = Method(Flat(), DataFacts(2, (1, 1, 1), 21))
    np.save(folder / f"{rank}.npy", embed(method, made, plain, torch.device("cpu"))["h"])


def test_21_images_on_2_ranks_give_21_rows(tmp_path):
    together(embed_rank, tmp_path)
    for rank in range(RANKS):
        np.testing.assert_allclose(np.load(tmp_path / f"{rank}.npy")[:, 0], np.arange(21) / 255, rtol=1e-6)
