"""Files of config/recipes and config/families as they must not be: each refused by name, none ignored."""

import shutil

import pytest

from pipeline import catalogue, recipes
from pipeline.naming import ConfigError
from pipeline.plan import Plan


@pytest.fixture
def config(tmp_path, monkeypatch):
    """A copy of config/ to spoil: config(file, old, new)."""
    folder = tmp_path / "config"
    shutil.copytree(catalogue.CONFIG, folder)
    monkeypatch.setattr(catalogue, "CONFIG", folder)

    def spoil(file, old, new):
        path = folder / file
        text = path.read_text()
        assert old in text, "the edit found nothing to change"
        path.write_text(text.replace(old, new, 1))

    return spoil


MOCO, CIFAR = "recipes/moco_base.yaml", "families/cifar.yaml"


@pytest.mark.parametrize(
    ("file", "old", "new", "recipe", "dataset", "message"),
    [
        (MOCO, "variants:", "variant:", "moco_base", "digits", "unknown key 'variant'; did you mean 'variants'"),
        (MOCO, "families:", "familys:", "moco_base", "digits", "unknown key 'familys'; did you mean 'families'"),
        (MOCO, "imagenet: {sch", "imagenet: {shedule: {}, sch", "moco_base", "digits",
         "'shedule'; did you mean 'schedule'"),
        (MOCO, "imagenet: {sch", "imagenette: {sch", "moco_base", "digits",
         "unknown family in moco_base.yaml 'imagenette'"),
        (MOCO, "      cifar: {sch", "      cifra: {sch", "moco_base", "digits",
         "unknown family .* 'cifra'; did you mean 'cifar'"),
        (MOCO, "method: moco", "title: x\nmethod: moco", "moco_base", "digits", "unknown key 'title'"),
        (MOCO, "imagenet: {schedule: {epochs: 200}}", "imagenet: 5", "moco_base", "digits", "5 is not"),
        (MOCO, "imagenet: {sch", "imagenet: {augmentation: null, sch", "moco_base", "imagenet1k", "None is not"),
        (MOCO, "imagenet: {sch", "imagenet: {network: {stem: null}, sch", "moco_base", "imagenet1k",
         "'stem' is a required"),
        (MOCO, "extends: moco_keys", "extends: null", "moco_base", "digits", "None is not of type"),
        (CIFAR, "batch_size", "batch_sise", "moco_base", "cifar10",
         "unknown key 'batch_sise'; did you mean 'batch_size'"),
        (CIFAR, "per: epoch", "peer: epoch", "moco_base", "cifar10", "unknown key 'peer'; did you mean 'per'"),
        (CIFAR, "blur: null", "blurr: null", "moco_base", "cifar10", "in cifar.yaml: 'blurr'; did you mean 'blur'"),
        ("recipes/cdc.yaml", "split_batch_norm: null", "split_batchnorm: null", "cdc", "imagenet100",
         "'split_batchnorm'; did"),
        ("recipes/simclr_base.yaml", "base: null", "base: {recipe: simclr, protocol: same}", "simclr", "digits",
         "'simclr' starts from itself: simclr <- simclr_base <- simclr"),
        ("recipes/mixem.yaml", "serves: [digits", "serves: [digit", "mixem-paper", "digits",
         "'digit'; did you mean 'digits'"),
    ],
)  # fmt: skip
def test_a_spoilt_file_is_refused_by_name(config, file, old, new, recipe, dataset, message):
    config(file, old, new)
    with pytest.raises(ConfigError, match=message):
        recipes.resolve(recipe, dataset)


def test_an_empty_recipe_file_is_refused(config):
    (catalogue.CONFIG / "recipes" / "mine.yaml").write_text("")
    with pytest.raises(ConfigError, match=r"config/recipes/mine.yaml: None is not of type 'object'"):
        recipes.resolve("mine", "digits")
    assert "mine" in recipes.names()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"mixem": {"augmentation": {"nois": None}}}, "'nois'; did you mean 'noise'"),
        ({"*": {"network": {"bakbone": None}}}, "'bakbone'; did you mean 'backbone'"),
        ({"byol": {"batchsize": 3}}, "key of overrides.byol 'batchsize'; did you mean 'batch_size'"),
        ({"mixem": {"families": {}}}, "key of overrides.mixem 'families'"),
    ],
)
def test_overrides_that_would_do_nothing_are_refused(overrides, message):
    config = catalogue.read_yaml(catalogue.CONFIG / "config.yaml") | {"overrides": overrides, "tables": ["table2"]}
    with pytest.raises(ConfigError, match=message):
        Plan(config)


@pytest.mark.parametrize("dataset", ["digits", "usps", "pendigits", "fashion_mnist"])
def test_a_variant_serves_whom_it_names(dataset):
    with pytest.raises(ConfigError, match=r"'dcrl-ae_full' has no settings .*, only for mnist_test"):
        recipes.resolve("dcrl-ae_full", dataset)
    assert recipes.resolve("dcrl-ae_full", "mnist_test")["base"]["dataset"] == "mnist_full"
    with pytest.raises(ConfigError, match="'mixem-paper' has no settings for data set 'cifar10'"):
        recipes.resolve("mixem-paper", "cifar10")


def test_a_base_of_another_shape_is_refused():
    other = {"dcrl": {"base": {"dataset": "mnist_full"}}}
    with pytest.raises(
        ConfigError, match=r"trained on data set 'mnist_full' of shape \[28, 28, 1\], whose mlp does not fit"
    ):
        recipes.resolve("dcrl", "usps", other)
    grey = {"mixem": {"base": {"dataset": "mnist"}}}
    with pytest.raises(ConfigError, match="whose convnet does not fit 'cifar10'"):
        recipes.resolve("mixem", "cifar10", grey)


@pytest.mark.parametrize("dataset", ["cifar10", "stl10", "imagenet100", "imagenet1k"])
def test_sizes_of_heads_on_photographs_are_not_those_of_digits(dataset):
    """Every width and count that a recipe sets for digits differs on photographs, in every variant that serves them."""
    for name in recipes.names():
        try:
            here, small = recipes.resolve(name, dataset), recipes.resolve(name, "digits")
        except ConfigError:
            continue
        for key in ("widths", "predictor", "prototypes", "hidden", "bottleneck", "queue"):
            if small["settings"].get(key):
                assert here["settings"][key] != small["settings"][key], f"{name}: {key}"
