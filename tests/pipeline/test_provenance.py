import json
import subprocess
import sys

import pytest

from pipeline import provenance
from pipeline.provenance import PACKAGES, code_version, fingerprint, sources
from pipeline.recipes import method_names
from pipeline.wings import wing_modules
from tests.conftest import ROOT

ROOTS = [
    ("preparation.prepare",),
    ("training.train", *(f"methods.{name}" for name in method_names())),
    ("training.embed", "methods.mixem"),
    *(("evaluation.assign", module) for module in wing_modules("assigner")),
    ("evaluation.evaluate", *wing_modules("metric")),
    *(("evaluation.evaluate", module) for module in wing_modules("probe")),
    *(("report.plot", module) for module in wing_modules("figure")),
    ("report.tabulate",),
    ("report.page",),
    ("report.collect",),
    ("report.selection",),
    ("report.track",),
]


# One process that has the libraries loaded, and for each line of roots a fork that has nothing of the project yet.
LOADER = """
import importlib, json, os, sys
import training.fabric, scipy.optimize, scipy.sparse.linalg, sklearn.cluster, sklearn.manifold, sklearn.mixture
import sklearn.svm, matplotlib.pyplot, yaml, jsonschema, jinja2
for name in [name for name in sys.modules if name.partition(".")[0] in PACKAGES]:
    del sys.modules[name]
for line in sys.stdin:
    if os.fork():
        os.wait()
        continue
    try:
        roots = json.loads(line)
        for name in roots:
            importlib.import_module(name)
        if "report.track" in roots:
            import report.tracking
        print(json.dumps([name for name in sys.modules if name.partition(".")[0] in PACKAGES]))
    except BaseException as problem:
        print(json.dumps(repr(problem)))
    sys.stdout.flush()
    os._exit(0)
"""


@pytest.fixture(scope="module")
def loaded():
    """Roots -> the modules of the project that Python really loads for them."""
    code = f"PACKAGES = {PACKAGES!r}\n{LOADER}"
    lines = "".join(f"{json.dumps(roots)}\n" for roots in ROOTS)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, input=lines, capture_output=True, text=True, check=True
    )
    return dict(zip(ROOTS, map(json.loads, done.stdout.splitlines()), strict=True))


@pytest.mark.parametrize("roots", ROOTS, ids=lambda roots: roots[-1])
def test_every_project_module_a_stage_loads_is_in_its_hash(loaded, roots):
    """The one defence against a dynamic import that no rule names: compare with what Python really loads."""
    assert isinstance(loaded[roots], list), loaded[roots]
    assert set(loaded[roots]) <= {name for name, _ in sources(*roots)}
    assert set(roots) <= set(loaded[roots])


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A small project: methods.one imports methods.block; methods.two stands alone."""
    (tmp_path / "methods").mkdir()
    files = {
        "__init__": "",
        "block": '"""Doc."""\nX = 1\n',
        "one": 'from methods.block import X\n\ndef f():\n    """Doc."""\n    return X\n',
        "two": "from . import __name__ as n\n",
    }
    for name, text in files.items():
        (tmp_path / "methods" / f"{name}.py").write_text(text)
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    return tmp_path / "methods"


def test_an_edit_counts_where_it_is_imported(tree):
    one, two = code_version("methods.one"), code_version("methods.two")
    (tree / "block.py").write_text("X = 2\n")
    assert code_version("methods.one") != one
    assert code_version("methods.two") == two


def test_comments_docstrings_layout_and_times_do_not_count(tree):
    before = code_version("methods.one")
    (tree / "block.py").write_text('"""Other."""\n# comment\nX   =   1\n')
    (tree / "one.py").write_text("from methods.block import X\ndef f():\n    return X  # why\n")
    assert code_version("methods.one") == before


def test_relative_imports_and_package_files_count(tree):
    (tree / "three.py").write_text("from .block import X\n")
    assert {name for name, _ in sources("methods.three")} == {"methods", "methods.block", "methods.three"}


def test_an_unknown_module_is_an_error(tree):
    with pytest.raises(ValueError, match=r"no module 'methods\.four'"):
        code_version("methods.four")


def test_fingerprints_ignore_key_order_only():
    assert fingerprint(a=1, b={"x": 1, "y": 2}) == fingerprint(b={"y": 2, "x": 1}, a=1)
    assert fingerprint(a=[1, 2]) != fingerprint(a=[2, 1])


def test_package_files_are_empty():
    wings = ("evaluation/assigners", "evaluation/probes", "evaluation/metrics", "report/figures")
    for package in ("pipeline", "methods/blocks", *wings, *PACKAGES):
        assert (ROOT / package / "__init__.py").read_text() == ""


# Downwards only: what each layer may import. A figure's accuracy is the table's: report may use evaluation's formulas.
LAYERS = {
    "pipeline": ("pipeline",),
    "preparation": ("pipeline", "preparation"),
    "methods.blocks": ("pipeline", "preparation", "methods.blocks"),
    "methods": ("pipeline", "preparation", "methods.blocks", "methods"),
    "training": ("pipeline", "preparation", "methods.blocks", "methods", "training"),
    "evaluation": ("pipeline", "preparation", "methods.blocks", "evaluation"),
    "report": ("pipeline", "preparation", "evaluation", "report"),
}


def layer(module):
    return "methods.blocks" if f"{module}.".startswith("methods.blocks.") else module.partition(".")[0]


def test_imports_go_one_way():
    for package in LAYERS:
        for path in (ROOT / package.partition(".")[0]).rglob("*.py"):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            for target in provenance._imports(module, path):
                if layer(target) in LAYERS:
                    assert layer(target) in LAYERS[layer(module)], f"{module} imports {target}"


def test_no_circle_among_modules():
    """A module never imports, by whatever way, one that imports it; imports inside functions count."""
    imports = {}
    for package in {name.partition(".")[0] for name in LAYERS}:
        for path in (ROOT / package).rglob("*.py"):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            imports[module] = set(provenance._imports(module, path)) - {module}
    done: set[str] = set()

    def visit(module, above):
        assert module not in above, f"a circle: {' -> '.join([*above, module])}"
        if module not in done:
            for target in imports[module] & imports.keys():
                visit(target, (*above, module))
            done.add(module)

    for module in imports:
        visit(module, ())
