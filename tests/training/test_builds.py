"""Every recipe on every data set of every suite: it resolves, builds, and takes up the weights of its base."""

import json

import pytest
import torch

from methods.method import DataFacts, build_method
from pipeline import catalogue, recipes
from tests.suites import SUITES, plan_of
from training.optimisers import build_optimiser, schedule
from training.weights import inherit


def facts(dataset):
    spec = catalogue.entry("data set", dataset)
    return DataFacts(spec["classes"], tuple(spec["shape"]), sum(spec["splits"].values()))


@pytest.fixture(scope="module")
def built():
    """Built methods by (data set, recipe as JSON), on the meta device: shapes without memory."""
    return {}


def build(built, recipe, dataset):
    key = (dataset, json.dumps(recipe, sort_keys=True))
    if key not in built:
        with torch.device("meta"):
            built[key] = build_method(recipe, facts(dataset))
    return built[key]


@pytest.mark.parametrize("suite", SUITES)
def test_every_recipe_of_every_suite_builds_and_fits_its_base(suite, built):
    plan, seen, failed = plan_of(suite), set(), {}
    for run in plan.runs.all():
        key = (run.dataset, json.dumps(plan.runs.recipe(run), sort_keys=True))
        if key in seen:
            continue
        seen.add(key)
        try:
            fits(plan, run, built)
        except Exception as problem:  # every one that fails is told of
            failed[f"{run.dataset}/{run.recipe}"] = repr(problem)
    assert not failed
    assert seen


def fits(plan, run, built):
    recipe = plan.runs.recipe(run)
    method = build(built, recipe, run.dataset)
    assert set(recipe["weights"]) == set(method.terms)
    if recipe["schedule"]["epochs"]:
        build_optimiser(recipe["optimiser"], method)
        assert schedule(recipe["schedule"], 10)(0) > 0
    base = plan.runs.base(run)
    if base is not None:
        weights = build(built, plan.runs.recipe(base), base.dataset).state_dict()
        inherit(method, weights, f"base of {run.recipe}")


def test_split_and_plain_batch_norm_take_up_each_other():
    """finetune-moco and cdc_selflabel: split statistics become their mean; plain ones go to every part."""
    split = recipes.resolve("moco_base", "digits")
    plain = recipes.resolve("finetune-moco", "digits")
    torch.manual_seed(0)
    base = build_method(split, facts("digits"))
    for name, buffer in base.backbone.named_buffers():
        if name.endswith(("running_mean", "running_var")):
            buffer.copy_(torch.rand_like(buffer))
    method = build_method(plain, facts("digits"))
    inherit(method, base.state_dict(), "base")
    x = torch.randn(5, 1, 8, 8)
    assert torch.allclose(method.eval().backbone(x), base.eval().backbone(x), atol=1e-6)
    back = build_method(split, facts("digits"))
    inherit(back, method.state_dict(), "base")
    assert torch.allclose(back.eval().backbone(x), method.backbone(x), atol=1e-6)
