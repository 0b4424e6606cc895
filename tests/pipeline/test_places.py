"""Where tables go: no command writes over the tables of another suite, other data sets or other protocols."""

import json

import pytest
import yaml

from pipeline import catalogue, places
from pipeline.naming import ConfigError
from pipeline.plan import Plan
from pipeline.record import StageError

DEFAULT = {"suite": "default", "results": "results", "datasets": ["digits"], "protocols": ["full"], "overrides": {}}


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Writes a file below own/ and returns its path."""
    monkeypatch.setattr(catalogue, "OWN", tmp_path / "own")

    def write(below, **content):
        file = tmp_path / "own" / below
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(yaml.safe_dump(content))
        return file

    return write


@pytest.fixture
def loose(tmp_path):
    """Writes a suite that lies in no folder of suites."""

    def write(name, **content):
        file = tmp_path / f"{name}.yaml"
        file.write_text(yaml.safe_dump(content))
        return file

    return write


def given(file=None, **changes):
    """Configuration and files of a command: `--configfile file --config changes`."""
    stated = catalogue.read_yaml(catalogue.CONFIG / "config.yaml")
    stated |= catalogue.read_yaml(file) if file else {}
    return stated | changes, [file] if file else []


def folder(file=None, table=None, **changes):
    config, files = given(file, **changes)
    return places.folder(config, places.owner(config, files), table)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "results"),
        ({"seeds": [5]}, "results"),
        ({"datasets": ["mnist"]}, "results/mnist"),
        ({"datasets": ["digits", "mnist"]}, "results/digits+mnist"),
        ({"protocols": ["split"]}, "results/digits/split"),
        ({"protocols": ["full", "split"]}, "results/digits/full+split"),
        ({"datasets": ["mnist"], "protocols": ["split"]}, "results/mnist/split"),
    ],
)
def test_other_data_sets_and_protocols_show_in_the_path(changes, expected):
    assert folder(**changes) == expected


@pytest.mark.parametrize("suite", ["smoke", "dcrl_cpu"])
def test_a_suite_writes_to_the_top_of_its_own_folder(suite):
    file = catalogue.CONFIG / "suites" / f"{suite}.yaml"
    assert folder(file) == f"results/{suite}"
    assert folder(file, datasets=["stl10"]) == f"results/{suite}/stl10"


@pytest.mark.parametrize(
    ("table", "changes", "expected"),
    [
        ({"datasets": ["usps"]}, {"datasets": ["mnist"]}, "results"),
        ({"datasets": ["usps"]}, {"protocols": ["split"]}, "results/usps/split"),
        ({"protocols": ["split"]}, {"protocols": ["all"]}, "results"),
        ({"protocols": ["split"]}, {"datasets": ["mnist"], "protocols": ["all"]}, "results/mnist"),
        ({"datasets": ["usps"], "protocols": ["split"]}, {"datasets": ["mnist"], "protocols": ["all"]}, "results"),
    ],
)
def test_what_a_table_states_itself_has_no_part_in_its_path(table, changes, expected):
    assert folder(table=table, **changes) == expected


def test_names_that_are_too_long_for_a_folder_are_cut_and_stay_apart():
    many = [f"data_set_of_mine_{number}" for number in range(20)]
    first, second = folder(datasets=many), folder(datasets=many[::-1])
    assert first.startswith("results/data_set_of_mine_0+19-")
    assert len(first) < places.LONGEST
    assert first != second.replace("mine_19+", "mine_0+")


def test_two_suites_of_one_folder_never_share_a_table(own):
    """The one without a folder of its own writes below the other's."""
    first = own("suites/first.yaml", suite="first", results="results/both", datasets=["usps"])
    second = own("suites/second.yaml", suite="second", results="results/both", datasets=["mnist"])
    assert (folder(first), folder(second)) == ("results/both", "results/both/mnist")
    forgot = own("suites/forgot.yaml", suite="forgot", datasets=["mnist"])
    assert (folder(forgot), folder()) == ("results/mnist", "results")


def test_a_described_data_set_has_its_tables_at_the_top_of_its_folder(own):
    own("datasets/birds.yaml")
    suite = own("suites/birds.yaml", suite="birds", results="results/birds", datasets=["birds"])
    assert folder(suite) == "results/birds"
    with pytest.raises(ConfigError, match="would go into results/birds, the results folder of suite birds: run that s"):
        folder(datasets=["birds"])


@pytest.mark.parametrize("name", ["data", "runs", "figures", "report", "cdc"])
def test_names_of_other_folders_are_refused(name):
    with pytest.raises(ConfigError, match=f"tables of {name} would go into results/{name}, where other files"):
        folder(datasets=[name])


def test_a_folder_of_no_suite_is_of_the_first_command(tmp_path):
    results = str(tmp_path / "r")
    config, _ = given(results=results, datasets=["mnist"])
    assert places.folder(config, places.owner(config)) == results
    places.take(results, places.owner(config))
    assert folder(results=results, datasets=["mnist"]) == results
    assert folder(results=results, datasets=["usps"]) == f"{results}/usps"
    assert folder(results=results) == f"{results}/digits"


def test_loose_suites_of_one_folder_never_share_a_table(loose, tmp_path):
    """Neither needs a place among the suites; that of the first may be edited."""
    results = str(tmp_path / "r")
    first = loose("first", results=results, datasets=["mnist"])
    second = loose("second", results=results, datasets=["usps"])
    places.take(results, places.owner(*given(first)))
    assert (folder(first), folder(second)) == (results, f"{results}/usps")
    assert folder(first, datasets=["usps"]) == f"{results}/usps"
    first = loose("first", results=results, datasets=["mnist", "stl10"])
    assert folder(first) == results
    places.take(results, places.owner(*given(first)))
    assert folder(second, datasets=["mnist"]) == f"{results}/mnist"


def test_a_file_that_does_not_state_the_folder_does_not_own_it(loose, tmp_path):
    results = str(tmp_path / "r")
    file = loose("any", datasets=["mnist"])
    places.take(results, places.owner(*given(file, results=results)))
    assert folder(file, results=results, datasets=["usps"]) == f"{results}/usps"


def test_other_values_of_recipes_need_another_folder(own, loose, tmp_path):
    """Runs of one name and other values would be trained in turns, each time the other suite is run."""

    def check(file, **changes):
        config, files = given(file, **changes)
        places.check_overrides(config, places.owner(config, files), files)

    longer = {"simclr_base": {"schedule": {"epochs": 7}}}
    forgot = own("suites/longer.yaml", suite="longer", overrides=longer)
    with pytest.raises(ConfigError) as refused:
        check(forgot)
    said = str(refused.value)
    assert "longer.yaml: results is the results folder of suite default, whose `overrides` are others" in said
    assert "`results: results/longer` and `suite: longer`" in said
    check(own("suites/good.yaml", suite="good", results="results/good", overrides=longer))
    check(own("suites/same.yaml", suite="same", datasets=["mnist"]))
    check(None, overrides=longer)  # of a command alone, which changes its own suite
    results = str(tmp_path / "r")
    first = loose("first", results=results)
    places.take(results, places.owner(*given(first)))
    with pytest.raises(ConfigError, match=r"second.yaml: .* `results: results/second` and `suite: second`"):
        check(loose("second", results=results, overrides=longer))
    check(loose("first", results=results, overrides=longer))  # the first, edited


def test_a_damaged_record_is_named(tmp_path):
    (tmp_path / places.RECORD).write_text("{")
    with pytest.raises(StageError, match="not valid JSON"):
        folder(results=str(tmp_path))
    (tmp_path / places.RECORD).write_text('{"suite": "a"}')
    with pytest.raises(StageError, match="keys suite, datasets, protocols, overrides, files expected; delete it"):
        folder(results=str(tmp_path))


def test_the_record_is_written_once(tmp_path):
    places.take(str(tmp_path), DEFAULT)
    path = tmp_path / places.RECORD
    assert json.loads(path.read_text()) == DEFAULT
    before = path.stat().st_mtime_ns
    places.take(str(tmp_path), DEFAULT)
    assert path.stat().st_mtime_ns == before
    places.take(str(tmp_path), DEFAULT | {"datasets": ["mnist"]})
    assert json.loads(path.read_text())["datasets"] == ["mnist"]


def smoke(**changes):
    return Plan(given(catalogue.CONFIG / "suites" / "smoke.yaml", **changes)[0])


def test_the_plan_puts_everything_in_its_place(tmp_path):
    plan = smoke(results=str(tmp_path), figures=["digits_history"])
    places.take(str(tmp_path), DEFAULT | {"files": []})
    other = smoke(results=str(tmp_path))
    assert (plan.place, plan.table_path("table2")) == (str(tmp_path), f"{tmp_path}/table2")
    assert (other.place, other.table_path("table2")) == (f"{tmp_path}/digits_200", f"{tmp_path}/digits_200/table2")
    assert other.table_plan("table2")["csv"] == f"{tmp_path}/digits_200/table2.csv"
    assert other.suite_plan()["tables"] == [f"{tmp_path}/digits_200/table2"]
    with pytest.raises(StageError, match="another suite has taken this folder since"):
        plan.begin(here=True)


def test_the_plan_knows_the_file_of_its_command(loose, tmp_path):
    """Its edit moves no table; without the file these would be other data than those of the folder's owner."""
    results = str(tmp_path / "r")
    content = catalogue.read_yaml(catalogue.CONFIG / "suites" / "smoke.yaml") | {
        "results": results,
        "tables": ["table1"],
    }
    places.take(results, places.owner(*given(loose("mine", **content))))
    config, files = given(loose("mine", **content | {"datasets": ["digits"]}))
    assert Plan(config, True, files).place == results
    assert Plan(config, True).place == f"{results}/digits"
    with pytest.raises(ConfigError, match="whose `overrides` are others"):
        Plan(config | {"overrides": {}}, True, [loose("other", **content | {"overrides": {}})])


def test_two_tables_in_one_file_are_refused(own):
    row = {"label": "a", "recipe": "pixels", "assigner": "kmeans_raw"}
    for name, path in (("one", "same"), ("two", "same"), ("three", "results"), ("results", "other")):
        own(f"tables/{name}.yaml", title="t", metrics=["ACC"], rows=[row], path=path)
    with pytest.raises(ConfigError, match=r"two.yaml: its file is results/smoke/same.csv, and so is that of table one"):
        smoke(tables=["one", "two"])
    with pytest.raises(ConfigError, match=r"three.yaml: its file is .*/results.csv, and so is that of results.csv"):
        smoke(tables=["three"])
    with pytest.raises(ConfigError, match="table 'results': plans of the pipeline itself have this name"):
        smoke(tables=["results"])
    own("tables/out.yaml", title="t", metrics=["ACC"], rows=[row], path="../out")
    with pytest.raises(ConfigError, match=r"out.yaml: key 'path': '../out' does not match"):
        smoke(tables=["out"])


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("results/smoke/table2.csv", None),
        ("results/smoke/results.csv", None),
        ("results/smoke/figures/digits_history.png", None),
        ("results/smoke/runs/table2.csv/x", None),
        ("elsewhere/table2.csv", None),
        ("results=results/smoke/stl10/table2.csv", None),
        ("results/smoke/stl10/table2.md", "ask for results/smoke/table2.md, or add --config datasets=[stl10]"),
        ("results/smoke/nobody/table2.csv", "ask for results/smoke/table2.csv"),
        ("results/smoke/stl10/full/results.csv",
         "ask for results/smoke/results.csv, or add --config datasets=[stl10] protocols=[full]"),
        ("results/smoke/stl10/figures/digits_history.png", "ask for results/smoke/figures/digits_history.png, or add"),
    ],
)  # fmt: skip
def test_targets_of_other_data_sets_are_told_by_name(target, said):
    plan = smoke()
    if said is None:
        plan.check_targets(["snakemake", target, "--cores", "2"])
        return
    with pytest.raises(ConfigError) as refused:
        plan.check_targets(["snakemake", target, "--cores", "2"])
    assert str(refused.value).startswith(f"{target} is not of this command (datasets digits_200; protocols full): ")
    assert str(refused.value).partition("): ")[2].startswith(said)


def test_targets_of_another_suite_name_its_file():
    plan = Plan(given(results="results")[0])
    with pytest.raises(ConfigError, match=r"ask for results/table2.csv, or add --configfile config/suites/smoke.yaml"):
        plan.check_targets(["results/smoke/table2.csv"])
