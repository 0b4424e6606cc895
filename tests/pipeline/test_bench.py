"""The front door: what is wrong with a command is one line that says how to mend it, and a right one is snakemake's."""

import re
import sys

import pytest

from pipeline import asked, bench, catalogue, gpus, make, preview, suites
from pipeline.naming import ConfigError, suggestion
from pipeline.record import run_stage
from tests.conftest import ROOT


class Begun(Exception):
    """Snakemake would have taken the place of the process."""


@pytest.fixture
def front(tmp_path, monkeypatch, capsys):
    """Calls the front door from a folder of its own, without data files and GPUs; (printed, errors, words of
    snakemake).
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(catalogue, "OWN", tmp_path / "own")
    monkeypatch.setattr(gpus, "NODES", str(tmp_path / "dev"))
    for name in ("BENCH_DATA_ROOT", "BENCH_RUN", gpus.VISIBLE):
        monkeypatch.delenv(name, raising=False)

    def begin(program, words):
        assert (program, words[:3]) == (sys.executable, [sys.executable, "-m", "snakemake"])
        raise Begun(words[3:])

    monkeypatch.setattr(make.os, "execv", begin)

    def call(*words):
        command, code = None, None
        try:
            run_stage(lambda: bench.main(list(words)))
        except Begun as begun:
            command = begun.args[0]
        except SystemExit as end:
            code = end.code
        printed = capsys.readouterr()
        assert (code == 1) == printed.err.startswith("error: ")
        return printed.out, printed.err, command

    return call


MISTAKES = {
    "suite": ("table --suite smok", "unknown suite 'smok'; did you mean 'smoke'?"),
    "file of a suite": ("table --suite config/suites/smok.yaml", "no such file; did you mean config/suites/smoke"),
    "two suites": ("table --suite smoke --suite pixels", "two suites, smoke and pixels: .* run one after the other"),
    "plural": ("tables", "unknown word or table 'tables'; did you mean 'table'?"),
    "word": ("shwo mixem digits", "unknown word or table 'shwo'; did you mean 'show'?"),
    "table": ("table tabel2", "unknown table 'tabel2'; did you mean 'table2'?"),
    "path": ("results/tabel2.csv", "unknown word or table 'results/tabel2.csv'; did you mean 'table2'?"),
    "figure as table": ("table digits_history", "'digits_history' is a figure: ./run bench figure digits_history"),
    "table as figure": ("figure table2", "'table2' is a table: ./run bench table table2"),
    "suite as table": ("table smoke", "'smoke' is a suite: ./run bench table --suite smoke"),
    "suite alone": ("smoke", "'smoke' is a suite; its tables: ./run bench table --suite smoke"),
    "figure": ("figure digits_histry", "unknown figure 'digits_histry'; did you mean 'digits_history'?"),
    "no figures": ("figure --suite smoke", "suite 'smoke' lists no figures; name one: .*digits_history"),
    "table of another suite": ("table dcrl_table1", "suite 'default' does not have table 'dcrl_table1'; add --suite"),
    "range of seeds": ("table --seeds 0:4", "'0:4' is no seed; give whole numbers from 0: 0-4, or 0,2,5"),
    "range down": ("table --seeds 4-0", "a range goes up; give 0-4"),
    "negative seed": ("table --seeds -1", "'-1' is no seed; give whole numbers"),
    "seed twice": ("table --seeds 0-2,1", "1 stands twice; every seed counts once"),
    "too many seeds": ("table --seeds 0-99999999", "more than 1000 seeds; give fewer"),
    "seeds as value": ("table seeds=0-4", r"key 'seeds': '0-4' is not of type 'array' \(a list is written \[a, b\]\)"),
    "data set": ("table --data digit", "unknown data set 'digit'; did you mean 'digits'?"),
    "no data set": ("table --data ,", "data set ',': no name in it; known are: .*digits"),
    "data set twice": ("table --data digits,digits", "datasets: 'digits' stands twice"),
    "protocol": ("table --protocol ful", "unknown protocol 'ful'; did you mean 'full'?"),
    "splits": ("table --suite smoke --protocol unlabeled", "which data set 'digits_200' does not have .*choose"),
    "option": ("table --siute smoke", "unknown option '--siute'; did you mean '--suite'?"),
    "option without value": ("table --suite", "argument --suite: expected one argument"),
    "cores": ("table --suite smoke --cores 0", "--cores 0: a whole number from 1 is expected, or all"),
    "profile": ("table --profile slrum", "unknown profile 'slrum'; did you mean 'slurm'?"),
    "key": ("table --config seed=3", "unknown key of the suite 'seed'; did you mean 'seeds'?"),
    "key twice": ("table --seeds 0 seeds=[1]", r"seeds is given twice, as \[0\] and as \[1\]; leave one of them out"),
    "type": ("table --suite smoke threads=many", r"key 'threads': 'many' is not of type 'integer' \(a whole number\)"),
    "no YAML": ("table datasets=[digits", r"datasets=\[digits: cannot be read; write datasets=\[a,b\]"),
    "recipe": ("table overrides={mixme:{}}", "unknown recipe in overrides 'mixme'; did you mean 'mixem'?"),
    "device": ("table --suite smoke device=gpu", r"'gpu' is not one of \['auto', 'cpu', 'cuda'\]"),
    "no GPU": ("table --suite smoke device=cuda", "this machine has no GPU; ask for device=auto or device=cpu"),
    "vectors": ("table --data reuters10k", "has no settings for data set 'reuters10k' .*or leave the data set out"),
    "no root": ("table --data mnist", "'mnist' needs files, and no data root is given; set BENCH_DATA_ROOT or"),
    "root": ("table --data mnist data_root=here", "data root here: no such folder; set BENCH_DATA_ROOT or data_root="),
    "empty root": ("table --data mnist data_root=.", r"data set 'mnist': no files in MNIST/raw; put them there"),
    "results": ("table --suite smoke results=file/x", "results=file/x: .*file is no folder; give another: results="),
    "show": ("show mixme digits", "unknown recipe 'mixme'; did you mean 'mixem'?"),
    "show nothing": ("show", "show: give a recipe and a data set, or --list"),
    "show of a suite": ("show mixem digits --suite smok", "unknown suite 'smok'; did you mean 'smoke'?"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_that_says_how_to_mend_it(front, tmp_path, mistake):
    (tmp_path / "file").touch()
    words, message = MISTAKES[mistake]
    out, error, command = front(*words.split(" "))
    assert (out, command) == ("", None)
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert re.search(message, error), error


OWN_TABLE = "title: t\nmetrics: [{metric}]\nrows: [{{label: a, recipe: {recipe}, assigner: {assigner}}}]\n"
RIGHT = {"metric": "ACC", "recipe": "pixels", "assigner": "kmeans_raw"}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"metric": "ACCC"}, "unknown metric in .*/own/tables/mine.yaml 'ACCC'; did you mean 'ACC'?"),
        ({"recipe": "pixel"}, "unknown recipe in .*/own/tables/mine.yaml 'pixel'; did you mean 'pixels'?"),
        ({"assigner": "kmean"}, "unknown assigner in .*/own/tables/mine.yaml 'kmean'; did you mean 'kmeans'?"),
        ({"metric": "[ACC"}, "mine.yaml: not valid YAML"),
        ({"assigner": "kmeans_raw, prob: knn"}, "unknown key 'prob'; did you mean 'probe'?"),
    ],
    ids=["metric", "recipe", "assigner", "YAML", "key"],
)
def test_mistakes_in_files_of_ones_own_are_one_line(front, tmp_path, wrong, message):
    (tmp_path / "own/tables").mkdir(parents=True)
    (tmp_path / "own/tables/mine.yaml").write_text(OWN_TABLE.format(**RIGHT | wrong))
    out, error, command = front("table", "mine", "--suite", "smoke")
    assert (out, command) == ("", None)
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert re.search(message, error), error


def test_a_table_with_data_sets_of_its_own_is_not_asked_for_with_others(front, tmp_path):
    (tmp_path / "own/tables").mkdir(parents=True)
    (tmp_path / "own/tables/mine.yaml").write_text("datasets: [digits_200]\n" + OWN_TABLE.format(**RIGHT))
    _, error, command = front("table", "mine", "--suite", "smoke", "--data", "digits")
    assert error == (
        "error: table 'mine' has datasets of its own (digits_200), whatever is asked for; leave them out\n"
    )
    assert command is None
    assert front("table", "mine", "table2", "--suite", "smoke", "--data", "digits")[1] == ""


def test_a_results_folder_that_may_not_be_written_is_refused(front, monkeypatch):
    monkeypatch.setattr("os.access", lambda *_: False)
    assert "may not be written; change that, or give results=FOLDER" in front("table", "--suite", "smoke")[1]


SNAKEFILE = ["--snakefile", str(ROOT / "Snakefile")]
SMOKE = ["--configfile", str(ROOT / "config/suites/smoke.yaml")]
ALL = ["--cores", "all"]


@pytest.mark.parametrize(
    ("words", "targets", "options"),
    [
        ("table --suite smoke", ["results/smoke/table2.csv"], [*ALL, *SMOKE]),
        ("table2 --suite smoke", ["results/smoke/table2.csv"], [*ALL, *SMOKE]),
        ("--suite smoke results/smoke/table2.csv", ["results/smoke/table2.csv"], [*ALL, *SMOKE]),
        ("--suite smoke", [], [*ALL, *SMOKE]),
        ("figure digits_history --suite smoke --cores 2", ["results/smoke/figures/digits_history.png"],
         ["--cores", "2", *SMOKE]),
        ("table2 --seeds 0-2,7 --config threads=2 track=false", ["results/table2.csv"],
         [*ALL, "--config", "seeds=[0,1,2,7]", "threads=2", "track=false"]),
        ("table --config track=false table2 --protocol split,full", ["results/digits/split+full/table2.csv"],
         [*ALL, "--config", "protocols=[split,full]", "track=false"]),
        ("table --suite smoke -- --forcerun train", ["results/smoke/table2.csv"],
         [*ALL, *SMOKE, "--forcerun", "train"]),
        ("table table2 --profile slurm device=cuda", ["results/table2.csv"],
         ["--workflow-profile", str(ROOT / "profiles/slurm"), "--config", "device=cuda"]),
        ("table table2 device=cuda -- --executor slurm", ["results/table2.csv"],
         [*ALL, "--config", "device=cuda", "--executor", "slurm"]),
    ],
)  # fmt: skip
def test_the_command_of_snakemake(front, words, targets, options):
    """Targets go first: the options take every word that follows."""
    out, error, command = front(*words.split(" "))
    assert error == ""
    assert command == [*targets, *SNAKEFILE, *options]
    assert out.startswith("$ snakemake ")


def test_from_the_project_folder_the_command_is_short_and_begins_as_it_was_called(front, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("BENCH_RUN", "./run")
    out, _, command = front("table", "table2", "--suite", "smoke", "--seeds", "0-1")
    assert out == (
        "$ ./run snakemake results/smoke/table2.csv --cores all --configfile config/suites/smoke.yaml --config"
        " 'seeds=[0,1]'\n"
    )
    assert command[-4:] == ["--configfile", "config/suites/smoke.yaml", "--config", "seeds=[0,1]"]


def test_the_profile_of_several_gpus_is_told_how_many_there_are(front, monkeypatch):
    monkeypatch.setenv(gpus.VISIBLE, "0,1,3")
    _, _, command = front("table", "table2", "--profile", "gpu")
    assert command[-4:] == ["--workflow-profile", str(ROOT / "profiles/gpu"), "--resources", "gpu=3"]


def test_a_table_of_no_suite_is_made_with_the_others(front, tmp_path):
    """Left alone it would take from its recipes what the suite's tables ask of them."""
    (tmp_path / "own/tables").mkdir(parents=True)
    (tmp_path / "own/tables/mine.yaml").write_text(OWN_TABLE.format(**RIGHT))
    _, error, command = front("table", "mine", "--suite", "smoke")
    assert error == ""
    assert command == ["results/smoke/mine.csv", *SNAKEFILE, *ALL, *SMOKE, "--config", "tables=[table2,mine]"]


def test_own_suites_go_by_name(front, tmp_path):
    (tmp_path / "own/suites").mkdir(parents=True)
    (tmp_path / "own/suites/birds.yaml").write_text("suite: birds\nresults: results/birds\ntables: [table2]\n")
    expected = ["--configfile", str(tmp_path / "own/suites/birds.yaml")]
    for name in ("birds", str(tmp_path / "own/suites/birds.yaml")):
        _, error, command = front("table", "--suite", name)
        assert error == ""
        assert command == ["results/birds/table2.csv", *SNAKEFILE, *ALL, *expected]


def test_prepared_data_and_downloads_need_no_files(front, tmp_path):
    (tmp_path / "results/data/mnist").mkdir(parents=True)
    (tmp_path / "results/data/mnist/card.json").touch()
    assert front("table", "table2", "--data", "mnist")[1] == ""
    assert front("table", "table2", "--data", "usps_torchvision", "download=true")[1] == ""


def test_the_configuration_is_the_one_that_snakemake_makes(tmp_path):
    """What is given wins over the suite, the suite over the default, and mappings are laid over each other."""
    file = tmp_path / "mine.yaml"
    file.write_text('overrides: {"*": {batch_size: 3}, mixem: {batch_size: 4}}\nseeds: [5]\n')
    found = suites.configuration(file, {"overrides": {"mixem": {"batch_size": 8}}})
    assert found["overrides"] == {"*": {"batch_size": 3}, "mixem": {"batch_size": 8}}
    assert (found["seeds"], found["datasets"]) == ([5], ["digits"])
    file.write_text("- a\n")
    with pytest.raises(ConfigError, match=r"mine.yaml: a list found; `key: value` of a suite expected"):
        suites.configuration(file)


@pytest.mark.usefixtures("front")
def test_dry_runs_are_previewed_with_the_same_command_and_end_with_its_code(monkeypatch):
    seen = []

    def shown(command, plan, runs):
        seen.append((command, plan.results, {run.recipe for run in runs}))
        return 3

    monkeypatch.setattr(preview, "main", shown)
    with pytest.raises(SystemExit) as end:
        make.main(["digits_history", "--suite", "smoke", "--dry"], "figure")
    assert end.value.code == 3
    target = "results/smoke/figures/digits_history.png"
    assert seen == [([target, *SNAKEFILE, *ALL, *SMOKE], "results/smoke", {"simclr_base", "simclr", "mixem"})]


def test_help_lists_the_words_whose_modules_are_there(front, monkeypatch):
    monkeypatch.setitem(bench.COMMANDS, "nothing", ("pipeline.nothing", "is not there"))
    for words in ([], ["--help"], ["help"]):
        out, _, _ = front(*words)
        assert {"table", "figure", "show"} <= set(bench.commands())
        assert all(
            re.search(rf"^  {word} +{re.escape(text)}$", out, re.M) for word, (_, text) in bench.commands().items()
        )
        assert "nothing " not in out
    assert "mixem" in front("show", "--list")[0]


def test_names_of_both_kinds_are_tables_unless_figures_are_asked_for():
    assert asked.kinds_of("cdc_figure3") == ["table", "figure"]
    config = {"suite": "x", "tables": ["cdc_figure3"]}
    assert asked.wanted("", ["cdc_figure3"], config) == [("table", "cdc_figure3")]
    assert asked.wanted("figure", ["cdc_figure3"], config) == [("figure", "cdc_figure3")]


def test_names_that_are_known_twice_are_listed_once():
    """A suite and its table may have one name."""
    assert suggestion("claims", ["smoke", "table2", "smoke"]) == "known are: smoke, table2"
