import contextlib
import dataclasses
import importlib
import json
import re

import pytest

from methods.method import load_method
from pipeline import catalogue, recipes
from pipeline.naming import ConfigError

DATASETS = catalogue.names("data set")


def supported(name):
    """The data sets on which a recipe has settings, and those on which it is refused."""
    yes, no = [], []
    for dataset in DATASETS:
        try:
            yes.append((dataset, recipes.resolve(name, dataset)))
        except ConfigError as problem:
            no.append((dataset, str(problem)))
    return yes, no


@pytest.mark.parametrize("name", recipes.names())
def test_every_recipe_resolves_or_is_refused_by_name(name):
    yes, no = supported(name)
    assert yes, f"{name} serves no data set at all"
    for dataset, resolved in yes:
        assert recipes.resolve_or_json(json.dumps(resolved), dataset) == resolved
        if resolved["base"]:
            # A base may have been trained on another data set: then its network is the one for that.
            base = recipes.resolve(resolved["base"]["recipe"], resolved["base"].get("dataset", dataset))
            assert recipes.architecture(base) == recipes.architecture(resolved)
    for _, message in no:
        assert "has no settings for data set" in message
        assert "in config/recipes/" in message


@pytest.mark.parametrize("dataset", DATASETS)
def test_no_value_of_digits_falls_through_to_other_data(dataset):
    """Views and networks of small grey digits never serve photographs or vectors, in any recipe."""
    family = catalogue.entry("data set", dataset)["family"]
    if family in ("digits", "grey16", "grey28"):
        return
    for name in recipes.names():
        with contextlib.suppress(ConfigError):
            resolved = recipes.resolve(name, dataset)
            assert not {"affine", "noise"} & set(resolved["augmentation"]), name
            assert resolved["network"]["backbone"] != "convnet", name
            assert resolved["optimiser"] != catalogue.entry("family", "digits")["optimiser"], name


def test_views_of_scan_are_the_papers_and_nothing_else():
    """Released configurations: strong augmentation and a flip, no colour jitter besides; the weak views on ImageNet."""
    strong = {"flip": {"probability": 0.5}, "strong": {"operations": 4}}
    for name in ("scan", "selflabel", "cdc_selflabel"):
        assert recipes.resolve(name, "cifar10")["augmentation"] == strong | {"cutout": {"side": 16}}
        assert recipes.resolve(name, "stl10")["augmentation"] == strong | {"cutout": {"side": 32}}
    for name in ("selflabel", "cdc_selflabel"):
        assert recipes.resolve(name, "imagenet50")["augmentation"] == strong | {"cutout": {"side": 75}}
    assert set(recipes.resolve("scan", "imagenet50")["augmentation"]) == {"crop", "flip", "jitter", "grey"}


@pytest.mark.parametrize(
    ("name", "dataset", "expected"),
    [
        ("simclr_base", "cifar100", {"backbone": "resnet18", "stem": "cifar"}),
        ("mixem", "stl10", {"backbone": "resnet18", "stem": "imagenet"}),  # MIX'EM's own stem, from its base
        ("scan", "stl10", {"backbone": "resnet18", "stem": "imagenet"}),  # that of the base it starts from
        ("cdc", "stl10", {"backbone": "resnet18", "stem": "stl_scan", "split_batch_norm": 8}),
        ("cdc_selflabel", "stl10", {"backbone": "resnet18", "stem": "stl_scan"}),
        ("untrained", "imagenet100", {"backbone": "resnet50", "stem": "imagenet"}),
        ("finetune-moco", "imagenet1k", {"backbone": "resnet50", "stem": "imagenet"}),
        ("transfer", "voc07", {"backbone": "resnet50", "stem": "imagenet"}),
        ("mixem", "usps", {"backbone": "convnet", "widths": [16, 32, 64, 64], "pool_after": [0, 2]}),
        ("dec", "digits", {"backbone": "mlp", "widths": [500, 500, 500, 2000, 10]}),
    ],
)
def test_networks_by_family(name, dataset, expected):
    assert recipes.resolve(name, dataset)["network"] == expected


def test_a_family_without_settings_is_refused_with_the_file_to_write():
    with pytest.raises(
        ConfigError, match=r"'mixem' has no settings .* \(family 'vectors'\).*config/recipes/mixem.yaml"
    ):
        recipes.resolve("mixem", "pendigits")
    with pytest.raises(ConfigError, match="has no settings for data set 'imagenet100'"):
        recipes.resolve("swav", "imagenet100")  # withdrawn: the file that it extends has settings there


def test_a_network_unlike_the_base_s_is_refused():
    wide = {"mixem": {"network": {"widths": [64, 64]}}}
    with pytest.raises(ConfigError, match=r"network.widths: \[64, 64\], but the base 'simclr_base' has"):
        recipes.resolve("mixem", "digits", wide)
    both = {"simclr_base": {"network": {"widths": [8, 8]}}}
    assert recipes.resolve("mixem", "digits", both)["network"]["widths"] == [8, 8]


def test_every_preset_is_used_and_none_is_written_twice():
    presets = {name: catalogue.entry("augmentation", name) for name in catalogue.names("augmentation")}
    assert len({json.dumps(content, sort_keys=True) for content in presets.values()}) == len(presets)
    text = "".join(
        path.read_text() for folder in ("recipes", "families") for path in (catalogue.CONFIG / folder).rglob("*.yaml")
    )
    for name in presets:
        assert re.search(rf"(augmentation|preset): {name}\b", text), f"no recipe or family uses {name}"
    assert "affine: null" not in text


def test_presets_are_taken_whole_and_changed_by_name():
    plain = recipes.resolve("moco_base", "imagenet100")["augmentation"]
    assert plain == catalogue.entry("augmentation", "moco_v2")
    changed = recipes.resolve("moco_base", "cifar10")["augmentation"]
    assert changed["crop"] == {**plain["crop"], "scale": [0.08, 1.0]}
    assert "blur" not in changed
    overrides = {"moco_base": {"augmentation": {"jitter": None, "grey": {"probability": 0.5}}}}
    partly = recipes.resolve("moco_base", "cifar10", overrides)["augmentation"]
    assert set(partly) == {"crop", "flip", "grey"}
    assert partly["grey"] == {"probability": 0.5}
    with pytest.raises(ConfigError, match="unknown augmentation in the overrides 'moco_v3'; did you mean 'moco_v"):
        recipes.resolve("moco_base", "cifar10", {"*": {"augmentation": "moco_v3"}})


@pytest.mark.parametrize("name", recipes.method_names())
def test_signature_read_from_source_is_the_class_s(name):
    declared, kind = recipes.signature(name), load_method(name)
    settings = getattr(importlib.import_module(f"methods.{name}"), "Settings", None)
    assert list(declared.settings) == ([field.name for field in dataclasses.fields(settings)] if settings else [])
    assert tuple(declared.literals.get("terms", ())) == tuple(kind.terms)
    for flag in ("uses_labels", "uses_neighbours"):
        assert declared.literals.get(flag, False) == getattr(kind, flag)


def test_layers_in_order(tmp_path, monkeypatch):
    folder = tmp_path / "recipes"
    (folder / "fragments").mkdir(parents=True)
    (folder / "fragments" / "low.yaml").write_text("batch_size: 1\nfamilies: {digits: {batch_size: 2}}\n")
    (folder / "mine.yaml").write_text(
        """
extends: low
method: untrained
base: null
schedule: {name: constant, epochs: 0}
optimiser: {lr: 0.5}
weights: {}
settings: {}
families: {digits: {batch_size: 3}, grey28: {}}
datasets: {digits: {batch_size: 4}, usps: {batch_size: 9}}
variants:
  wide: {batch_size: 5, families: {digits: {batch_size: 6}}, datasets: {digits: {batch_size: 7}}}
  half: {families: {digits: {batch_size: 6}}}
"""
    )
    for place in ("schemas", "datasets", "families", "augmentations"):
        (tmp_path / place).symlink_to(catalogue.CONFIG / place)
    monkeypatch.setattr(catalogue, "CONFIG", tmp_path)
    size = lambda *words: recipes.resolve(*words)["batch_size"]  # noqa: E731
    assert size("mine", "mnist") == 1  # the fragment's word for all lies over the family's default
    assert size("mine", "digits_200") == 3  # the recipe's family over the fragment's
    assert size("mine", "digits") == 4  # the data set over the family
    assert size("mine", "usps") == 9  # of a family that is not listed, but by its own name
    assert size("mine-wide", "mnist") == 5
    assert size("mine-half", "digits_200") == 6
    assert size("mine-wide", "digits") == 7
    assert size("mine-wide", "digits", {"*": {"batch_size": 8}}) == 8
    assert size("mine-wide", "digits", {"mine": {"batch_size": 9}, "*": {"batch_size": 8}}) == 9
    assert size("mine-wide", "digits", {"mine-wide": {"batch_size": 10}, "mine": {"batch_size": 9}}) == 10
    assert recipes.resolve("mine", "mnist")["optimiser"] == {"name": "adam", "lr": 0.5, "weight_decay": 1e-5}
    assert recipes.names() == ["mine", "mine-wide", "mine-half"]
    (folder / "fragments" / "low.yaml").write_text("extends: mine\nfamilies: {}\n")
    with pytest.raises(ConfigError, match="extends itself through mine -> low -> mine"):
        recipes.resolve("mine", "digits")


def test_a_named_optimiser_or_schedule_comes_whole():
    optimiser = recipes.resolve("scan", "cifar10")["optimiser"]
    assert optimiser == {"name": "adam", "lr": 1e-4, "weight_decay": 1e-4}  # no momentum of the family's SGD
    assert recipes.resolve("scan", "cifar10")["schedule"] == {"name": "constant", "epochs": 50}


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"batchsize": 3}, "unknown key 'batchsize'; did you mean 'batch_size'"),
        ({"optimiser": {"learning_rate": 1}}, "unknown key 'learning_rate'"),
        ({"weights": {"comp_entropy": 1}}, "weights: unknown key 'comp_entropy'; did you mean 'comp_ent'"),
        ({"settings": {"temprature": 1}}, "settings: unknown key 'temprature'; did you mean 'temperature'"),
        ({"settings": {"follow": "text"}}, r"settings.follow: 'text' found, Literal\[.*\] expected"),
        ({"settings": {"embedding": 3.5}}, "settings.embedding: 3.5 found, int expected"),
        ({"settings": {"embedding": True}}, "settings.embedding: True found, int expected"),
        ({"schedule": {"epochs": -1}}, "-1 is less than the minimum of 0"),
        ({"method": "mixm"}, "unknown method 'mixm'; did you mean 'mixem'"),
        ({"batch_size": 0}, "0 is less than the minimum of 1"),
    ],
)
def test_bad_recipes_are_named(overrides, message):
    with pytest.raises(ConfigError, match=message):
        recipes.resolve("mixem", "digits", {"mixem": overrides})


@pytest.mark.parametrize(
    ("name", "message"), [("mixen", "did you mean 'mixem'"), ("mixem-papr", "did you mean 'paper'")]
)
def test_unknown_names(name, message):
    with pytest.raises(ConfigError, match=message):
        recipes.resolve(name, "digits")


def test_a_missing_setting_is_named(monkeypatch):
    resolved = recipes.resolve("mixem", "digits")
    del resolved["settings"]["temperature"]
    with pytest.raises(ConfigError, match="settings: 'temperature' is missing"):
        recipes.resolve_or_json(json.dumps(resolved), "digits")
