"""Bad configuration: one clear error before any job exists."""

import pytest

from pipeline import catalogue
from pipeline.naming import ConfigError
from pipeline.plan import Plan
from pipeline.record import StageError
from pipeline.runs import Neighbours, Run
from pipeline.tables import plan_name, read_plan, reported_values
from tests.suites import plan_of, plans


def config(**changes):
    default = catalogue.read_yaml(catalogue.CONFIG / "config.yaml")
    return default | {"datasets": ["digits_200"], "overrides": {"*": {"batch_size": 64}}} | changes


def test_every_suite_is_valid():
    assert all(plan.runs.all() for plan in plans().values())


def test_runs_include_bases_once():
    plan = Plan(config(tables=["table2"], seeds=[0, 1]))
    runs = plan.runs.all()
    assert len(runs) == len(set(runs))
    assert Run("digits_200", "full", "simclr_base", 1) in runs
    assert plan.runs.base(Run("digits_200", "full", "mixem", 1)) == Run("digits_200", "full", "simclr_base", 1)
    assert plan.runs.assigners(Run("digits_200", "full", "mixem", 1)) == (
        "argmax",
        "kmeans_components",
        "sinkhorn",
        "sinkhorn_p",
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"datasets": ["digit"]}, "unknown data set 'digit'; did you mean 'digits'"),
        ({"protocols": ["ful"]}, "unknown protocol 'ful'; did you mean 'full'"),
        ({"tables": ["tabel2"]}, "unknown table 'tabel2'; did you mean 'table2'"),
        ({"seeds": [1, 2, 1]}, "seeds: 1 stands twice"),
        ({"seeds": [-1]}, "-1 is less than the minimum"),
        ({"seedz": [1]}, "unknown key 'seedz'; did you mean 'seeds'"),
        ({"overrides": {"mixen": {}}}, "unknown recipe in overrides 'mixen'; did you mean 'mixem'"),
        ({"overrides": {"*": {"batch_sise": 3}}}, "unknown key of overrides.* 'batch_sise'; did you mean 'batch_size'"),
        ({"overrides": {"mixem": {"schedule": {"epochs": -3}}}}, "-3 is less than the minimum of 0"),
        ({"overrides": {}}, "N=200 < batch 256: not one full batch"),
        ({"datasets": ["mnist_test"]}, "uses split 'train' to train, which data set 'mnist_test' does not have"),
        ({"overrides": {"*": {"batch_size": 64}, "scan": {"neighbours": {"count": 200}}}}, "count: 200 of N=200 rows"),
        ({"device": "gpu"}, "'gpu' is not one of"),
    ],
)
def test_bad_configuration_is_named(changes, message):
    with pytest.raises(ConfigError, match=message):
        Plan(config(**changes))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"recipe": "mixen", "assigner": "kmeans"}, "unknown recipe in .* 'mixen'; did you mean 'mixem'"),
        ({"recipe": "mixem", "assigner": "kmean"}, "unknown assigner in .* 'kmean'; did you mean 'kmeans'"),
        ({"recipe": "mixem", "probe": "lineal"}, "unknown probe in .* 'lineal'; did you mean 'linear'"),
        ({"recipe": "mixem"}, "exactly one of assigner and probe"),
        ({}, "neither a recipe nor reported values"),
        ({"reported": "NOBODY"}, "unknown reported method in .* 'NOBODY'"),
        ({"recipe": "mixem", "asigner": "kmeans"}, "unknown key 'asigner'; did you mean 'assigner'"),
    ],
)
def test_bad_table_rows_are_named(row, message, monkeypatch):
    content = {
        "title": "t", "metrics": ["ACC"], "reported": {"file": "cdc_mixem", "table": "mixem_table2_sota"},
        "rows": [{"label": "mine", **row}],
    }  # fmt: skip
    patch_table(monkeypatch, content)
    with pytest.raises(ConfigError, match=message):
        Plan(config(tables=["table2"])).table_plan("table2")


def test_unknown_metric_is_named(monkeypatch):
    patch_table(
        monkeypatch,
        {"title": "t", "metrics": ["ACCC"], "rows": [{"label": "m", "recipe": "pixels", "assigner": "kmeans"}]},
    )
    with pytest.raises(ConfigError, match=r"unknown metric in .* 'ACCC'; did you mean 'ACC'"):
        Plan(config(tables=["table2"]))


def test_more_clusters_than_rows_is_named(monkeypatch):
    read = catalogue.read_yaml

    def with_many(path):
        content = read(path)
        return {**content, "kmeans": content["kmeans"] | {"clusters": 50}} if path.name == "assigners.yaml" else content

    monkeypatch.setattr(catalogue, "read_yaml", with_many)
    with pytest.raises(ConfigError, match="K=50 clusters, but it is fitted on N=40 rows"):
        Plan(config(tables=["table2"]))


def patch_table(monkeypatch, content):
    read = catalogue.read_yaml
    monkeypatch.setattr(catalogue, "read_yaml", lambda path: content if path.name == "table2.yaml" else read(path))


def test_yaml_keys_that_stand_twice_are_an_error(tmp_path):
    path = tmp_path / "twice.yaml"
    path.write_text("a: 1\nb: 2\na: 3\n")
    with pytest.raises(ConfigError, match="key 'a' stands twice"):
        catalogue.read_yaml(path)
    path.write_text("rate: 1e-3\nword: 1e\n")
    assert catalogue.read_yaml(path) == {"rate": 0.001, "word": "1e"}


def test_a_table_may_have_its_own_data_sets_and_protocols():
    plan = Plan(config(tables=["dcrl_table2", "mixem_table4"], datasets=["stl10", "cifar10"], seeds=[0], overrides={}))
    paths = {run.path for run in plan.runs.all()}
    assert "runs/mnist_full/holdout/dcrl/seed0" in paths
    assert "runs/stl10/unlabeled/mixem/seed0" in paths
    assert not any(
        path.startswith(("runs/cifar10/unlabeled", "runs/stl10/holdout", "runs/stl10/full/dcrl")) for path in paths
    )
    run = Run("mnist_full", "holdout", "dcrl", 0)
    assert plan.stages.assign(run, "argmax").settings["protocol"]["seen"] == ["fit"]
    assert plan.runs.base(run) == Run("mnist_full", "holdout", "autoencoder", 0)


def test_a_base_may_come_from_another_data_set():
    plan = Plan(config(tables=["table2"], overrides={}, datasets=["digits"]))
    run = Run("mnist_test", "all", "dcrl-ae_full", 0)
    assert plan.runs.base(run) == Run("mnist_full", "all", "autoencoder", 0)


def test_numbers_in_overrides_are_read_as_recipes_read_them():
    """Snakemake's own YAML reader takes 1e6 for text."""
    plan = Plan(
        config(overrides={"*": {"batch_size": 64}, "mixem": {"optimiser": {"lr": "1e6", "weight_decay": "1e-3"}}})
    )
    optimiser = plan.runs.recipe(Run("digits_200", "full", "mixem", 0))["optimiser"]
    assert optimiser["lr"] == 1e6
    assert optimiser["weight_decay"] == 1e-3


def test_a_recipe_without_settings_is_refused_before_any_job():
    with pytest.raises(ConfigError, match="recipe 'supervised' has no settings for data set 'pendigits'"):
        Plan(config(datasets=["pendigits"], tables=["table2"]))


def test_photographs_replace_the_network_of_digits():
    plan = Plan(config(tables=["table2"], overrides={}, datasets=["digits"]))
    network = plan.runs.recipe(Run("stl10", "full", "mixem", 0))["network"]
    assert network == {"backbone": "resnet18", "stem": "imagenet"}
    assert plan.runs.recipe(Run("digits", "full", "mixem", 0))["network"]["backbone"] == "convnet"


def test_bases_of_bases_are_runs_too(monkeypatch):
    plan = Plan(config(tables=["table2"], seeds=[0]))
    monkeypatch.setattr(plan.runs, "of_row", lambda table, row: [Run("digits_200", "full", "finetune", 0)])
    assert [run.recipe for run in plan.runs.all()] == ["simclr_base", "simclr", "finetune"]


def test_scored_images_are_mined_only_where_a_recipe_watches_them():
    plan = Plan(config(tables=["digits_all"]))
    plain, watching = (Run("digits_200", "full", name, 0) for name in ("scan", "scan-test_unsup"))
    assert plan.neighbour_files(plain, "watched") == []
    files = plan.neighbour_files(watching, "watched")
    assert files[0].endswith("simclr_base/seed0/neighbours/z-5-test.npz")
    assert plan.neighbour_files(watching, "neighbours") == plan.neighbour_files(plain, "neighbours")
    assert "score" not in plan.stages.train(plain).settings["protocol"]
    assert plan.stages.train(watching).settings["protocol"]["score"] == ["test"]
    base = plan.runs.base(watching)
    assert plan.stages.mine(base, Neighbours("z", 5, ("test",))).settings == {
        "array": "z",
        "count": 5,
        "splits": ["test"],
    }


@pytest.mark.parametrize("title", ["digits", "Digits", " digits "])
@pytest.mark.parametrize(
    ("file", "kind", "names", "part"),
    [
        ("digits_200.yaml", "datasets", ["digits", "digits_200"], "columns"),
        ("protocols.yaml", "protocols", ["full", "all"], "rows"),
    ],
)
def test_two_of_one_title_in_a_table_are_refused(monkeypatch, title, file, kind, names, part):
    """A reader could not tell whose number it is."""
    read = catalogue.read_yaml

    def same(path):
        found = read(path)
        if path.name == file and kind == "datasets":
            return found | {"title": title}
        if path.name == file:
            return found | {"full": found["full"] | {"title": "digits"}, "all": found["all"] | {"title": title}}
        return found

    monkeypatch.setattr(catalogue, "read_yaml", same)
    what = {"datasets": "data sets", "protocols": "protocols"}[kind]
    message = (
        f"{what} '{names[0]}' and '{names[1]}' both have the title {title!r}, so their {part} could not be told apart"
    )
    with pytest.raises(ConfigError, match=message):
        Plan(config(**{kind: names}, tables=["table2"]))


@pytest.mark.parametrize(("kind", "name"), [("datasets", "digits_200"), ("protocols", "full")])
def test_what_stands_twice_in_a_table_is_refused(monkeypatch, kind, name):
    """Every run of it would count twice: n and the standard deviation of a row would be wrong."""
    table = {
        "title": "t", "metrics": ["ACC"], kind: [name, name],
        "rows": [{"label": "m", "recipe": "pixels", "assigner": "kmeans_raw"}],
    }  # fmt: skip
    entry = catalogue.entry
    monkeypatch.setattr(catalogue, "entry", lambda k, n: table if k == "table" else entry(k, n))
    with pytest.raises(ConfigError, match=f"{name!r} stands twice; every entry counts once"):
        Plan(config(tables=["table2"]))


HEAD = "table,method,dataset,setting,metric,mean,std,unit,source,note\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("table,method,dataset\nt,A,MNIST\n", "columns .'table', 'method', 'dataset'. found; expected table, method"),
        (HEAD + "t,A,MNIST,,ACC,0.5\n", "row 2: 10 values are expected"),
        (HEAD + "t,A,MNIST,,ACC,0.5,,fraction,s,n,more\n", "row 2: 10 values are expected"),
        (HEAD + "t,A,MNIST,,ACC,0;5,,fraction,s,\n", "row 2: mean '0;5' is no number"),
        (HEAD + "t,A,MNIST,,ACC,0.5,nan,fraction,s,\n", "row 2: std 'nan' is no number"),
        (2 * (HEAD + "t,A,MNIST,,ACC,0.5,,fraction,s,\n"), "row 3: mean 'mean' is no number"),
        (HEAD + "t,A,MNIST,,ACC,0.5,,fraction,s,\nt,A,MNIST,,ACC,0.6,,fraction,s,\n",
         "rows 2 and 3 both give a value for t, A, MNIST, ACC"),
        ("\ufeff" + HEAD + "t,A,MNIST,,ACC,0.5,,fraction,s,\n", None),
    ],
    ids=["columns", "too few", "too many", "no number", "not finite", "a second header", "twice", "byte order mark"],
)  # fmt: skip
def test_reported_values_are_read_whole_or_refused(tmp_path, monkeypatch, text, message):
    (tmp_path / "reported").mkdir()
    (tmp_path / "reported/paper.csv").write_text(text, encoding="utf-8")
    monkeypatch.setattr(catalogue, "CONFIG", tmp_path)
    table = {"reported": {"file": "paper", "table": "t"}, "rows": [{"label": "a", "reported": "A"}]}
    if message is None:
        assert [row["mean"] for row in reported_values(table)] == ["0.5"]
    else:
        with pytest.raises(ConfigError, match=f"paper.csv.*{message}"):
            reported_values(table)


def test_every_source_of_a_row_names_its_log():
    """As rules/*.smk do: snakemake's own jobs say where their logs are."""
    plan = plan_of("smoke")
    found = {
        source["stage"]: source["log"].removeprefix(f"{plan.results}/logs/")
        for row in plan.table_plan("table2")["rows"]
        for run in row["runs"]
        if run["recipe"] == "scan"
        for source in run["sources"]
    }
    assert found == {
        "prepare": "digits_200_prepare.log",
        "train": "digits_200_full_scan_seed0_train.log",
        "mine": "digits_200_full_simclr_base_seed0_mine_z-20-train+test.log",
        "embed": "digits_200_full_scan_seed0_embed.log",
        "assign/argmax": "digits_200_full_scan_seed0_assign_argmax.log",
        "score/argmax": "digits_200_full_scan_seed0_evaluate.log",
    }


def test_bases_on_photographs_see_the_images_that_the_papers_say():
    """MIX'EM sec. 4: the base is trained on STL10's train+unlabeled, CIFAR's train, whatever the row's own protocol."""
    plan = Plan(config(tables=["mixem_table4"], datasets=["stl10", "cifar10"], seeds=[0], overrides={}))
    bases = {(run.dataset, run.protocol) for run in plan.runs.all() if run.recipe == "simclr_base"}
    assert bases == {("stl10", "unlabeled"), ("cifar10", "split")}
    scan = plan.runs.base(Run("stl10", "split", "scan", 0))
    assert scan == Run("stl10", "unlabeled", "simclr_base", 0)
    assert plan.runs.neighbours(Run("stl10", "split", "scan", 0))["neighbours"].splits == ("train",)


def test_a_plan_is_what_its_name_says(tmp_path):
    text = '{"title": "a"}\n'
    path = tmp_path / f"{plan_name('table2', text)}.json"
    path.write_text(text)
    assert read_plan(path) == {"title": "a"}
    for other in ('{"title": "b"}\n', '{"title":  "a"}\n'):
        path.write_text(other)
        with pytest.raises(StageError, match=r"table2-\w{16}\.json: its content is not what was written; delete it"):
            read_plan(path)
    (tmp_path / "mine.json").write_text(other)  # by hand
    assert read_plan(tmp_path / "mine.json") == {"title": "a"}
