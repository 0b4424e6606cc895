import pytest
import torch
import torchvision

from methods.blocks.batch_norm import SplitBatchNorm2d, shuffled
from methods.blocks.heads import ParallelMLP, projection
from methods.blocks.networks import Dense, backbone
from methods.method import DataFacts, build_method
from pipeline.recipes import resolve
from pipeline.record import StageError
from training.weights import load_weights

RESNET = {"backbone": "resnet18", "stem": "cifar"}
WHOLE = {"kernel": 3, "padding": 0, "flatten": True}


@pytest.mark.parametrize(
    ("network", "shape", "width"),
    [
        ({"backbone": "none"}, (8, 8, 1), 64),
        ({"backbone": "convnet", "widths": [8, 16], "pool_after": [0]}, (28, 28, 1), 16),
        ({"backbone": "convnet", "widths": [8, 16], "pool_after": [0]}, (9, 7, 3), 16),
        ({"backbone": "convnet", "widths": [8], "pool_after": [0]} | WHOLE | {"kernel": 5}, (16, 16, 1), 6 * 6 * 8),
        ({"backbone": "convnet", "widths": [8, 4], "pool_after": [0]} | WHOLE | {"kernel": 5}, (28, 28, 1), 8 * 8 * 4),
        ({"backbone": "convnet", "widths": [8, 4], "pool_after": [1]} | WHOLE | {"padding": 1}, (9, 7, 1), 4 * 3 * 4),
        ({"backbone": "mlp", "widths": [500, 500, 2000, 10]}, (28, 28, 1), 10),
        ({"backbone": "mlp", "widths": [500, 500, 500, 2000, 10]}, (16, 16, 1), 10),
        (RESNET, (32, 32, 3), 512),
        (RESNET | {"stem": "stl_scan"}, (96, 96, 3), 512),
        (RESNET | {"stem": "imagenet"}, (64, 64, 1), 512),
        ({"backbone": "resnet34", "stem": "cifar"}, (32, 32, 1), 512),
        ({"backbone": "resnet50", "stem": "imagenet"}, (64, 64, 3), 2048),
        (RESNET | {"split_batch_norm": 2}, (32, 32, 3), 512),
    ],
)
def test_backbones_give_their_width(network, shape, width):
    with torch.device("meta"):  # shapes without numbers
        net = backbone(network, shape)
        assert net(torch.randn(2, shape[2], shape[0], shape[1])).shape == (2, width)
    assert net.width == width


def test_a_map_too_small_for_its_convolutions_is_refused():
    with pytest.raises(ValueError, match="2 convolutions of 5 px leave nothing"):
        backbone({"backbone": "convnet", "widths": [8, 8], "pool_after": [0], **WHOLE, "kernel": 5}, (8, 8, 1))


def sides(net, side):
    """Side of the map after the stem and after each stage."""
    seen = []
    hooks = [getattr(net, n).register_forward_hook(lambda m, i, o: seen.append(o.shape[-1])) for n in
             ("maxpool", "layer1", "layer2", "layer3", "layer4")]  # fmt: skip
    net(torch.randn(2, 3, side, side, device="meta"))
    for hook in hooks:
        hook.remove()
    return seen


@pytest.mark.parametrize(
    ("stem", "side", "expected"),
    [
        ("cifar", 32, [32, 32, 16, 8, 4]),
        ("stl_scan", 96, [49, 49, 25, 13, 7]),
        ("imagenet", 96, [24, 24, 12, 6, 3]),
    ],
)
def test_stems_have_the_papers_map_sizes(stem, side, expected):
    with torch.device("meta"):
        net = backbone(RESNET | {"stem": stem}, (side, side, 3))
    assert sides(net, side) == expected


def test_imagenet_stem_is_torchvisions_network():
    ours, theirs = backbone({"backbone": "resnet50", "stem": "imagenet"}, (64, 64, 3)), torchvision.models.resnet50()
    theirs.fc = torch.nn.Identity()
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(2, 3, 64, 64)
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x))


def test_autoencoder_decoder_mirrors():
    encoder = backbone({"backbone": "mlp", "widths": [500, 500, 2000, 10]}, (28, 28, 1))
    sizes = [layer.weight.shape for layer in encoder.mirror() if isinstance(layer, torch.nn.Linear)]
    assert sizes == [(2000, 10), (500, 2000), (500, 500), (784, 500)]


def gradients(dense, x):
    """Output of `dense` for x, and the gradients of its sum of squares with respect to x and the parameters."""
    x = x.clone().requires_grad_()
    out = dense(x)
    return [out.detach(), *torch.autograd.grad(out.square().sum(), [x, *dense.parameters()])]


@pytest.mark.parametrize("rows", [1, 3, 256])
def test_dense_layers_give_the_plain_products_and_gradients(rows):
    """Whichever library makes the products: both are compared with float64, which never takes the fast path."""
    torch.manual_seed(0)
    dense = Dense([7, 5, 300, 2])
    exact = Dense([7, 5, 300, 2]).double()
    exact.load_state_dict(dense.state_dict())
    x = torch.randn(rows, 7)
    for found, expected in zip(gradients(dense, x), gradients(exact, x.double()), strict=True):
        assert found.layout == torch.strided
        torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)


def test_dense_layers_keep_nan_and_take_no_rows_and_no_gradient():
    dense = Dense([4, 6, 2])
    assert dense(torch.full((2, 4), torch.nan)).isnan().all()
    assert dense(torch.zeros(0, 4)).shape == (0, 2)
    with torch.inference_mode():
        assert dense(torch.ones(3, 4)).shape == (3, 2)
    with torch.autocast("cpu", torch.bfloat16):
        assert dense(torch.ones(3, 4)).dtype == torch.bfloat16
    assert list(dense.state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]


@pytest.mark.skipif(torch.backends.cpu.get_cpu_capability() != "AVX512", reason="the fast products need AVX-512")
def test_dense_layers_take_onednn_where_it_is_faster():
    with torch.profiler.profile() as seen:
        Dense([4, 6, 2])(torch.ones(3, 4))
    assert "aten::mkldnn_linear" in {event.key for event in seen.key_averages()}


def test_split_batch_norm_with_one_split_is_batch_norm():
    x = torch.randn(8, 3, 4, 4)
    split, plain = SplitBatchNorm2d(3, 1), torch.nn.BatchNorm2d(3)
    torch.testing.assert_close(split(x), plain(x))
    torch.testing.assert_close(split.running_var, plain.running_var)
    torch.testing.assert_close(split.eval()(x), plain.eval()(x))


def test_split_batch_norm_normalises_interleaved_parts():
    x = torch.randn(8, 3, 4, 4) * torch.tensor([1.0, 5.0]).repeat(4).view(-1, 1, 1, 1)
    split = SplitBatchNorm2d(3, 2)
    out = split(x)
    means, variances = [], []
    for part in range(2):
        plain = torch.nn.BatchNorm2d(3)
        torch.testing.assert_close(out[part::2], plain(x[part::2]))
        means.append(plain.running_mean)
        variances.append(plain.running_var)
    reference = torch.nn.BatchNorm2d(3).eval()
    reference.running_mean, reference.running_var = sum(means) / 2, sum(variances) / 2
    torch.testing.assert_close(split.eval()(x), reference(x))
    with pytest.raises(ValueError, match="batch of 7 for 2 splits"):
        split.train()(x[:7])


def test_split_batch_norm_keeps_the_layout_of_its_input():
    x = torch.randn(8, 3, 4, 4)
    last = x.contiguous(memory_format=torch.channels_last)
    out = SplitBatchNorm2d(3, 2)(last)
    assert out.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(out, SplitBatchNorm2d(3, 2)(x))


def test_shuffling_is_undone():
    x = torch.arange(10)
    mixed, undo = shuffled(x, torch.Generator().manual_seed(0))
    assert not torch.equal(mixed, x)
    assert torch.equal(mixed[undo], x)


def test_projection_heads():
    assert [type(m).__name__ for m in projection(4, [2], batch_norm=False)] == ["Linear"]
    simclr = projection(8, [8, 8, 4], batch_norm=True)
    names = [type(m).__name__ for m in simclr]
    assert names == ["Linear", "BatchNorm1d", "ReLU", "Linear", "BatchNorm1d", "ReLU", "Linear", "BatchNorm1d"]
    assert simclr(torch.randn(3, 8)).shape == (3, 4)
    assert ParallelMLP(5, 8, 6, 4)(torch.randn(3, 8)).shape == (3, 5, 4)


@pytest.mark.parametrize(
    ("container", "prefix"),
    [("state_dict", "module.encoder_q."), (None, "encoder."), ("model", "module."), (None, "")],
)
def test_published_weights_load(tmp_path, container, prefix):
    source = torchvision.models.resnet18()
    stored = {prefix + name: value for name, value in source.state_dict().items()}
    stored |= {"module.encoder_k.conv1.weight": torch.zeros(1), "module.queue": torch.zeros(2, 2)}
    torch.save({container: stored, "epoch": 800} if container else stored, tmp_path / "weights.pth")
    net = backbone(RESNET | {"stem": "imagenet"}, (64, 64, 3))
    said = load_weights(net, tmp_path / "weights.pth")
    assert said["backbone_keys"] == len(net.state_dict()) == 120
    torch.testing.assert_close(net.layer4[1].conv2.weight, source.layer4[1].conv2.weight)


def test_weights_that_do_not_fit_are_refused(tmp_path):
    net = backbone(RESNET | {"stem": "imagenet"}, (64, 64, 3))
    before = net.conv1.weight.clone()
    weights = torchvision.models.resnet18().state_dict()
    del weights["layer2.0.conv1.weight"]
    torch.save(weights, tmp_path / "short.pth")
    with pytest.raises(StageError, match=r"119 of 120 backbone keys found, 'layer2\.0\.conv1\.weight' is missing"):
        load_weights(net, tmp_path / "short.pth")
    torch.save(torchvision.models.resnet18().state_dict(), tmp_path / "stem.pth")
    with pytest.raises(StageError, match=r"'conv1\.weight' is \[64, 3, 7, 7\] in the file, \[64, 3, 3, 3\]"):
        load_weights(backbone(RESNET, (32, 32, 3)), tmp_path / "stem.pth")
    torch.save(torch.nn.Linear(1, 1), tmp_path / "pickled.pth")  # a whole module: code, not weights
    with pytest.raises(StageError, match="cannot be read as weights alone"):
        load_weights(net, tmp_path / "pickled.pth")
    with pytest.raises(StageError, match="not found"):
        load_weights(net, tmp_path / "nowhere.pth")
    assert torch.equal(net.conv1.weight, before)


def test_a_frozen_backbone_stays_bit_for_bit():
    recipe = resolve("simclr_base", "digits", {"*": {"network": {"frozen": True}}})
    method = build_method(recipe, DataFacts(10, (8, 8, 1), 64))
    before = {name: value.clone() for name, value in method.backbone.state_dict().items()}
    head = [value.clone() for value in method.head.parameters()]
    from methods.method import Batch
    from training.optimisers import build_optimiser

    optimiser = build_optimiser(recipe["optimiser"], method)
    for _ in range(3):
        method.train()
        assert not method.backbone.training
        method.losses(Batch([torch.randn(8, 1, 8, 8), torch.randn(8, 1, 8, 8)], torch.arange(8)))["contrast"].backward()
        optimiser.step()
    for name, value in method.backbone.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert not all(torch.equal(a, b) for a, b in zip(head, method.head.parameters(), strict=True))
