"""The list of mutants fits the code as it is now; whether tests catch them is what `python -m tests.mutants` finds."""

import ast

import pytest
import yaml

from tests.conftest import ROOT
from tests.mutants.catalogue import MUTANTS


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutants_old_text_stands_once_and_the_new_one_compiles(name):
    mutant = MUTANTS[name]
    text = (ROOT / mutant.file).read_text(encoding="utf-8")
    assert text.count(mutant.old) == 1
    changed = text.replace(mutant.old, mutant.new)
    if mutant.file.endswith(".py"):
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(text))
    else:
        assert yaml.safe_load(changed) != yaml.safe_load(text)


def test_every_mutant_that_can_be_caught_has_a_test_that_exists():
    assert sum(not mutant.equivalent for mutant in MUTANTS.values()) >= 80
    for mutant in MUTANTS.values():
        there = [test for test in mutant.tests if (ROOT / test.partition("::")[0]).exists()]
        assert there, mutant.name
