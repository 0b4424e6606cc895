"""What a feed hands to the loop, for images in memory and for image files: views, order, partners, clean images."""

from itertools import combinations

import numpy as np
import pytest
import torch
from PIL import Image

from pipeline.record import StageError
from preparation.prepared import Prepared
from training.augmentation import Augment
from training.feed import Files, Images, Order, centre_crop, decode, training_feed

SIDE, ROWS = 16, 12
PLAIN = {"mean": [0.0] * 3, "std": [1.0] * 3}
NORMALISATION = {"mean": [0.4] * 3, "std": [0.25] * 3}
JITTER = {"brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1, "probability": 0.8}
AUGMENTATIONS = {
    "crop": {"crop": {"scale": [0.2, 0.8], "ratio": [0.75, 1.33]}, "flip": {"probability": 0.5}, "jitter": JITTER},
    "crop_alone": {"crop": {"scale": [0.2, 0.8], "ratio": [0.75, 1.33]}},
    "no_crop": {"flip": {"probability": 0.5}, "jitter": JITTER, "noise": {"std": 0.05}},
}
USED = np.array([1, 2, 4, 5, 7, 8, 10, 11, 13, 14, 16, 17])  # rows of the data set, with gaps
KINDS = ["memory", "files"]


class Made:
    """A data set of 20 images, the feed of USED rows of it, and what each of these looks like without augmentation."""

    def __init__(self, kind, folder, equal=False):
        pixels = np.random.default_rng(0).integers(0, 256, (20, SIDE + 5, SIDE + 9, 3), dtype=np.uint8)
        if equal:
            pixels[:] = pixels[0]
        self.labels = np.random.default_rng(1).integers(0, 10, 20)
        if kind == "memory":
            images, root = np.ascontiguousarray(pixels[:, :SIDE, :SIDE]), None
            self.clean = torch.from_numpy(images[USED]).permute(0, 3, 1, 2) / 255
        else:
            images, root = np.array([f"{number}.png" for number in range(20)]), str(folder)
            for name, values in zip(images, pixels, strict=True):
                Image.fromarray(values).save(folder / name)
            self.clean = torch.cat([centre_crop(decode(folder / images[row]), (SIDE, SIDE)) for row in USED]) / 255
        data = Prepared(folder, {"root": root, "shape": [SIDE, SIDE, 3], "record": {}}, self.labels)
        data.__dict__["images"] = images  # as if they were read already
        self.feed = training_feed(data, USED, self.labels[USED], torch.device("cpu"))
        assert isinstance(self.feed, Images if kind == "memory" else Files)

    def epoch(self, augment, epoch=0, first=0, views=2, clean=False, **order):
        """Batches of an epoch, by step."""
        order = Order(ROWS, order.pop("batch_size", 4), True, **{"seed": 5, **order})
        if isinstance(augment, str):
            augment = Augment(AUGMENTATIONS[augment], NORMALISATION)
        return dict(self.feed.epoch(order, epoch, first, augment, views, clean))


@pytest.fixture(params=KINDS)
def made(request, tmp_path, monkeypatch):
    monkeypatch.setenv("BENCH_WORKERS", "0")
    return Made(request.param, tmp_path)


def same(one, other):
    """Whether two batches have the same rows and the same views of them."""
    views = [*zip(one.views, other.views, strict=True), *zip(one.partners, other.partners, strict=True)]
    return torch.equal(one.index, other.index) and all(torch.equal(a, b) for a, b in views)


@pytest.mark.parametrize("augment", AUGMENTATIONS)
@pytest.mark.parametrize("views", [1, 2, 3])
def test_there_are_as_many_views_as_asked_and_each_is_another(made, augment, views):
    for batch in made.epoch(augment, views=views).values():
        assert [view.shape for view in batch.views] == [(4, 3, SIDE, SIDE)] * views
        for one, other in combinations(batch.views, 2):
            changed = (one - other).abs().flatten(1).amax(1)
            assert (changed > 1e-3).all()  # of every image, not of some


def test_views_of_oblong_images_in_memory_are_as_oblong():
    pixels = np.random.default_rng(0).integers(0, 256, (ROWS, 8, 24, 3), dtype=np.uint8)
    feed, order = Images(pixels, None, torch.device("cpu")), Order(ROWS, 4, True, seed=5)
    for augment in AUGMENTATIONS.values():
        for _, batch in feed.epoch(order, 0, 0, Augment(augment, PLAIN), 2, True):
            assert [x.shape for x in (*batch.views, batch.clean)] == [(4, 3, 8, 24)] * 3


def test_without_views_the_clean_image_is_the_one_view(made):
    for batch in made.epoch(Augment(AUGMENTATIONS["crop"], PLAIN), views=0).values():
        assert len(batch.views) == 1
        torch.testing.assert_close(batch.views[0], made.clean[batch.index])


@pytest.mark.parametrize("augment", AUGMENTATIONS)
def test_a_rerun_is_the_same_and_another_epoch_or_seed_is_not(made, augment):
    first, again = made.epoch(augment), made.epoch(augment)
    assert first.keys() == again.keys() == {0, 1, 2}
    assert all(same(first[step], again[step]) for step in first)
    order = torch.cat([batch.index for batch in first.values()])
    assert not torch.equal(order, torch.arange(ROWS))
    for other in (made.epoch(augment, epoch=1), made.epoch(augment, seed=6)):
        assert not torch.equal(torch.cat([batch.index for batch in other.values()]), order)
    # The same row in the same place: the views alone.
    still = made.epoch(augment, shuffle=False)
    for other in (made.epoch(augment, epoch=1, shuffle=False), made.epoch(augment, seed=6, shuffle=False)):
        for step, batch in still.items():
            assert torch.equal(batch.index, other[step].index)
            assert not any(torch.equal(a, b) for a, b in zip(batch.views, other[step].views, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_views_change_by_step(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("BENCH_WORKERS", "0")
    batches = Made(kind, tmp_path, equal=True).epoch("no_crop", shuffle=False)  # the same four images in every step
    for one, other in combinations(batches.values(), 2):
        assert not torch.equal(one.views[0], other.views[0])


@pytest.mark.parametrize("augment", AUGMENTATIONS)
def test_a_resumed_epoch_is_the_tail_of_the_whole(made, augment):
    near = (torch.arange(ROWS)[:, None] + torch.arange(4)) % ROWS
    whole = made.epoch(augment, clean=True, neighbours=near)
    for first in (1, 2):
        tail = made.epoch(augment, first=first, clean=True, neighbours=near)
        assert list(tail) == list(range(first, 3))
        assert all(same(batch, whole[step]) and torch.equal(batch.clean, whole[step].clean)
                   for step, batch in tail.items())  # fmt: skip


def test_partners_are_given_neighbours_and_change_by_epoch(made):
    near = (torch.arange(ROWS)[:, None] + torch.tensor([1, 3, 5, 7])) % ROWS
    drawn = []
    for epoch in range(3):
        found = torch.full((ROWS,), -1)
        for batch in made.epoch(Augment({}, PLAIN), epoch, views=1, neighbours=near, shuffle=False).values():
            assert len(batch.partners) == 1
            gaps = torch.cdist(batch.partners[0].flatten(1), made.clean.flatten(1))
            assert (gaps.amin(1) < 1e-3).all()
            found[batch.index] = gaps.argmin(1)
            torch.testing.assert_close(batch.views[0], made.clean[batch.index])  # the anchor is still itself
        assert (near == found[:, None]).any(1).all()
        drawn.append(found)
    assert not torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[1], drawn[2])
    places = (near == drawn[0][:, None]).int().argmax(1)
    assert len(places.unique()) > 1  # not the first neighbour of all


def test_partners_have_as_many_views_as_images_have_and_views_of_their_own(made):
    itself = torch.arange(ROWS)[:, None]
    for augment in AUGMENTATIONS:
        for batch in made.epoch(augment, views=2, neighbours=itself).values():
            assert len(batch.partners) == len(batch.views) == 2
            if augment == "no_crop":
                pairs = combinations([*batch.views, *batch.partners], 2)
                assert not any(torch.equal(one, other) for one, other in pairs)
        assert all(batch.partners == [] for batch in made.epoch(augment).values())


@pytest.mark.parametrize("augment", AUGMENTATIONS)
def test_clean_is_the_image_without_augmentation(made, augment):
    for batch in made.epoch(Augment(AUGMENTATIONS[augment], NORMALISATION), views=1, clean=True).values():
        torch.testing.assert_close(batch.clean, (made.clean[batch.index] - 0.4) / 0.25)
        assert not torch.equal(batch.clean, batch.views[0])
    assert all(batch.clean is None for batch in made.epoch(augment).values())
    again = torch.cat(list(made.feed.clean(torch.tensor([3, 0, 7]), Augment(AUGMENTATIONS[augment], PLAIN), 2)))
    torch.testing.assert_close(again, made.clean[[3, 0, 7]])


def test_two_processes_share_the_batch_of_one(made):
    near = (torch.arange(ROWS)[:, None] + torch.arange(1, 5)) % ROWS
    for epoch in (0, 1):
        one = made.epoch("no_crop", epoch)
        shares = [made.epoch("no_crop", epoch, rank=rank, world=2, neighbours=near) for rank in (0, 1)]
        for step, batch in one.items():
            parts = [share[step].index for share in shares]
            assert [len(part) for part in parts] == [2, 2]
            assert torch.equal(torch.cat(parts), batch.index)
            assert not torch.equal(shares[0][step].views[0], shares[1][step].views[0])
    orders = [Order(ROWS, 4, True, 5, rank, 2) for rank in (0, 1)]
    assert orders[0].augment_seed(0, 0) != orders[1].augment_seed(0, 0)  # equal images would get equal views


def test_labels_belong_to_their_rows(made):
    """The loop reads labels by `index`: they must be those of the images in the batch."""
    for batch in made.epoch(Augment({}, PLAIN), views=1).values():
        row = torch.cdist(batch.views[0].flatten(1), made.clean.flatten(1)).argmin(1)
        assert torch.equal(row, batch.index)
        assert made.feed.labels[batch.index].tolist() == made.labels[USED[row.numpy()]].tolist()


def test_each_view_may_have_its_own_augmentation(made):
    """BYOL's pair: the first as it is, the second solarised without exception."""
    pair = {"views": [{}, {"solarise": {"threshold": 0.0, "probability": 1}}]}
    augment = Augment(pair, PLAIN)
    for batch in made.epoch(augment, views=2).values():
        torch.testing.assert_close(batch.views[0], made.clean[batch.index])
        torch.testing.assert_close(batch.views[1], 1 - made.clean[batch.index], rtol=0, atol=1e-5)
    crop = AUGMENTATIONS["crop_alone"]  # once, whoever does it
    alike, pair = (made.epoch(Augment(operations, PLAIN)) for operations in (crop, {**crop, "views": [{}, {}]}))
    assert all(same(alike[step], pair[step]) for step in alike)
    with pytest.raises(StageError, match="3 views asked of an augmentation that describes 2"):
        made.epoch(augment, views=3)
