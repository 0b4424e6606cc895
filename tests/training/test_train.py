"""The train stage by hand: what it writes, and one clear error for what a user can mend."""

import csv
import json
import math
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from pipeline.provenance import canonical_json
from pipeline.recipes import resolve
from pipeline.record import hashes, run_stage, write_json
from preparation.prepared import open_prepared
from training.train import fabric_precision, main


@pytest.fixture
def train(monkeypatch, capsys):
    """Run the stage's own main in this process (a process of its own costs five seconds of imports)."""

    def run(data, recipe, out, *more, seed=1, strict=False):
        words = ["--data", data, "--recipe", recipe, "--protocol", "full", "--seed", seed, "--out", out, *more]
        words += ["--resume", out / "resume", "--device", "cpu", *(["--strict"] if strict else [])]
        monkeypatch.setattr(sys, "argv", ["train", *map(str, words)])
        try:
            run_stage(main)
        except SystemExit as ended:
            return SimpleNamespace(returncode=ended.code, stderr=capsys.readouterr().err)
        return SimpleNamespace(returncode=0, stderr=capsys.readouterr().err)

    return run


def small(name, **more):
    changes = {"batch_size": 64, "network": {"widths": [8, 16]}, "schedule": {"epochs": 2}, **more}
    if name != "simclr_base":
        changes["base"] = None
    return canonical_json(resolve(name, "digits_200", {"*": changes}))


def only_error(done):
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    return lines[0]


def test_writes_model_history_and_record(train, digits_200, tmp_path):
    done = train(digits_200, small("mixem"), tmp_path)
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "train.json").read_text())["records"]["train"]
    assert [record["status"], record["epochs"], record["seed"]] == ["ok", 2, 1]
    assert record["settings"]["recipe"]["weights"]["pull"] == 0.1
    with open(tmp_path / "history.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == [
        "epoch", "total", "contrast", "comp_ent", "inst_ent", "push", "pull", "lr",
        "occupied_components", "largest_share", "at_chance", "seconds", "images_per_s",
    ]  # fmt: skip
    weights = record["settings"]["recipe"]["weights"]
    total = sum(weights[name] * float(rows[0][name]) for name in weights)
    assert float(rows[0]["total"]) == pytest.approx(total, rel=1e-4)
    assert torch.load(tmp_path / "model.pt", weights_only=True)["epoch"] == 2


def test_snapshots_hold_features_and_clusters_of_the_epochs_asked_for(train, digits_200, tmp_path):
    assert train(digits_200, small("cdc", snapshots=[1, 2, 5]), tmp_path).returncode == 0
    assert train(digits_200, small("simclr_base", snapshots=[2]), tmp_path / "base").returncode == 0
    with np.load(tmp_path / "snapshots.npz") as stored:
        assert set(stored.files) == {"rows", "1", "1_clusters", "2", "2_clusters"}
        assert [stored[name].shape for name in ("rows", "1", "1_clusters")] == [(200,), (200, 16), (200,)]
        assert not np.array_equal(stored["1"], stored["2"])
        assert 0 <= stored["2_clusters"].min() <= stored["2_clusters"].max() < 10
    with np.load(tmp_path / "base" / "snapshots.npz") as stored:
        assert set(stored.files) == {"rows", "2"}  # SimCLR has no p


def test_a_loss_at_chance_is_told(train, digits_200, tmp_path):
    """A temperature of 1000 makes every assignment uniform: SwAV's loss sits at the logarithm of its prototypes."""
    found = {}
    for temperature in (0.1, 1000.0):
        folder = tmp_path / str(temperature)
        assert train(digits_200, small("swav", settings={"temperature": temperature}), folder).returncode == 0
        record = json.loads((folder / "train.json").read_text())["records"]["train"]
        with open(folder / "history.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        found[temperature] = record["at_chance"], float(rows[-1]["at_chance"])
    assert found == {0.1: (False, 0.0), 1000.0: (True, 1.0)}
    assert float(rows[-1]["swap"]) == pytest.approx(math.log(50), rel=1e-3)


def test_base_weights_are_where_training_starts(train, digits_200, tmp_path):
    base, after = tmp_path / "base", tmp_path / "after"
    assert train(digits_200, small("simclr_base"), base).returncode == 0
    resolved = resolve("simclr", "digits_200", {"*": {"network": {"widths": [8, 16]}, "schedule": {"epochs": 0}}})
    done = train(digits_200, canonical_json(resolved), after, "--base", base / "model.pt")
    assert done.returncode == 0, done.stderr
    one, other = (torch.load(folder / "model.pt", weights_only=True)["backbone"] for folder in (base, after))
    assert all(torch.equal(one[name], other[name]) for name in one)
    record = json.loads((after / "train.json").read_text())["records"]["train"]
    assert record["base_seed"] == 1
    assert "give its model as --base" in only_error(train(digits_200, canonical_json(resolved), tmp_path / "x"))
    other_net = resolve("simclr", "digits_200", {"*": {"network": {"widths": [8, 24]}}})
    done = train(digits_200, canonical_json(other_net), tmp_path / "x", "--base", base / "model.pt")
    assert "does not fit this recipe's network" in only_error(done)


def test_divergence_is_a_result_and_an_error_when_strict(train, digits_200, tmp_path):
    wild = small("simclr_base", optimiser={"name": "sgd", "lr": 1e30, "weight_decay": 1e-5}, schedule={"epochs": 5})
    done = train(digits_200, wild, tmp_path)
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "train.json").read_text())["records"]["train"]
    assert record["status"] == "diverged"
    assert record["diverged"] == {"epoch": 1, "term": "contrast"}
    strict = train(digits_200, wild, tmp_path / "strict", strict=True)
    assert "'contrast' is not finite in epoch 1" in only_error(strict)
    assert not (tmp_path / "strict" / "model.pt").exists()


def test_what_a_user_can_mend(train, digits_200, tmp_path):
    too_large = small("simclr_base", batch_size=256)
    assert "N=200 < batch 256" in only_error(train(digits_200, too_large, tmp_path))
    assert "card.json: not found" in only_error(train(tmp_path / "nowhere", small("simclr_base"), tmp_path))
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    for path in digits_200.iterdir():
        (damaged / path.name).write_bytes(path.read_bytes())
    content = bytearray((damaged / "images.npy").read_bytes())
    content[-1] ^= 1
    (damaged / "images.npy").write_bytes(content)
    message = only_error(train(damaged, small("simclr_base"), tmp_path))
    assert "images.npy: sha256" in message
    assert "prepare the data set again" in message
    assert not (tmp_path / "model.pt").exists()


def test_a_method_that_uses_labels_never_sees_scored_rows(train, digits_200, tmp_path):
    done = train(digits_200, small("supervised"), tmp_path)
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "train.json").read_text())["records"]["train"]
    assert record["settings"]["protocol"] == {"name": "full", "train": ["train"]}


def test_a_frozen_backbone_from_a_file_stays_what_the_file_holds(train, digits_200, tmp_path):
    assert train(digits_200, small("simclr_base"), tmp_path / "source").returncode == 0
    weights = torch.load(tmp_path / "source" / "model.pt", weights_only=True)["backbone"]
    torch.save({"state_dict": {f"module.encoder_q.{k}": v for k, v in weights.items()}}, tmp_path / "weights.pth")
    network = {"widths": [8, 16], "weights": str(tmp_path / "weights.pth"), "frozen": True}
    assert train(digits_200, small("mixem", network=network), tmp_path / "out").returncode == 0
    after = torch.load(tmp_path / "out" / "model.pt", weights_only=True)["backbone"]
    assert all(torch.equal(after[name], weights[name]) for name in weights)
    record = json.loads((tmp_path / "out" / "train.json").read_text())["records"]["train"]
    assert record["weights"]["file"] == "weights.pth"
    assert len(record["weights"]["sha256"]) == 64


@pytest.mark.parametrize("name", ["moco", "cdc", "byol"])
def test_a_key_encoder_starts_as_the_backbone_of_the_file(name, train, digits_200, tmp_path):
    source = "moco_base" if name == "moco" else "simclr_base"  # the network of the file is that of the recipe
    assert train(digits_200, small(source), tmp_path / "source").returncode == 0
    weights = torch.load(tmp_path / "source" / "model.pt", weights_only=True)["backbone"]
    torch.save(weights, tmp_path / "weights.pth")
    network = {"widths": [8, 16], "weights": str(tmp_path / "weights.pth"), "frozen": True}
    settings = {"settings": {"queue": 64}} if name == "cdc" else {}
    assert train(digits_200, small(name, network=network, **settings), tmp_path / "out").returncode == 0
    state = torch.load(tmp_path / "out" / "model.pt", weights_only=True)["method"]
    keys = "target" if name == "byol" else "keys"
    assert all(torch.equal(state[f"{keys}.backbone.{key}"], value) for key, value in weights.items())


def test_precision_follows_the_hardware_only_when_asked():
    assert fabric_precision("32", "cpu") == "32-true"
    assert fabric_precision("bf16", "cpu") == "bf16-mixed"
    assert fabric_precision("auto", "cpu") in ("32-true", "bf16-mixed")


def test_bfloat16_trains(train, digits_200, tmp_path):
    assert train(digits_200, small("mixem", precision="bf16"), tmp_path).returncode == 0
    record = json.loads((tmp_path / "train.json").read_text())["records"]["train"]
    assert [record["status"], record["precision"]] == ["ok", "bf16-mixed"]


def test_seeds_differ_and_repeat(train, digits_200, tmp_path):
    recipe = small("simclr_base", schedule={"epochs": 1})
    for out, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert train(digits_200, recipe, tmp_path / out, seed=seed).returncode == 0
    a, b, c = (torch.load(tmp_path / out / "model.pt", weights_only=True)["backbone"] for out in "abc")
    name = "layers.0.weight"
    assert torch.equal(a[name], b[name])
    assert not torch.equal(a[name], c[name])


def test_fine_tuning_uses_a_share_of_the_labels_at_two_rates(train, digits_200, tmp_path):
    import numpy as np

    from methods.method import DataFacts, build_method
    from preparation.prepared import open_prepared
    from training.inputs import labelled_rows
    from training.optimisers import build_optimiser

    data = open_prepared(digits_200)
    rows = labelled_rows(data, np.arange(160), {"fraction": 0.1})
    assert np.bincount(data.labels[rows]).tolist() == [2] * 10
    assert len(labelled_rows(data, np.arange(160), {"fraction": 0.001})) == 10  # at least one of each class
    base = tmp_path / "base"
    assert train(digits_200, small("simclr_base"), base).returncode == 0
    changes = {
        "network": {"widths": [8, 16]},
        "schedule": {"epochs": 3, "milestones": [1]},
        "labels": {"fraction": 0.1},
    }
    recipe = resolve("finetune", "digits_200", {"*": {"batch_size": 64, **changes}})
    done = train(digits_200, canonical_json(recipe), tmp_path / "tuned", "--base", base / "model.pt")
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "tuned" / "train.json").read_text())["records"]["train"]
    assert record["settings"]["protocol"]["train"] == ["train"]  # never the test split, whatever the protocol
    before, after = (torch.load(p / "model.pt", weights_only=True)["backbone"] for p in (base, tmp_path / "tuned"))
    assert any(not torch.equal(before[key], after[key]) for key in before)  # the trunk learns too
    method = build_method(recipe, DataFacts(10, (8, 8, 1), 20))
    groups = build_optimiser(recipe["optimiser"], method).param_groups
    assert [group.get("scale", 1) for group in groups] == [1, 250]
    assert sum(len(group["params"]) for group in groups) == len(list(method.parameters()))


def test_a_family_inherits_encoder_and_decoder(train, digits_200, tmp_path):
    mlp = {"network": {"widths": [16, 4]}, "batch_size": 64}
    base = tmp_path / "ae"
    recipe = resolve("autoencoder", "digits_200", {"*": {**mlp, "schedule": {"epochs": 2}}})
    assert train(digits_200, canonical_json(recipe), base).returncode == 0
    recipe = resolve("idec", "digits_200", {"*": {**mlp, "schedule": {"epochs": 0}}})
    done = train(digits_200, canonical_json(recipe), tmp_path / "idec", "--base", base / "model.pt")
    assert done.returncode == 0, done.stderr
    before, after = (torch.load(p / "model.pt", weights_only=True)["method"] for p in (base, tmp_path / "idec"))
    shared = [key for key in before if key.startswith(("backbone.", "decoder."))]
    assert len(shared) == 8
    assert all(torch.equal(before[key], after[key]) for key in shared)
    wider = resolve("idec", "digits_200", {"*": {**mlp, "network": {"widths": [17, 4]}, "schedule": {"epochs": 0}}})
    done = train(digits_200, canonical_json(wider), tmp_path / "wider", "--base", base / "model.pt")
    assert "its backbone does not fit this recipe's network" in only_error(done)


def test_a_recipe_that_watches_scored_images_gets_their_neighbours(train, digits_200, tmp_path):
    """Labels are no part of it: the test split's labels may be anything."""
    data = open_prepared(digits_200)
    files = {}
    for name, splits in (("neighbours", ["train", "test"]), ("watched", ["test"])):
        rows, files[name] = data.rows(splits), tmp_path / f"{name}.npz"
        near = (np.arange(len(rows))[:, None] + np.arange(3)) % len(rows)
        np.savez(files[name], neighbours=near.astype(np.int32), rows=rows)
        records = {"prepare": data.card["record"]}
        records["mine"] = {"fingerprint": name * 2, "files": hashes(files[name])}
        write_json(files[name].with_suffix(".json"), {"records": records})
    assert train(digits_200, small("simclr_base", schedule={"epochs": 1}), tmp_path / "base").returncode == 0
    base = ("--base", tmp_path / "base" / "model.pt", "--neighbours", files["neighbours"])
    changes = {"batch_size": 64, "network": {"widths": [8, 16]}, "schedule": {"epochs": 3}}
    recipe = canonical_json(resolve("scan-test_unsup", "digits_200", {"*": changes}))
    assert "needs watched: give their file as --watched" in only_error(train(digits_200, recipe, tmp_path / "x", *base))
    done = train(digits_200, recipe, tmp_path / "scan", *base, "--watched", files["watched"])
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "scan" / "train.json").read_text())["records"]["train"]
    assert record["inputs"]["watched"] == "watchedwatched"
    assert record["settings"]["protocol"]["score"] == ["test"]
    with open(tmp_path / "scan" / "history.csv", newline="") as file:
        losses = [float(row["watched_loss"]) for row in csv.DictReader(file)]
    assert losses == sorted(losses, reverse=True)
    wrong = train(digits_200, recipe, tmp_path / "x", *base, "--watched", files["neighbours"])
    assert "this run uses" in only_error(wrong)


def test_embedding_holds_two_views_of_some_images(train, digits_200, tmp_path, monkeypatch):
    import numpy as np

    from training import embed

    assert train(digits_200, small("simclr_base"), tmp_path).returncode == 0
    monkeypatch.setattr(embed, "VIEWS", 50)
    words = ["embed", "--data", digits_200, "--model", tmp_path / "model.pt", "--out", tmp_path, "--device", "cpu"]
    monkeypatch.setattr(sys, "argv", list(map(str, words)))
    embed.main()
    records = json.loads((tmp_path / "features.json").read_text())["records"]
    assert records["embed"]["backbone"] == records["train"]["backbone"]
    with np.load(tmp_path / "features.npz") as stored:
        found = {name: stored[name] for name in stored.files}
    assert set(found) == {"h", "z", "view1_z", "view2_z"}
    assert found["view1_z"].shape == (50, found["z"].shape[1])
    unit = {name: z / np.linalg.norm(z, axis=1, keepdims=True) for name, z in found.items()}
    assert not np.allclose(unit["view1_z"], unit["view2_z"])
    paired = (unit["view1_z"] * unit["view2_z"]).sum(1).mean()
    assert paired > (unit["view1_z"] * np.roll(unit["view2_z"], 1, axis=0)).sum(1).mean()  # rows belong together
