"""Files of weights in the key layout of each source: backbone keys are found, what does not fit is refused."""

import pytest
import torch
from torch import nn
from torchvision.models import resnet18, resnet34

from methods.blocks.networks import backbone
from pipeline.record import StageError
from training.weights import load_weights

NETWORK = {"backbone": "resnet18", "stem": "imagenet"}
LEFT = torch.ones(2)


def numbered(net, start):
    """A state dict of torchvision's names and shapes whose n-th tensor holds start + n alone: a small file."""
    return {
        name: torch.tensor(start + number, dtype=value.dtype).expand(value.shape)
        for number, (name, value) in enumerate(net.state_dict().items())
    }


def named(net, prefix="", keep=lambda name: not name.startswith("fc.")):
    return {f"{prefix}{name}": value for name, value in net.items() if keep(name)}


def head(*names):
    return dict.fromkeys(names, LEFT)


def lightlys_own(net):
    """lightly.models.ResNetGenerator, cut as its tutorials do: conv1, bn1, layer1 to layer4 in a Sequential."""
    numbers = {"conv1": 0, "bn1": 1, "layer1": 2, "layer2": 3, "layer3": 4, "layer4": 5}
    renamed = {}
    for name, value in named(net).items():
        part, _, rest = name.partition(".")
        renamed[f"backbone.{numbers[part]}.{rest.replace('downsample', 'shortcut')}"] = value
    return renamed


def cut(net, prefix):
    """The names that `Sequential(*children)` gives."""
    with torch.device("meta"):
        names = nn.Sequential(*list(resnet18().children())[:-1]).state_dict()
    return {f"{prefix}{name}": value for name, value in zip(names, named(net).values(), strict=True)}


# source -> (what its file holds of a network and its momentum copy, keys that are left out by their part)
SOURCES = {
    "torchvision": (lambda net, _: named(net, keep=bool), {"fc": 2}),
    "timm": (lambda net, _: {"state_dict": named(net, keep=bool)}, {"fc": 2}),
    "moco": (
        lambda net, copy: {
            "epoch": 200, "arch": "resnet18", "optimizer": {},
            "state_dict": named(net, "module.encoder_q.") | named(copy, "module.encoder_k.")
            | head("module.encoder_q.fc.0.weight", "module.encoder_q.fc.2.bias", "module.queue", "module.queue_ptr"),
        },
        {"fc": 2, "encoder_k": 120, "queue": 1, "queue_ptr": 1},
    ),
    "moco_v3": (
        lambda net, copy: {
            "state_dict": named(net, "module.base_encoder.") | named(copy, "module.momentum_encoder.")
            | head("module.base_encoder.fc.0.weight", "module.predictor.0.weight"),
        },
        {"fc": 1, "momentum_encoder": 120, "predictor": 1},
    ),
    "pcl": (
        lambda net, _: {"arch": "resnet18", "state_dict": named(net, "module.encoder_q.") | head("module.queue")},
        {"queue": 1},
    ),
    "swav": (
        lambda net, _: named(net, "module.") | head("module.projection_head.0.weight", "module.prototypes.weight"),
        {"projection_head": 1, "prototypes": 1},
    ),
    "solo-learn": (
        lambda net, copy: {
            "state_dict": named(net, "backbone.") | named(copy, "momentum_backbone.")
            | head("classifier.weight", "projector.0.weight"),
            "hyper_parameters": {"max_epochs": 400},
        },
        {"momentum_backbone": 120, "classifier": 1, "projector": 1},
    ),
    "solo-learn before 1.0.5": (lambda net, _: {"state_dict": named(net, "encoder.")}, {}),
    "lightly": (
        lambda net, copy: {
            "state_dict": cut(net, "backbone.") | cut(copy, "backbone_momentum.")
            | head("projection_head.layers.0.weight"),
        },
        {"backbone_momentum": 120, "projection_head": 1},
    ),
    "lightly's own ResNet": (lambda net, _: {"state_dict": lightlys_own(net) | head("projection_head.layers.0.weight")},
                             {"projection_head": 1}),
    "lightly's benchmarks": (lambda net, _: {"state_dict": named(net, "backbone.") | head("online_classifier.bias")},
                             {"online_classifier": 1}),
}  # fmt: skip


@pytest.fixture(scope="module")
def nets():
    """(weights of a network, those of its momentum copy, a fresh backbone)"""
    with torch.device("meta"):
        net = resnet18()
    return numbered(net, 1), numbered(net, 1001), backbone(NETWORK, (32, 32, 3)).eval()


def weights_of(content):
    return content.get("state_dict", content)


@pytest.mark.parametrize("source", SOURCES)
def test_a_file_of_each_source_loads_and_one_with_a_missing_key_is_refused(nets, tmp_path, source):
    net, copy, fresh = nets
    make, left = SOURCES[source]
    content, path = make(net, copy), tmp_path / "weights.pth"
    torch.save(content, path)
    before = {name: torch.zeros_like(value) for name, value in fresh.state_dict().items()}
    fresh.load_state_dict(before)
    said = load_weights(fresh, path)
    assert (said["backbone_keys"], said["left_out"]) == (120, left)
    assert all(torch.equal(value, net[name]) for name, value in fresh.state_dict().items())
    keys = [key for key in weights_of(content) if key.endswith("0.conv2.weight") and "momentum" not in key]
    lost = next(key for key in keys if "encoder_k" not in key)
    weights_of(content).pop(lost)
    torch.save(content, path)
    fresh.load_state_dict(before)
    with pytest.raises(StageError, match=r"119 of 120.*'layer1\.0\.conv2\.weight' is missing"):
        load_weights(fresh, path)
    assert not any(value.any() for value in fresh.state_dict().values())


def test_counters_that_old_files_lack_are_no_loss(nets, tmp_path):
    net, _, fresh = nets
    torch.save(named(net, keep=lambda name: not name.endswith("num_batches_tracked")), tmp_path / "old.pth")
    assert load_weights(fresh, tmp_path / "old.pth")["backbone_keys"] == 120


def test_a_deeper_network_is_refused_though_all_keys_are_there(nets, tmp_path):
    with torch.device("meta"):
        deep = numbered(resnet34(), 1)
    torch.save(named(deep, "module.encoder_q."), tmp_path / "deep.pth")
    with pytest.raises(
        StageError, match=r"all 120 .* 80 more of its parts, 'module\.encoder_q\.layer1\.2\.conv1\.weight'"
    ):
        load_weights(nets[2], tmp_path / "deep.pth")


@pytest.mark.parametrize("content", [torch.ones(3), {"state_dict": {}}, {"model": {"conv1.weight": 3}}])
def test_what_is_no_state_dict_is_refused(nets, tmp_path, content):
    torch.save(content, tmp_path / "odd.pth")
    with pytest.raises(StageError, match=r"holds a Tensor, no state dict|0 of 120 backbone keys found"):
        load_weights(nets[2], tmp_path / "odd.pth")


def test_more_than_weights_is_refused_with_the_way_to_save_them(nets, tmp_path):
    torch.save({"state_dict": {}, "hyper_parameters": nn.ReLU()}, tmp_path / "all.ckpt")
    with pytest.raises(StageError, match=r"cannot be read as weights alone.*torch\.save\(torch\.load\(FILE"):
        load_weights(nets[2], tmp_path / "all.ckpt")


def test_plain_weights_fit_a_network_with_batch_norm_in_parts_and_back(nets, tmp_path):
    net = nets[0]
    torch.save(net, tmp_path / "plain.pth")
    parts = backbone(NETWORK | {"split_batch_norm": 2}, (32, 32, 3))
    load_weights(parts, tmp_path / "plain.pth")
    assert torch.equal(parts.bn1.running_mean, net["bn1.running_mean"].repeat(2))
    parts.bn1.running_mean[:64] += 2
    torch.save(parts.state_dict(), tmp_path / "parts.pth")
    load_weights(nets[2], tmp_path / "parts.pth")
    torch.testing.assert_close(nets[2].bn1.running_mean, net["bn1.running_mean"] + 1)
