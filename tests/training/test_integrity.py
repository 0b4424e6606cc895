"""Nothing is believed unread: each stage refuses files whose content is not what the record beside them says."""

import contextlib
import errno
import io
import json
import shutil
import sys

import pytest
import torch

import evaluation.assign
import evaluation.evaluate
import training.embed
import training.mine
import training.train
from pipeline import recipes
from pipeline.provenance import canonical_json
from pipeline.record import Damaged, StageError, read_json, write_json
from preparation.prepared import DataError, open_prepared
from tests import poison
from training.checkpoint import ResumeState

SMALL = {"base": None, "batch_size": 32, "schedule": {"epochs": 1}, "network": {"widths": [4, 4], "pool_after": []}}


def stage(module, *words):
    patch = pytest.MonkeyPatch()
    patch.setenv("BENCH_DEVICE", "cpu")
    patch.setattr(sys, "argv", [module.__name__, *map(str, words)])
    try:
        module.main()
    finally:
        patch.undo()


def train(data, out, name="mixem", seed=0, resume="resume", *more):
    recipe = canonical_json(recipes.resolve(name, "digits_200", {"*": SMALL}))
    words = ("--data", data, "--recipe", recipe, "--protocol", "full", "--seed", seed)
    stage(training.train, *words, "--out", out, "--resume", out.parent / resume, *more)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder with data, a run through every stage, and the model of another seed."""
    folder = tmp_path_factory.mktemp("finished")
    poison.prepare(folder / "data", {"train": 40, "test": 30})
    train(folder / "data", folder / "run")
    train(folder / "data", folder / "other", seed=1)
    Steps(folder).all()
    return folder


class Steps:
    """The stages after training, in a folder."""

    def __init__(self, folder):
        self.data, self.run = folder / "data", folder / "run"
        self.where = ("--data", self.data, "--features", self.run / "features.npz")

    def embed(self):
        stage(training.embed, "--data", self.data, "--model", self.run / "model.pt", "--out", self.run)

    def mine(self):
        asked = ("--array", "h", "--count", 3, "--splits", "train", "test", "--out", self.run / "near.npz")
        stage(training.mine, *self.where, *asked)

    def assign(self):
        words = ("--assigner", "kmeans", "--protocol", "full", "--seed", 0, "--out", self.run / "kmeans.npz")
        stage(evaluation.assign, *self.where, *words)

    def evaluate(self):
        asked = ("--clusters", self.run / "kmeans.npz", "--probes", "knn")
        words = (*asked, "--protocol", "full", "--seed", 0, "--out", self.run / "metrics.json")
        stage(evaluation.evaluate, *self.where, *words)

    def all(self):
        for step in (self.embed, self.mine, self.assign, self.evaluate):
            step()


@pytest.fixture
def steps(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "copy")
    return Steps(tmp_path / "copy")


def flip(path, place=0.6):
    content = bytearray(path.read_bytes())
    content[int(place * (len(content) - 1))] ^= 4
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("file", "readers"),
    [
        ("run/model.pt", ("embed",)),
        ("run/features.npz", ("mine", "assign", "evaluate")),
        ("run/kmeans.npz", ("evaluate",)),
        ("data/labels.npy", ("embed", "mine", "assign", "evaluate")),
        ("data/images.npy", ("embed",)),
    ],
)
def test_a_flipped_bit_is_an_error_wherever_the_file_is_read(steps, file, readers):
    flip(steps.run.parent / file)
    shutil.rmtree(steps.run / "metrics")  # what is valid would be kept unread
    for reader in readers:
        with pytest.raises(Damaged, match=f"{file.rpartition('/')[2]}: sha256 .* (found|expected)"):
            getattr(steps, reader)()
    assert not (steps.run / "metrics" / "knn.json").exists()  # damage is no result


@pytest.mark.parametrize("file", ["model.pt", "features.npz", "kmeans.npz"])
def test_a_file_that_is_gone_is_named(steps, file):
    (steps.run / file).unlink()
    shutil.rmtree(steps.run / "metrics")
    with pytest.raises(StageError, match=f"{file}: not found; run the stage that writes it"):
        (steps.embed if file == "model.pt" else steps.evaluate)()


def test_every_weight_of_a_model_is_verified_its_head_and_its_seed(steps):
    """What the backbone's own hash does not see."""
    path = steps.run / "model.pt"
    model = torch.load(path, weights_only=True)
    head = next(name for name in model["method"] if not name.startswith("backbone."))
    model["method"][head] = -model["method"][head]
    torch.save(model, path)
    with pytest.raises(Damaged, match=r"model\.pt: sha256"):
        steps.embed()
    shutil.copy(steps.run.parent / "other" / "model.pt", path)
    with pytest.raises(Damaged, match=r"model\.pt: sha256"):
        steps.embed()


def test_a_base_is_verified_and_was_trained_on_this_data(steps, tmp_path):
    folder, base = steps.run.parent, SMALL | {"base": {"recipe": "mixem", "protocol": "same"}}
    recipe = canonical_json(recipes.resolve("mixem", "digits_200", {"*": SMALL}) | {"base": base["base"]})

    def second(data):
        words = (
            "--data",
            data,
            "--recipe",
            recipe,
            "--protocol",
            "full",
            "--seed",
            0,
            "--base",
            folder / "run/model.pt",
        )
        stage(training.train, *words, "--out", tmp_path / "second", "--resume", tmp_path / "resume")

    second(steps.data)
    assert json.loads((tmp_path / "second" / "train.json").read_text())["records"]["train"]["base_seed"] == 0
    poison.prepare(tmp_path / "larger", {"train": 50, "test": 30})
    with pytest.raises(DataError, match=r"model\.pt was made from data"):
        second(tmp_path / "larger")
    flip(folder / "run" / "model.pt")
    with pytest.raises(Damaged, match=r"model\.pt: sha256"):
        second(steps.data)


def test_an_edited_result_is_computed_again(steps):
    path = steps.run / "metrics" / "knn.json"
    before = json.loads(path.read_text())
    path.write_text(path.read_text().replace(f'"ACC": {before["result"]["ACC"]}', '"ACC": 0.123'))
    assert json.loads(path.read_text())["result"]["ACC"] == 0.123
    steps.evaluate()
    assert json.loads(path.read_text())["result"] == before["result"]


def test_data_of_other_content_are_other_data(steps):
    """The same settings and code over other files: what was made of the first is refused for the second."""
    card = read_json(steps.data / "card.json")
    labels = open_prepared(steps.data).labels
    assert card["record"]["content"]
    card["record"]["content"] = "another"
    write_json(steps.data / "card.json", card)
    for reader in (steps.embed, steps.mine, steps.assign, steps.evaluate):
        with pytest.raises(DataError, match=r"was made from data .*, .* holds another: make it again from this data"):
            reader()
    assert len(labels) == 70


def test_resume_state_of_other_data_is_not_taken_up(tmp_path, monkeypatch):
    """Data are replaced while a training is dead: the next one starts anew."""
    seen = []
    real = ResumeState.__init__
    monkeypatch.setattr(ResumeState, "__init__", lambda self, folder: (seen.append(folder.name), real(self, folder))[1])
    poison.prepare(tmp_path / "one", {"train": 40, "test": 30})
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    card = read_json(tmp_path / "two" / "card.json")
    card["record"]["content"] = "another"
    write_json(tmp_path / "two" / "card.json", card)
    for data in ("one", "one", "two"):
        train(tmp_path / data, tmp_path / "run")
    assert seen[0] == seen[1] != seen[2]


def test_the_content_of_prepared_data_is_of_images_labels_splits_and_files(tmp_path):
    def content(name, splits, change=None, sources=None):
        folder = poison.prepare(tmp_path / name, splits, change, sources)
        return json.loads((folder / "card.json").read_text())["record"]["content"]

    splits = {"train": 40, "test": 30}
    one = content("a", splits)
    assert content("b", splits) == one
    others = [
        content("c", {"train": 30, "test": 40}),
        content("d", splits, lambda images, labels: images.__setitem__((0, 0, 0, 0), 7)),
        content("e", splits, lambda images, labels: labels.__setitem__(0, 1)),
        content("f", splits, sources="of the files"),
    ]
    assert len({one, *others}) == 5


def test_a_model_for_which_there_is_no_room_is_an_error_of_the_disk(tmp_path, monkeypatch):
    """torch's writer would make another error of it, without a cure."""

    class Full(io.BytesIO):
        def write(self, content):
            if self.tell() + len(content) > 2000:
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().write(content)

    poison.prepare(tmp_path / "data", {"train": 40, "test": 30})
    monkeypatch.setattr(training.train, "whole", lambda *_: contextlib.nullcontext(Full()))
    with pytest.raises(OSError, match="No space left on device"):
        train(tmp_path / "data", tmp_path / "run")
