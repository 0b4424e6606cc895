"""docs/weights.md, done to the letter: a file as the base of a second stage, and trained backbones in torch's hands."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from methods.blocks.networks import backbone
from pipeline import catalogue
from pipeline.plan import Plan
from pipeline.runs import Run
from tests.stages import Stages
from tests.written import blocks, section, write
from training import export
from training.weights import load_weights

IN, OUT = section("weights", "Weights in"), section("weights", "Weights out")
CONVNET = {"backbone": "convnet", "widths": [32, 64, 128, 128], "pool_after": [0, 2]}  # that of digits
SUITE = {
    "datasets": ["digits_200"], "seeds": [0], "tables": ["mine"], "device": "cpu", "track": False,
    "overrides": {"mixem_published": {"batch_size": 64, "schedule": {"epochs": 1, "hold_epochs": 0}}},
}  # fmt: skip
TABLE = {
    "title": "Mine", "metrics": ["ACC"],
    "rows": [{"label": "file", "recipe": "published", "assigner": "kmeans"},
             {"label": "on", "recipe": "mixem_published", "assigner": "argmax"}],
}  # fmt: skip
PUBLISHED, SECOND = (Run("digits_200", "full", name, 0) for name in ("published", "mixem_published"))


def save(path, seed):
    """A network of random weights in a file as MoCo writes them, with its head."""
    torch.manual_seed(seed)
    weights = {f"module.encoder_q.{name}": value for name, value in backbone(CONVNET, (8, 8, 1)).state_dict().items()}
    torch.save({"epoch": 3, "state_dict": weights | {"module.encoder_q.fc.weight": torch.ones(2, 2)}}, path)
    return {name.removeprefix("module.encoder_q."): value for name, value in weights.items()}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(folder, plan, weights in the file) of the page's two recipes, run."""
    folder = tmp_path_factory.mktemp("weights")
    write(folder, IN)
    (folder / "own/tables").mkdir()
    (folder / "own/tables/mine.yaml").write_text(json.dumps(TABLE))
    weights = save(folder / "encoder.pth", 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalogue, "OWN", folder / "own")
        patch.setenv("BENCH_WEIGHTS_ROOT", str(folder))
        patch.setenv("BENCH_DEVICE", "cpu")
        plan = planned(folder)
        stages = Stages(plan, "digits_200")
        stages.prepare()
        for run in (PUBLISHED, SECOND):
            stages.model(run)
        yield folder, plan, weights


def planned(folder):
    default = catalogue.read_yaml(catalogue.CONFIG / "config.yaml")
    return Plan(default | SUITE | {"results": str(folder / "results")})


def of(plan, run, file="train.json"):
    return f"{plan.results}/{run.path}/{file}"


def test_a_file_is_the_base_of_a_second_stage(made):
    folder, plan, weights = made
    records = {run: json.loads(Path(of(plan, run)).read_text())["records"]["train"] for run in (PUBLISHED, SECOND)}
    digest = hashlib.sha256((folder / "encoder.pth").read_bytes()).hexdigest()
    assert records[PUBLISHED]["weights"] == {
        "file": "encoder.pth",
        "sha256": digest,
        "backbone_keys": len(weights),
        "left_out": {"fc": 1},
    }
    assert records[SECOND]["inputs"]["base"] == records[PUBLISHED]["fingerprint"]
    assert {run: record["fingerprint"] for run, record in records.items()} == {
        run: plan.stages.train(run).fingerprint for run in (PUBLISHED, SECOND)
    }
    model = torch.load(of(plan, PUBLISHED, "model.pt"), weights_only=True)
    assert (set(model), model["epoch"]) == ({"method", "backbone", "epoch"}, 0)
    assert all(torch.equal(value, weights[name]) for name, value in model["backbone"].items())
    assert model["backbone"].keys() == weights.keys()
    trained = torch.load(of(plan, SECOND, "model.pt"), weights_only=True)["backbone"]
    assert 0 < max((trained[name] - weights[name]).abs().max() for name in weights if name.endswith("weight")) < 0.1


def test_the_content_of_the_file_counts_and_not_its_folder(made, monkeypatch):
    folder, plan, _ = made
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "encoder.pth").write_bytes((folder / "encoder.pth").read_bytes())
    monkeypatch.setenv("BENCH_WEIGHTS_ROOT", str(elsewhere))
    fingerprints = [plan.stages.train(run).fingerprint for run in (PUBLISHED, SECOND)]
    assert [planned(folder).stages.train(run).fingerprint for run in (PUBLISHED, SECOND)] == fingerprints
    save(elsewhere / "encoder.pth", 2)
    assert not set(fingerprints) & {planned(folder).stages.train(run).fingerprint for run in (PUBLISHED, SECOND)}


@pytest.mark.parametrize("run", [PUBLISHED, SECOND])
def test_a_backbone_in_torchs_hands_gives_the_runs_features(made, run):
    _, plan, _ = made
    code = blocks(OUT, "python")[2]
    assert "results/runs/digits/full/simclr/seed0" in code
    found = {}
    exec(code.replace("results/runs/digits/full/simclr/seed0", f"{plan.results}/{run.path}"), found)
    data = f"{plan.results}/data/digits_200"
    card = json.loads(Path(f"{data}/card.json").read_text())["normalisation"]
    x = torch.from_numpy(np.load(f"{data}/images.npy")).permute(0, 3, 1, 2) / 255
    with torch.no_grad():
        h = found["network"].eval()((x - card["mean"][0]) / card["std"][0])
    expected = np.load(of(plan, run, "features.npz"))["h"]
    np.testing.assert_allclose(h.numpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("run", [PUBLISHED, SECOND])
def test_an_exported_backbone_gives_the_runs_features_without_the_project(made, run, tmp_path, monkeypatch):
    _, plan, _ = made
    command = blocks(OUT, "bash")[0].split()
    assert command[:4] == ["./run", "python", "-m", "training.export"]
    monkeypatch.chdir(tmp_path)
    export.main([command[4].replace("results/runs/imagenet100/split/moco/seed0", f"{plan.results}/{run.path}")])
    name = f"digits_200-full-{run.recipe}-seed0"
    found = {}
    exec(blocks(OUT, "python")[0].replace("imagenet100-split-moco-seed0", name), found)
    card, network = found["card"], found["made"]["network"]
    assert type(network) is nn.Sequential
    assert card["sha256"] == hashlib.sha256(Path(f"{name}.pth").read_bytes()).hexdigest()
    assert (card["recipe"]["name"], card["data"]["name"], card["protocol"]["name"]) == (
        run.recipe,
        "digits_200",
        "full",
    )
    assigner = "argmax" if run == SECOND else "kmeans"
    expected = json.loads(Path(of(plan, run, f"metrics/clustering/{assigner}.json")).read_text())["result"]
    assert list(card["metrics"]) == [f"clustering/{assigner}"]
    assert card["metrics"][f"clustering/{assigner}"]["ACC"] == expected["ACC"]
    x = torch.from_numpy(np.load(f"{plan.results}/data/digits_200/images.npy")).permute(0, 3, 1, 2) / 255
    mean, std = (torch.tensor(card["input"][part]).view(-1, 1, 1) for part in ("mean", "std"))
    with torch.no_grad():
        h = network((x - mean) / std)
    np.testing.assert_allclose(h.numpy(), np.load(of(plan, run, "features.npz"))["h"], rtol=0, atol=1e-5)
    fresh = backbone(CONVNET, (8, 8, 1))
    load_weights(fresh, f"{name}.pth")
    assert all(
        torch.equal(value, found["made"]["network"].state_dict()[key]) for key, value in fresh.state_dict().items()
    )


def test_a_model_of_a_run_is_a_file_to_start_from(made):
    _, plan, weights = made
    fresh = backbone(CONVNET, (8, 8, 1))
    assert load_weights(fresh, of(plan, SECOND, "model.pt"))["backbone_keys"] == len(weights)
    expected = torch.load(of(plan, SECOND, "model.pt"), weights_only=True)["backbone"]
    assert all(torch.equal(value, expected[name]) for name, value in fresh.state_dict().items())


def test_a_resnet_loads_into_torchvisions_own(tmp_path):
    code = blocks(OUT, "python")[1]
    trained = backbone({"backbone": "resnet50", "stem": "imagenet"}, (32, 32, 3)).eval()
    path = "results/runs/imagenet100/split/moco/seed0/model.pt"
    assert path in code
    torch.save({"backbone": trained.state_dict()}, tmp_path / "model.pt")
    found = {}
    exec(code.replace(path, str(tmp_path / "model.pt")), found)
    x = torch.rand(2, 3, 32, 32)
    with torch.no_grad():
        assert torch.equal(found["network"].eval()(x), trained(x))


def test_every_block_of_the_page_is_tested():
    assert len(blocks(IN, "yaml")) == 2
    assert len(blocks(OUT, "python")) == 3
    assert len(blocks(OUT, "bash")) == 1
    assert not blocks(IN, "python") + blocks(OUT, "yaml") + blocks(IN, "bash")
