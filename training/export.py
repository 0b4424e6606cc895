"""Weights out: the backbone of a finished run as a state dict that plain torch and torchvision load, with a card.

./run python -m training.export results/runs/imagenet100/split/moco/seed0
./run python -m training.export digits/full/simclr/seed0 --out encoder.pth

The run is a folder, or its data set, protocol, recipe and seed, which is looked for below results/. Beside the weights
lies a card of the same name, .json: recipe, data, protocol, metrics, what images the network takes, and the lines of
Python that load it without this project.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from methods.blocks.networks import MLP, ConvNet, backbone
from pipeline.options import Parser
from pipeline.predict import find_run
from pipeline.record import EVALUABLE, StageError, read_json, read_records, run_stage, sha256, whole, write_json
from training.augmentation import normalisation
from training.checkpoint import packed
from training.weights import bridged, read_model


def main(words: list[str] | None = None) -> None:
    """`words`: the command line without the program; by default sys.argv."""
    parser = Parser(prog="export", description=__doc__)
    parser.add_argument("run", help="folder of a run, or DATASET/PROTOCOL/RECIPE/seedN")
    parser.add_argument("--out", help="file of weights to write; default: DATASET-PROTOCOL-RECIPE-seedN.pth")
    arguments = parser.parse_args(words)
    run = find_run(arguments.run)
    records = read_records(run / "train.json", "prepare", "train")
    network = plain(run, records)
    out = Path(arguments.out or "-".join(run.parts[-4:]) + ".pth")
    if out.is_dir() or out.suffix == ".json":
        raise StageError(f"{out}: name a file for the weights; their card lies beside it as .json")
    with whole(out) as file:
        file.write(packed(network.state_dict()))
    write_json(out.with_suffix(".json"), card(run, records, network) | {"file": out.name, "sha256": sha256(out)})
    print(f"written: {out}, {out.with_suffix('.json')}")


def plain(run: Path, records: Mapping[str, Any]) -> nn.Module:
    """The trained backbone, with batch norm in one part; its state dict has torchvision's names where it is a ResNet.

    Raises StageError for a training that failed, and for networks that torch and torchvision cannot build.
    """
    train = records["train"]
    if train["status"] not in EVALUABLE:
        raise StageError(f"{run}: its training {train['status']}, so its weights are worth nothing; take another seed")
    network = train["settings"]["recipe"]["network"]
    if network.get("sobel") or network["backbone"] == "none":
        why = "sees edges (network.sobel), which is" if network.get("sobel") else "has no network, which is"
        raise StageError(f"{run}: its recipe {why} nothing that torchvision loads; see model.pt in docs/weights.md")
    built = backbone(
        {key: value for key, value in network.items() if key != "split_batch_norm"},
        tuple(records["prepare"]["settings"]["shape"]),
    )
    weights: dict[str, Tensor] = read_model(run / "model.pt", train)["backbone"]
    try:
        built.load_state_dict(bridged(weights, built))
    except RuntimeError as problem:
        raise StageError(
            f"{run}: this code builds another network than its model is of ({' '.join(str(problem).split())[:200]}); "
            "export it with the code that made it"
        ) from None
    return built.eval()


def card(run: Path, records: Mapping[str, Any], network: nn.Module) -> dict[str, Any]:
    """What the weights are: recipe, data, protocol, seed, metrics of this very training, images they take, loading."""
    data, train = records["prepare"]["settings"], records["train"]
    recipe = train["settings"]["recipe"]
    values = normalisation(recipe, {"normalisation": data["normalisation"], "shape": data["shape"]})
    return {
        "recipe": recipe,
        "data": {key: data[key] for key in ("name", "title", "classes", "shape")}
        | {"content": records["prepare"].get("content")},
        "protocol": train["settings"]["protocol"],
        "seed": train["seed"],
        "epochs": train["epochs"],
        "training": train["fingerprint"],
        "commit": (train.get("git") or {}).get("commit"),
        "metrics": metrics(run, train["fingerprint"]),
        "input": {"layout": "N x C x H x W, RGB or grey", "range": "(x - mean) / std, x in 0..1", **values},
        "output": f"N x {network.width}",
        "load": loading(recipe["network"], network),
    }


def metrics(run: Path, training: str) -> dict[str, dict[str, Any]]:
    """Record's name -> numbers, of each assigner and probe that was scored on this training and no other."""
    found = {}
    for path in sorted((run / "metrics").rglob("*.json")):
        stored = read_json(path)
        if stored["records"]["train"]["fingerprint"] == training:
            result = stored["result"]
            found[path.relative_to(run / "metrics").with_suffix("").as_posix()] = {
                name: value for name, value in result.items() if isinstance(value, int | float | str)
            }
    return found


def loading(network: Mapping[str, Any], built: nn.Module) -> list[str]:
    """The lines of Python that make `network` of the file `path`, with torch and torchvision alone."""
    lines = ["import torch"]
    if network["backbone"].startswith("resnet"):
        lines += ["import torchvision", f"network = torchvision.models.{network['backbone']}()"]
        # What a ResNet for small images has of its own (methods/blocks/resnet.py).
        lines += [f"network.{part} = torch.nn.{getattr(built, part)!r}" for part in ("conv1", "maxpool")]
        lines.append("network.fc = torch.nn.Identity()")
    elif isinstance(built, ConvNet):
        pooled = [] if built.flatten else ["torch.nn.AdaptiveAvgPool2d(1)"]
        lines += _sequence(built.layers, after=[*pooled, "torch.nn.Flatten()"])
    elif isinstance(built, MLP):
        lines += _sequence(built.layers, before=["torch.nn.Flatten()"])
    else:
        raise TypeError(f"no lines to load a {type(built).__name__} without this project")
    return [*lines, "network.load_state_dict(torch.load(path, weights_only=True))", "network.eval()"]


def _sequence(layers: nn.Sequential, before: list[str] | None = None, after: list[str] | None = None) -> list[str]:
    """Lines for a network whose learnt layers are `layers`, as they are named in the state dict."""
    lines = ["network = torch.nn.Sequential()"]
    lines += [f"network.add_module('before{number}', {line})" for number, line in enumerate(before or [])]
    lines += ["network.add_module('layers', torch.nn.Sequential(", *(f"    {_line(part)}," for part in layers), "))"]
    return lines + [f"network.add_module('after{number}', {line})" for number, line in enumerate(after or [])]


def _line(part: nn.Module) -> str:
    """What makes a layer like `part`, in every version of torch."""
    name = f"torch.nn.{part!r}"
    return f"torch.nn.BatchNorm2d({part.num_features}, {part.eps})" if isinstance(part, nn.BatchNorm2d) else name


if __name__ == "__main__":
    run_stage(main)
