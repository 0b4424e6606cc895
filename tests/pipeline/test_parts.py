"""Suites of parts: each table as its part states it, whichever way it is asked for."""

import functools
from pathlib import Path

import pytest
import yaml

from pipeline import catalogue, parts, suites
from pipeline.naming import ConfigError
from pipeline.plan import Plan
from tests.suites import plans

WHOLE = {"suite": "both", "results": "results/both", "seeds": [0, 1, 2], "tables": [], "parts": ["one", "two"]}
ONE = {"suite": "one", "results": "results/both", "datasets": ["digits_200"], "protocols": ["full"], "seeds": [0, 1],
       "tables": ["table1"], "of_tables": {"table1": {"path": "one/table1"}}}  # fmt: skip
TWO = {"suite": "two", "results": "results/both", "datasets": ["usps"], "protocols": ["split"], "seeds": [0],
       "tables": ["table3"], "figures": ["digits_history"]}  # fmt: skip
LITTLE = {"overrides": {"*": {"batch_size": 64}}}


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Suites of parts below own/: own(one={...}) lays keys over a suite; the configuration of the whole."""
    monkeypatch.setattr(catalogue, "OWN", tmp_path / "own")
    (tmp_path / "own/suites").mkdir(parents=True)

    def write(whole=None, one=None, two=None):
        for name, suite in {"both": WHOLE | (whole or {}), "one": ONE | (one or {}), "two": TWO | (two or {})}.items():
            (tmp_path / f"own/suites/{name}.yaml").write_text(yaml.safe_dump(suite))
        return lambda name, **given: suites.configuration(suites.suite_file(name), given)

    return write


def test_each_table_has_what_its_part_states(own):
    config = own()
    plan = Plan(config("both", **LITTLE))
    assert list(plan.tables) == ["table1", "table3"]
    assert plan.config["figures"] == ["digits_history"]
    runs = {(run.dataset, run.protocol, run.seed) for run in plan.runs.all()}
    assert runs == {("digits_200", "full", 0), ("digits_200", "full", 1), ("usps", "split", 0)}
    assert plan.paths == {"table1": "results/both/one/table1", "table3": "results/both/table3"}
    assert next(of.run.path for of in plan.figures.shown("digits_history")).startswith("runs/usps/split/")


def test_a_part_alone_makes_the_same_tables_and_keeps_what_is_its_own_apart(own):
    config = own()
    whole = Plan(config("both", **LITTLE))
    for name, table in (("one", "table1"), ("two", "table3")):
        part = Plan(config(name, **LITTLE))
        assert part.paths[table] == whole.paths[table]
        assert set(part.runs.of_row(part.tables[table], part.tables[table]["rows"][0])) == set(
            whole.runs.of_row(whole.tables[table], whole.tables[table]["rows"][0])
        )
        assert part.place == f"results/both/{name}"
    assert whole.place == "results/both"
    assert Plan(config("one", datasets=["digits"], **LITTLE)).place == "results/both/one/digits"


def test_a_chosen_table_keeps_what_its_part_states(own):
    config = own()
    plan = Plan(config("both", tables=["table3"], seeds=[7, 8], **LITTLE))
    assert (list(plan.tables), plan.config["figures"]) == (["table3"], [])
    assert {(run.dataset, run.seed) for run in plan.runs.all()} == {("usps", 7)}


def test_a_configuration_that_is_whole_stays_so(own):
    found = parts.whole(own()("both"))
    assert parts.whole(found) == found
    assert parts.whole({"tables": ["table1"]}) == {"tables": ["table1"]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"two": {"tables": ["table1"]}}, "suite 'two': tables: 'table1' is that of another part"),
        ({"one": {"suite": "eins"}}, "suite: 'eins' found; a part is named as its file, 'one'"),
        ({"one": {"overrides": {"cdc": {"batch_size": 3}}}}, "a part shares its runs with the others"),
        ({"one": {"parts": ["two"]}}, "a part has none of its own"),
        ({"whole": {"parts": ["one", "tow"]}}, "unknown suite in parts 'tow'; did you mean 'two'"),
        ({"whole": {"parts": "one"}}, "parts: 'one' found; a list of suites"),
        ({"whole": {"of_tables": {"tabel1": {"seeds": 1}}}}, "unknown table in of_tables 'tabel1'"),
        ({"whole": {"of_tables": {"table1": {"seeds": 0}}}}, "0 is less than the minimum of 1"),
        ({"whole": {"of_tables": {"table1": {"seed": 1}}}}, "unknown key 'seed'; did you mean 'seeds'"),
    ],
)
def test_parts_that_cannot_be_are_named(own, changes, message):
    config = own(**changes)
    with pytest.raises(ConfigError, match=message):
        Plan(config("both", **LITTLE))


def test_data_sets_given_to_a_whole_are_refused(own):
    with pytest.raises(ConfigError, match=r"suite 'both': datasets: its parts have their own"):
        Plan(own()("both", datasets=["usps"], **LITTLE))


@functools.cache
def paper():
    return plans()["paper"]


def test_the_papers_make_every_table_and_figure_of_their_own():
    """All that config/ has, but for tables at another scale."""
    others = {"digits_all", "digits_probes", "digits_selection", "pixels", "pcl_cpu", "uniclr_cpu"}
    others |= {"photographs", "photographs_imagenette"}
    assert set(paper().tables) == set(catalogue.names("table")) - others
    of_papers = {name for name in catalogue.names("figure") if name.startswith(("cdc", "dcrl"))}
    assert set(paper().config["figures"]) == of_papers
    assert all(path.split("/")[2] in paper().config["parts"] for path in paper().paths.values())


def test_parts_and_whole_of_the_papers_agree():
    made = [(name, plans()[name]) for name in paper().config["parts"]]
    assert sorted(table for _, plan in made for table in plan.tables) == sorted(paper().tables)
    for name, plan in made:
        assert plan.place == f"results/paper/{name}"
        for table in plan.tables:
            assert plan.paths[table] == paper().paths[table]
            assert plan.table_metrics(table) == paper().table_metrics(table)


def test_every_table_and_figure_target_of_every_suite_plans():
    """The files behind each target, every one below the suite's results folder."""
    for plan in plans().values():
        for name in plan.tables:
            assert all(Path(file).is_relative_to(plan.results) for file in plan.table_metrics(name))
        for name in plan.config["figures"]:
            files = plan.figure_files(name)
            assert files
            assert all(Path(file).is_relative_to(plan.results) for file in files)
