"""Weights out: what the card's lines make has the run's features, and what cannot be exported is refused."""

import json

import pytest
import torch
from torch import nn

from methods.blocks.networks import backbone
from pipeline.naming import ConfigError
from pipeline.record import Damaged, StageError, hashes, write_json
from training import export
from training.weights import load_weights

RESNET = {"backbone": "resnet18"}
CONVNET = {"backbone": "convnet", "widths": [3, 4], "pool_after": [0]}
CARD = {"normalisation": {"mean": [0.5], "std": [0.25]}, "name": "mine", "title": "Mine", "classes": 3}


def finished(folder, network, shape, status="ok", trained=True, **recipe):
    """A run's folder with a network whose batch-norm statistics are not those it started from."""
    torch.manual_seed(0)
    net = backbone(network, shape)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.uniform_(-1, 1)
            module.running_var.uniform_(0.5, 2)
    run = folder / "runs/mine/full/simclr/seed0"
    run.mkdir(parents=True)
    torch.save({"backbone": net.state_dict(), "method": {}, "epoch": 2}, run / "model.pt")
    settings = {"recipe": {"network": network, "name": "simclr", **recipe}, "protocol": {"name": "full"}}
    train = {"status": status, "settings": settings, "seed": 0, "epochs": 2, "fingerprint": "f"}
    train["files"] = hashes(run / "model.pt")
    prepare = {"settings": CARD | {"shape": list(shape)}, "content": "c"}
    write_json(run / "train.json", {"records": {"prepare": prepare, "train": train}})
    return run, net.eval()


def loaded(out):
    """What the card's lines make, in a namespace that holds the file's path alone."""
    card = json.loads(out.with_suffix(".json").read_text())
    made = {"path": str(out)}
    exec("\n".join(card["load"]), made)
    assert "methods" not in "".join(card["load"])
    return card, made["network"]


@pytest.mark.parametrize(
    ("network", "shape"),
    [
        (RESNET | {"stem": "imagenet"}, (32, 32, 3)),
        (RESNET | {"stem": "cifar"}, (16, 16, 3)),
        (RESNET | {"stem": "stl_scan"}, (16, 16, 1)),
        (RESNET | {"stem": "imagenet", "split_batch_norm": 2}, (32, 32, 1)),
        (CONVNET, (9, 8, 3)),
        (CONVNET | {"flatten": True, "kernel": 5, "padding": 1, "split_batch_norm": 4}, (12, 12, 1)),
        ({"backbone": "mlp", "widths": [6, 5]}, (4, 3, 2)),
    ],
    ids=str,
)
def test_the_cards_lines_make_a_network_with_the_runs_features(tmp_path, network, shape):
    run, net = finished(tmp_path, network, shape)
    out = tmp_path / "w.pth"
    export.main([str(run), "--out", str(out)])
    card, made = loaded(out)
    assert not made.training
    x = torch.rand(3, shape[2], *shape[:2])
    with torch.no_grad():
        torch.testing.assert_close(made(x), net(x), rtol=0, atol=1e-5)
    assert card["output"] == f"N x {net.width}"
    assert card["metrics"] == {}
    again = backbone({key: value for key, value in network.items() if key != "split_batch_norm"}, shape).eval()
    load_weights(again, out)
    with torch.no_grad():
        torch.testing.assert_close(again(x), net(x), rtol=0, atol=1e-5)


def test_the_card_says_how_images_are_normalised_and_lists_the_numbers_of_this_training_alone(tmp_path):
    run, _ = finished(tmp_path, CONVNET, (8, 8, 1))
    for name, training in (("knn", "f"), ("clustering/kmeans", "f"), ("linear", "other")):
        (run / "metrics" / name).parent.mkdir(parents=True, exist_ok=True)
        result = {"ACC": 0.5, "status": "ok", "by_class": [1, 2]}
        write_json(
            run / "metrics" / f"{name}.json", {"result": result, "records": {"train": {"fingerprint": training}}}
        )
    export.main([str(run), "--out", str(tmp_path / "w.pth")])
    card, _ = loaded(tmp_path / "w.pth")
    assert card["metrics"] == {name: {"ACC": 0.5, "status": "ok"} for name in ("clustering/kmeans", "knn")}
    assert (card["input"]["mean"], card["input"]["std"]) == ([0.5], [0.25])
    other, _ = finished(tmp_path / "raw", CONVNET, (8, 8, 1), normalise=False)
    export.main([str(other), "--out", str(tmp_path / "raw.pth")])
    card, _ = loaded(tmp_path / "raw.pth")
    assert (card["input"]["mean"], card["input"]["std"]) == ([0], [1])


@pytest.mark.parametrize(
    ("network", "status", "message"),
    [
        (CONVNET, "diverged", "its training diverged, so its weights are worth nothing"),
        (CONVNET | {"sobel": "luma"}, "ok", r"sees edges \(network.sobel\)"),
        ({"backbone": "none"}, "ok", "has no network"),
    ],
)
def test_what_cannot_be_exported_is_refused_and_nothing_is_written(tmp_path, network, status, message):
    run, _ = finished(tmp_path, network, (8, 8, 1), status)
    with pytest.raises(StageError, match=message):
        export.main([str(run), "--out", str(tmp_path / "w.pth")])
    assert not list(tmp_path.glob("w.*"))


def test_damage_odd_names_and_runs_that_are_not_there_are_told(tmp_path):
    run, _ = finished(tmp_path, CONVNET, (8, 8, 1))
    for odd in (tmp_path, tmp_path / "w.json"):
        with pytest.raises(StageError, match="name a file for the weights"):
            export.main([str(run), "--out", str(odd)])
    with pytest.raises(ConfigError, match="no finished run"):
        export.main([str(tmp_path / "runs/mine/full/simclr/seed1")])
    (run / "model.pt").write_bytes(b"x")
    with pytest.raises(Damaged, match="was damaged"):
        export.main([str(run), "--out", str(tmp_path / "w.pth")])
