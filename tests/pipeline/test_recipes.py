import dataclasses
import importlib
import json

import pytest

from methods.method import load_method
from pipeline import catalogue, recipes
from pipeline.catalogue import ConfigError


@pytest.mark.parametrize("name", recipes.names())
@pytest.mark.parametrize("dataset", ["digits", "mnist"])
def test_every_recipe_and_variant_resolves(name, dataset):
    resolved = recipes.resolve(name, dataset)
    assert recipes.resolve_or_json(json.dumps(resolved), dataset) == resolved
    if resolved["base"]:
        # A base may have been trained on another data set: then its network is the one for that.
        base = recipes.resolve(resolved["base"]["recipe"], resolved["base"].get("dataset", dataset))
        assert base["network"] == resolved["network"]


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
    (folder / "fragments" / "low.yaml").write_text("batch_size: 1\nprecision: '32'\naugmentation: {}\n")
    (folder / "mine.yaml").write_text(
        """
extends: low
method: untrained
base: null
network: {backbone: none}
optimiser: {name: sgd, lr: 1, weight_decay: 0}
schedule: {name: constant, epochs: 0}
batch_size: 2
weights: {}
settings: {}
per_dataset: {digits: {batch_size: 3}}
variants: {wide: {batch_size: 4, per_dataset: {digits: {batch_size: 5}}}}
"""
    )
    for place in ("schemas", "datasets"):
        (tmp_path / place).symlink_to(catalogue.CONFIG / place)
    monkeypatch.setattr(catalogue, "CONFIG", tmp_path)
    assert recipes.resolve("mine", "mnist")["batch_size"] == 2
    assert recipes.resolve("mine", "digits")["batch_size"] == 3
    assert recipes.resolve("mine-wide", "mnist")["batch_size"] == 4
    assert recipes.resolve("mine-wide", "digits")["batch_size"] == 5
    assert recipes.resolve("mine-wide", "digits", {"batch_size": 6})["batch_size"] == 6
    assert recipes.names() == ["mine", "mine-wide"]
    (folder / "fragments" / "low.yaml").write_text("extends: mine\n")
    with pytest.raises(ConfigError, match="extends itself through mine -> low -> mine"):
        recipes.resolve("mine", "digits")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"batchsize": 3}, "unknown key 'batchsize'; did you mean 'batch_size'"),
        ({"optimiser": {"learning_rate": 1}}, "unknown key 'learning_rate'"),
        ({"weights": {"comp_entropy": 1}}, "weights: unknown key 'comp_entropy'; did you mean 'comp_ent'"),
        ({"settings": {"temprature": 1}}, "settings: unknown key 'temprature'; did you mean 'temperature'"),
        ({"settings": {"follow": "text"}}, r"settings.follow: 'text' found, Literal\['code', 'paper'\] expected"),
        ({"settings": {"embedding": 3.5}}, "settings.embedding: 3.5 found, int expected"),
        ({"settings": {"embedding": True}}, "settings.embedding: True found, int expected"),
        ({"schedule": {"epochs": -1}}, "-1 is less than the minimum of 0"),
        ({"method": "mixm"}, "unknown method 'mixm'; did you mean 'mixem'"),
        ({"batch_size": 0}, "0 is less than the minimum of 1"),
    ],
)
def test_bad_recipes_are_named(overrides, message):
    with pytest.raises(ConfigError, match=message):
        recipes.resolve("mixem", "digits", overrides)


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
