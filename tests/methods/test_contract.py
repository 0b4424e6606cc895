"""What the docstring of `methods.method.Method` promises, checked for every method there is."""

import ast
import copy
import dataclasses
import doctest
import importlib
import inspect
import math

import pytest
import torch

import methods.method
from methods.method import Batch, Context, DataFacts, Method, build_method, load_method
from pipeline.recipes import METHODS, method_names, resolve

ROWS, BATCH, CLASSES = 48, 16, 10
GENERATOR = torch.Generator().manual_seed(0)
X, Y = torch.rand(ROWS, 1, 8, 8, generator=GENERATOR), torch.arange(ROWS) % CLASSES
SETTINGS = {  # what the recipe's own value does not suit: few rows, small batches, parts that a recipe leaves off
    "barlow_twins": {"hidden": 12, "embedding": 6},
    "byol": {"hidden": 12, "embedding": 6},
    "cdc": {"queue": 20, "threshold": 0.11},
    "cdc_selflabel": {"ema": 0.9, "threshold": 0.11},
    "co2": {"queue": 20},
    "dcrl": {"start_epoch": 0, "ramp_epochs": 2, "init_rows": 40},
    "dec": {"interval": 3},
    "deepcluster_v2": {"clusters": 6, "heads": 2},
    "jule": {"period": 1, "merged": 0.2, "margin": 2.0},  # random images: few are near enough to lose a small margin
    "localagg": {"background": 6, "clusters": 5, "clusterings": 2, "warmup_epochs": 1},
    "moco": {"queue": 20},
    "pcl": {"queue": 20, "clusters": [4, 8], "warmup_epochs": 0},
    "scan": {"heads": 2},
    "selflabel": {"ema": 0.9, "threshold": 0.11},
    "swav": {"prototypes": 6, "queue": 20, "queue_epoch": 0},
    "uniclr": {"widths": [16, 6], "ema": 0.9, "predictor": 8},
    "vicreg": {"hidden": 12, "embedding": 6},
    "wmse": {"hidden": 12, "embedding": 4, "slice_size": 8},
}
WIDTHS = {"convnet": [8, 16], "mlp": [16, 4]}
TRAINED = [name for name in method_names() if load_method(name).losses is not Method.losses]


def build(name: str, seed: int = 0) -> Method:
    recipe = resolve(name, "digits")
    widths = WIDTHS.get(recipe["network"]["backbone"])
    network = {"network": {"widths": widths}} if widths else {}
    recipe = resolve(name, "digits", {"*": network, name: {"settings": SETTINGS.get(name, {})}})
    recipe["weights"] = {term: weight or 1.0 for term, weight in recipe["weights"].items()}
    torch.manual_seed(seed)
    return build_method(recipe, DataFacts(CLASSES, (8, 8, 1), ROWS)).train()


def context(epoch: int, step: int = 0) -> Context:
    return Context(
        epoch,
        3,
        ROWS,
        lambda rows: X[rows],
        lambda *path: sum(map(ord, str(path))),
        step=step,
        steps=9,
        batch_size=BATCH,
    )


def batch(method: Method, epoch: int, step: int) -> Batch:
    index = (torch.arange(BATCH) * 5 + step * BATCH + epoch) % ROWS
    noise = torch.Generator().manual_seed(100 * epoch + step)
    views = [X[index] + 0.1 * torch.randn(BATCH, 1, 8, 8, generator=noise) for _ in range(method.views)]
    if not method.views:
        views = [X[index]]
    return Batch(
        views,
        index,
        labels=Y[index] if method.uses_labels else None,
        clean=X[index] if method.clean_view else None,
        partners=[X[(index + CLASSES) % ROWS]] if method.uses_neighbours else [],
    )


def train(method: Method, optimiser: torch.optim.Optimizer, steps: range) -> list[dict[str, float]]:
    """The loop's order of calls for steps numbered over epochs of three steps; statistics of the epochs that ended."""
    statistics = []
    for step in steps:
        epoch = step // 3
        if step % 3 == 0:
            torch.manual_seed(1000 + epoch)
            method.before_epoch(context(epoch))
            method.train()
        torch.manual_seed(step)
        method.before_step(context(epoch, step))
        terms = method(batch(method, epoch, step % 3))
        assert set(terms) <= set(method.terms)
        assert all(value.ndim == 0 and torch.isfinite(value) for value in terms.values())
        optimiser.zero_grad()
        sum(method.weight(name) * value for name, value in terms.items()).backward()
        optimiser.step()
        method.after_step()
        if step % 3 == 2:
            torch.manual_seed(2000 + epoch)
            method.after_epoch(context(epoch))
            statistics.append(method.statistics())
    return statistics


def sgd(method: Method) -> torch.optim.Optimizer:
    return torch.optim.SGD([p for p in method.parameters() if p.requires_grad], 0.01, momentum=0.9)


@pytest.mark.parametrize("name", TRAINED)
def test_training_moves_weights_and_gives_numbers(name):
    method = build(name)
    before = copy.deepcopy(method.state_dict())
    statistics = train(method, sgd(method), range(3))
    moved = [
        key for key, value in method.backbone.state_dict().items() if not torch.equal(value, before[f"backbone.{key}"])
    ]
    assert moved
    assert all(isinstance(value, int | float) and math.isfinite(value) for value in statistics[0].values())
    assert set(method.chance(BATCH)) <= set(method.terms)
    assert all(value > 0 for value in method.chance(BATCH).values())
    assert isinstance(method.finished, bool)


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize("killed", [1, 2, 4])
def test_a_run_goes_on_exactly_from_its_state(name, killed):
    """Everything that changes in training is in the state: a method with other weights, given it, ends in the same."""
    one = build(name)
    optimiser = sgd(one)
    train(one, optimiser, range(killed))
    state, momenta = copy.deepcopy(one.state_dict()), copy.deepcopy(optimiser.state_dict())
    expected = train(one, optimiser, range(killed, 6))
    other = build(name, seed=1)
    other.load_state_dict(state)
    optimiser = sgd(other)
    optimiser.load_state_dict(momenta)
    assert train(other, optimiser, range(killed, 6)) == expected
    again = other.state_dict()
    for key, value in one.state_dict().items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(value, again[key]), key


@pytest.mark.parametrize("name", method_names())
def test_features_have_their_shapes_and_draw_nothing(name):
    method = build(name).eval()
    if name in TRAINED:
        train(method, sgd(method), range(3))
        method.eval()
    x, rng = X[:5], torch.get_rng_state()
    with torch.no_grad():
        features, again = method.features(x), method.features(x)
        rows = [method.features(row)["h"] for row in x.split(1)]
    assert torch.equal(torch.get_rng_state(), rng)
    assert features["h"].shape == (5, method.backbone.width)
    torch.testing.assert_close(features["h"], torch.cat(rows), rtol=1e-4, atol=1e-5)
    for key, values in features.items():
        assert values.ndim == 2
        assert len(values) == 5
        assert torch.equal(values, again[key])
    if "p" in features:
        torch.testing.assert_close(features["p"].sum(1), torch.ones(5))


@pytest.mark.parametrize("name", TRAINED)
def test_a_term_is_active_unless_its_weight_is_zero(name):
    method = build(name)
    assert all(method.active(term) for term in method.terms)
    method.weights = dict.fromkeys(method.terms, 0)
    assert not any(method.active(term) for term in method.terms)
    method.weights = {}
    assert all(method.weight(term) == 1 for term in method.terms)


@pytest.mark.parametrize("name", method_names())
def test_settings_are_a_frozen_dataclass_that_says_what_each_field_is(name):
    module = importlib.import_module(f"methods.{name}")
    method = build(name)
    if not hasattr(module, "Settings"):
        assert method.settings is None
        return
    assert isinstance(method.settings, module.Settings)
    fields = [field.name for field in dataclasses.fields(module.Settings)]
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(method.settings, fields[0], None)
    lines = inspect.getsource(module.Settings).splitlines()
    for field in fields:
        place = next(number for number, line in enumerate(lines) if line.strip().startswith(f"{field}:"))
        said = "#" in lines[place] or lines[place - 1].strip().startswith("#")
        assert said or field == "follow", field  # "paper" or "code": the file's docstring says where they differ


@pytest.mark.parametrize("name", method_names())
def test_no_method_imports_or_extends_another(name):
    assert load_method(name).__bases__ == (Method,)
    tree = ast.parse((METHODS / f"{name}.py").read_text(encoding="utf-8"))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    of_methods = {module for module in imported if module.split(".")[0] == "methods"}
    assert all(module == "methods.method" or module.startswith("methods.blocks.") for module in of_methods), of_methods


@pytest.mark.parametrize("name", method_names())
def test_constructors_call_their_parents_first(name):
    kind = load_method(name)
    if "__init__" not in vars(kind):
        return
    body = ast.parse(inspect.getsource(kind.__init__).replace("\n    ", "\n").lstrip()).body[0].body
    assert ast.unparse(body[0]) == "super().__init__(backbone, data, settings)"


def test_the_example_of_the_contract_runs():
    tested = doctest.testmod(methods.method)
    assert tested.attempted >= 5
    assert tested.failed == 0
