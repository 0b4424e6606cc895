"""Image files in ImageNet's layout: listed, decoded in workers, augmented as images in memory are."""

import os

import numpy as np
import pytest
import torch
import torchvision.transforms.v2.functional as tv
from PIL import Image

import training.feed
from pipeline.data_files import DataFiles
from pipeline.record import Record, StageError
from preparation.prepared import DataError, open_prepared, write_prepared
from preparation.readers import read
from training.augmentation import Augment, sample_crop
from training.embed import embed
from training.feed import Files, Images, Order, _Decoder, centre_crop, decode, training_feed

SPEC = {
    "title": "made", "source": "folder", "folder": "made", "classes": 3, "shape": [32, 32, 3],
    "splits": {"train": 12, "val": 6}, "normalisation": {"mean": [0.5] * 3, "std": [0.25] * 3},
}  # fmt: skip
RECORD = Record("prepare", ("preparation.prepare",), {}, {})


@pytest.fixture
def made(tmp_path):
    generator = np.random.default_rng(0)
    for split, count in (("train", 4), ("val", 2)):
        for number in range(3):
            folder = tmp_path / "made" / split / f"n{number:08d}"
            folder.mkdir(parents=True)
            for i in range(count):
                pixels = generator.integers(0, 256, (40 + 3 * i, 50, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / f"{i}.JPEG")
    return tmp_path


def prepare(folder, spec, root=None):
    raw = read(spec, root or folder, False)
    out = folder / "prepared"
    write_prepared(out, "made", spec, raw.images, raw.labels, raw.splits, raw.source, RECORD, raw.notes, raw.root)
    return open_prepared(out)


@pytest.fixture
def prepared(made):
    return prepare(made, SPEC)


def test_labels_follow_sorted_folders_and_splits(prepared):
    assert prepared.labels.tolist() == [0] * 4 + [1] * 4 + [2] * 4 + [0, 0, 1, 1, 2, 2]
    assert str(prepared.images[0]).startswith("train/n00000000/")
    assert prepared.rows(["val"]).tolist() == list(range(12, 18))


def test_files_are_read_below_the_present_data_root(prepared, tmp_path, monkeypatch):
    """The present root is what is hashed: a copy elsewhere must not be watched while the old files are read."""
    assert prepared.root == (prepared.folder.parent / "made").resolve()
    monkeypatch.setenv("BENCH_DATA_ROOT", str(tmp_path / "moved"))
    assert prepared.root == (prepared.folder.parent / "made").resolve()  # nothing lies there
    (tmp_path / "moved" / "made").mkdir(parents=True)
    assert prepared.root == tmp_path / "moved" / "made"


@pytest.mark.parametrize("known", [True, False], ids=["hashes known", "by hand"])
def test_files_edited_between_stages_are_refused(made, tmp_path, monkeypatch, known):
    (made / "linked").symlink_to(made)
    spec, cache = SPEC | {"folder": "linked/made"}, tmp_path / "sources.json"
    files = DataFiles(made, cache)
    sources = files.hash(spec)
    files.save()
    monkeypatch.delenv("BENCH_DATA_ROOT", raising=False)
    monkeypatch.setenv("BENCH_SOURCES_CACHE", str(cache) if known else "")
    raw, out = read(spec, made, False), tmp_path / "prepared"
    record = Record("prepare", ("preparation.prepare",), {"name": "made", **spec}, {"sources": sources})
    write_prepared(out, "made", spec, raw.images, raw.labels, raw.splits, raw.source, record, raw.notes, raw.root,
                   sources=sources)  # fmt: skip
    feed = lambda: training_feed(open_prepared(out), np.arange(12), None, torch.device("cpu"))  # noqa: E731
    with monkeypatch.context() as patch:
        if known:  # sizes and times are enough
            patch.setattr("pipeline.data_files.sha256", None)
        assert isinstance(feed(), Files)
    path = made / "made" / "train" / "n00000001" / "0.JPEG"
    Image.new("RGB", (40, 50)).save(path)
    with pytest.raises(DataError, match=r"made: image files of data set 'made' changed since it was prepared .* again"):
        feed()
    path.parent.parent.rename(made / "elsewhere")
    with pytest.raises(DataError, match=r"are gone since it was prepared .*: put them back, and run the same command"):
        feed()


def test_a_class_list_selects_and_orders(made):
    (made / "two.txt").write_text("n00000002 some words\nn00000000\n")
    raw = read(SPEC | {"class_list": "two.txt", "classes": 2, "splits": {"val": 4}}, made, False)
    assert raw.labels.tolist() == [0, 0, 1, 1]
    assert "n00000002" in raw.images[0]
    with pytest.raises(DataError, match=r"three\.txt: no such file; it names the classes"):
        read(SPEC | {"class_list": "three.txt"}, made, False)


def test_a_split_may_lie_in_a_folder_of_another_name(made):
    """ImageNet's `val` is what the protocols call `test`."""
    raw = read(SPEC | {"splits": {"train": 12, "test": 6}, "split_folders": {"test": "val"}}, made, False)
    assert raw.splits == {"train": 12, "test": 6}
    assert str(raw.images[12]).startswith("val/n00000000/")


def test_wrong_layouts_are_named(made):
    with pytest.raises(DataError, match=r"3 class folders found .*, 1000 expected; a folder level too many"):
        read(SPEC | {"classes": 1000}, made, False)
    with pytest.raises(DataError, match="no such folder"):
        read(SPEC | {"splits": {"trian": 12}}, made, False)
    for path in (made / "made" / "train" / "n00000001").iterdir():
        path.unlink()
    with pytest.raises(DataError, match="n00000001"):
        read(SPEC, made, False)


AUGMENTATION = {"crop": {"scale": [0.2, 1], "ratio": [0.75, 1.33]}, "flip": {"probability": 0.5}}


@pytest.mark.parametrize("workers", ["0", "2"])
def test_views_do_not_depend_on_workers_and_differ_between_epochs(prepared, workers, monkeypatch):
    monkeypatch.setenv("BENCH_WORKERS", workers)
    feed = training_feed(prepared, np.arange(12), None, torch.device("cpu"))
    assert isinstance(feed, Files)
    augment = Augment(AUGMENTATION, SPEC["normalisation"])
    order = Order(12, 4, True, seed=5)

    def epoch(number, first=0):
        return [(step, b.index, b.views) for step, b in feed.epoch(order, number, first, augment, 2)]

    one = epoch(0)
    assert [step for step, _, _ in one] == [0, 1, 2]
    assert one[0][2][0].shape == (4, 3, 32, 32)
    assert not torch.equal(one[0][2][0], one[0][2][1])  # two views, two crops
    monkeypatch.setenv("BENCH_WORKERS", "0")
    again = list(training_feed(prepared, np.arange(12), None, torch.device("cpu")).epoch(order, 0, 1, augment, 2))
    for (_, index, views), (_, other) in zip(one[1:], again, strict=True):  # also when resumed at step 1
        assert torch.equal(index, other.index)
        assert torch.equal(torch.stack(views), torch.stack(other.views))
    assert not torch.equal(epoch(1)[0][2][0], one[0][2][0])


@pytest.mark.parametrize("pair", [{}, {"views": [{}, {"grey": {"probability": 0.0}}]}], ids=["alike", "pair"])
def test_a_view_is_the_crop_that_was_decoded_and_is_not_cropped_again(prepared, pair, monkeypatch):
    monkeypatch.setenv("BENCH_WORKERS", "0")
    crop = {"scale": [0.3, 0.3], "ratio": [1, 1]}
    feed = training_feed(prepared, np.arange(12), None, torch.device("cpu"))
    augment = Augment({"crop": crop, **pair}, SPEC["normalisation"])
    decoder = _Decoder(prepared.root, feed.paths, (32, 32, 3), crop, 2, 5, 1)
    for _, batch in feed.epoch(Order(12, 4, True, seed=5), 1, 0, augment, 2):
        decoded = torch.stack([decoder[row] for row in batch.index.tolist()])
        for view, cropped in zip(batch.views, decoded.unbind(1), strict=True):
            torch.testing.assert_close(view, (cropped / 255 - 0.5) / 0.25)


def test_files_give_partners_and_clean_images(prepared, monkeypatch):
    monkeypatch.setenv("BENCH_WORKERS", "0")
    feed = training_feed(prepared, np.arange(12), None, torch.device("cpu"))
    augment = Augment(AUGMENTATION, SPEC["normalisation"])
    order = Order(12, 4, True, seed=5, neighbours=((torch.arange(12) + 1) % 12)[:, None])
    itself = Order(12, 4, True, seed=5, neighbours=torch.arange(12)[:, None])
    for (_, batch), (_, same) in zip(feed.epoch(order, 0, 0, augment, 1, True), feed.epoch(itself, 0, 0, augment, 1),
                                     strict=True):  # fmt: skip
        clean = torch.cat(list(feed.clean(batch.index, augment)))
        assert torch.equal(batch.clean, clean)
        assert [view.shape for view in batch.partners] == [(4, 3, 32, 32)]
        assert torch.equal(batch.views[0], same.views[0])  # what the partner is does not touch the view
        assert not torch.equal(batch.partners[0], same.partners[0])
        assert same.clean is None


def test_clean_images_are_centre_crops(prepared):
    feed = training_feed(prepared, np.arange(12), None, torch.device("cpu"))
    clean = torch.cat(list(feed.clean(torch.tensor([3, 0]), Augment({}, SPEC["normalisation"]), 1)))
    image = decode(prepared.root / str(prepared.images[3]))
    torch.testing.assert_close(clean[0], (centre_crop(image, (32, 32))[0] / 255 - 0.5) / 0.25)
    smooth = (torch.linspace(0, 255, 64)[:, None] * torch.linspace(0.2, 1, 80)[None, :]).byte().expand(3, -1, -1)
    theirs = tv.center_crop(tv.resize(smooth, [37], antialias=True), [32, 32]).float()
    assert (centre_crop(smooth, (32, 32))[0].float() - theirs).abs().max() < 7  # whole pixels there, shares here


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_broken_file_is_named_in_one_line(prepared, workers, monkeypatch):
    """Also by a worker, whose error comes to the loop with a traceback."""
    monkeypatch.setenv("BENCH_WORKERS", workers)
    path = prepared.root / str(prepared.images[2])
    path.write_bytes(b"no image")
    feed = training_feed(prepared, np.arange(12), None, torch.device("cpu"))
    augment = Augment(AUGMENTATION, SPEC["normalisation"])
    for read_all in (lambda: list(feed.epoch(Order(12, 4, True, seed=5), 0, 0, augment, 2)),
                     lambda: list(feed.clean(torch.arange(12), augment))):  # fmt: skip
        with pytest.raises(
            StageError, match=r"^/\S*2\.JPEG: cannot be decoded \(of no known format\); replace .*again$"
        ):
            read_all()


@pytest.mark.parametrize("lost", ["exit", "files", "memory"])
def test_a_lost_worker_is_one_line_with_the_cure(prepared, lost, monkeypatch):
    def decode(*_):
        if lost == "exit":
            os._exit(1)
        raise OSError(24, "Too many open files") if lost == "files" else RuntimeError("unable to mmap <shm>:\nno space")

    monkeypatch.setattr(training.feed, "decode", decode)
    monkeypatch.setenv("BENCH_WORKERS", "1")
    feed = training_feed(prepared, np.arange(12), None, torch.device("cpu"))
    with pytest.raises(StageError, match=r"a worker that decodes images was lost \(.*\); enlarge /dev/shm") as caught:
        list(feed.clean(torch.arange(12), Augment({}, SPEC["normalisation"])))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("shape", [(32, 32, 1), (24, 48, 3), (48, 24, 1)])
def test_images_have_the_shape_of_the_data_set_in_training_and_after(made, shape, monkeypatch):
    monkeypatch.setenv("BENCH_WORKERS", "0")
    spec = SPEC | {"shape": list(shape), "normalisation": {"mean": [0.5] * shape[2], "std": [0.25] * shape[2]}}
    data = prepare(made, spec)
    height, width, channels = shape
    feed = training_feed(data, np.arange(12), None, torch.device("cpu"))
    for operations in (AUGMENTATION, {"flip": {"probability": 0.5}}):
        augment = Augment(operations, spec["normalisation"])
        for _, batch in feed.epoch(Order(12, 4, True, seed=5), 0, 0, augment, 2, True):
            assert {tuple(x.shape) for x in (*batch.views, batch.clean)} == {(4, channels, height, width)}
            assert all(torch.isfinite(view).all() for view in batch.views)
    method = Channels()
    assert embed(method, data, Augment({}, spec["normalisation"]), torch.device("cpu"))["h"].shape == (18, 3)
    assert method.seen == {(channels, height, width)}


class Channels(torch.nn.Module):
    """Features are the shape of what it sees."""

    def __init__(self):
        super().__init__()
        self.seen = set()

    def features(self, x):
        self.seen.add(tuple(x.shape[1:]))
        return {"h": torch.tensor(x.shape[1:]).expand(len(x), 3)}


def test_grey_images_of_colour_files_are_their_luma(made, monkeypatch):
    monkeypatch.setenv("BENCH_WORKERS", "0")
    plain = [training_feed(prepare(made / str(channels), SPEC | {
        "shape": [32, 32, channels], "normalisation": {"mean": [0] * channels, "std": [1] * channels}}, made),
        np.arange(12), None, torch.device("cpu")) for channels in (1, 3)]  # fmt: skip
    grey, colour = (torch.cat(list(feed.clean(torch.arange(12), Augment({}, {"mean": [0], "std": [1]}))))
                    for feed in plain)  # fmt: skip
    luma = (colour * torch.tensor([0.299, 0.587, 0.114]).view(3, 1, 1)).sum(1, keepdim=True)
    assert (grey - luma).abs().max() < 2.1 / 255


def test_oblong_crops_are_not_stretched(monkeypatch):
    """The centre of an image of twice the width is its middle half; a thread of an image still gives numbers."""
    ramp = (torch.arange(80).float() * 3).expand(3, 40, 80).byte()
    found = centre_crop(ramp, (20, 40))[0, 0, 0].float()
    assert found[0] == pytest.approx(3 * 5.4, abs=3)  # 7/8 of the width from the middle
    assert found[-1] == pytest.approx(3 * 73.6, abs=3)
    tall = centre_crop(ramp, (40, 20))[0, 0, 0].float()
    assert (tall[-1] - tall[0]) / 3 == pytest.approx(17.5, abs=1.5)
    for size in ((12, 48), (48, 12)):
        for shape in ((3, 1, 500), (3, 500, 1)):
            assert centre_crop(torch.full(shape, 100, dtype=torch.uint8), size).eq(100).all()
            box = sample_crop(50, {"scale": [0.2, 1], "ratio": [0.75, 1.33], "size": size}, shape, torch.Generator())
            assert (box["height"] > 0).all()
            assert (box["width"] > 0).all()
            assert (box["top"] + box["height"] <= shape[1]).all()
            assert (box["left"] + box["width"] <= shape[2]).all()


def test_memory_and_order():
    images = np.arange(10, dtype=np.uint8).repeat(12).reshape(10, 2, 2, 3)
    feed = Images(images, np.arange(10), torch.device("cpu"))
    augment = Augment({}, SPEC["normalisation"])
    seen = [batch.index for _, batch in feed.epoch(Order(10, 4, False, seed=0), 0, 0, augment, 1)]
    assert sorted(torch.cat(seen).tolist()) == list(range(10))
    assert [len(index) for index in seen] == [4, 4, 2]
    assert [len(b.index) for _, b in feed.epoch(Order(10, 4, True, seed=0), 0, 0, augment, 1)] == [4, 4]
    shares = [[i for _, i in Order(11, 4, False, 0, rank, 2).epoch(3)] for rank in range(2)]
    assert [len(i) for i in shares[0]] == [len(i) for i in shares[1]] == [2, 2, 1]
    both = torch.cat([i for share in shares for i in share])
    assert len(set(both.tolist())) == 10  # every row at most once; the odd one out waits for another epoch
    with pytest.raises(StageError, match="batch 5 on 2 processes"):
        Order(11, 5, False, 0, 0, 2)
