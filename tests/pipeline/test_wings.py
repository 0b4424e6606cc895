"""Wings, row groups and the printed command: configuration is checked against the files it names."""

import pytest

from pipeline import catalogue
from pipeline.catalogue import entry_or_json
from pipeline.command import command_of
from pipeline.naming import ConfigError
from pipeline.provenance import ROOT, canonical_json
from pipeline.row_groups import expand
from pipeline.wings import WINGS, signature, wing_modules, wing_names


@pytest.mark.parametrize("kind", WINGS)
def test_a_wing_is_its_files(kind):
    assert wing_names(kind) == sorted(p.stem for p in (ROOT / WINGS[kind]).glob("[a-z]*.py"))
    assert wing_modules(kind) == tuple(f"{WINGS[kind].replace('/', '.')}.{name}" for name in wing_names(kind))


@pytest.mark.parametrize("kind", ["assigner", "probe", "figure"])
def test_every_entry_fits_the_file_it_names(kind):
    for name in catalogue.names(kind):
        catalogue.entry(kind, name)


KNN = {"name": "x", "algorithm": "knn", "features": "h", "normalise": True, "k": 5}


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        ("probe", KNN | {"algorithm": "knm"}, "evaluation/probes: 'knm'; did you mean 'knn'"),
        ("probe", KNN | {"distanz": "euclidean"}, "unknown key 'distanz'; did you mean 'distance'"),
        ("probe", KNN | {"distance": "manhattan"}, r"distance: 'manhattan' found, Literal\['cosine', 'euclidean'\]"),
        ("probe", KNN | {"k": -1}, "-1 is less than the minimum of 0"),
        ("probe", KNN | {"k": 2.5}, r"k: 2.5 found, int expected"),
        ("probe", {"name": "x", "algorithm": "knn", "features": "h", "normalise": True}, "'k' is missing"),
        ("probe", {"name": "x", "algorithm": "knn", "features": "h"}, "'normalise' is a required property"),
        ("assigner", {"name": "x", "algorithm": "gmm", "features": "q"}, r"features: 'q' found"),
        ("assigner", {"name": "x", "algorithm": "kmean", "features": "h"}, "'kmean'; did you mean 'kmeans'"),
        ("assigner", {"name": "x", "features": "h"}, "'algorithm' is a required property"),
    ],
)
def test_bad_entries_are_named(kind, given, message):
    with pytest.raises(ConfigError, match=message):
        entry_or_json(kind, canonical_json(given))


def test_settings_are_read_without_importing():
    declared = signature("probe", "voc07_svm")
    assert declared.literals["several_labels"] is True
    assert {"features", "normalise", "C", "difficult"} == set(declared.settings)
    assert "clusters" in signature("assigner", "gmm").optional


def test_row_groups_are_labels_times_columns():
    group = {
        "control": True,
        "labels": {"A": "a", "B": {"recipe": "b", "control": False}},
        "columns": {"kNN": {"probe": "knn", "metrics": ["ACC"]}, "": {"assigner": "kmeans"}},
    }
    plain = {"label": "C", "recipe": "c", "assigner": "argmax"}
    before = canonical_json(group)
    assert expand([group, plain]) == [
        {"label": "A: kNN", "recipe": "a", "probe": "knn", "metrics": ["ACC"], "control": True},
        {"label": "A", "recipe": "a", "assigner": "kmeans", "control": True},
        {"label": "B: kNN", "recipe": "b", "probe": "knn", "metrics": ["ACC"], "control": False},
        {"label": "B", "recipe": "b", "assigner": "kmeans", "control": False},
        plain,
    ]
    assert canonical_json(group) == before


def test_tables_come_with_their_groups_expanded():
    rows = {row["label"]: row for row in catalogue.entry("table", "digits_probes")["rows"]}
    assert len(rows) == 75
    assert rows["Pixels: kNN"] == {
        "label": "Pixels: kNN", "recipe": "pixels", "probe": "knn", "metrics": ["ACC"], "control": True,
    }  # fmt: skip
    assert "control" not in rows["SwAV: effective rank"]
    ablation = catalogue.entry("table", "dcrl_table5")["rows"]
    assert [row["label"] for row in ablation[:2]] == ["w/o SL", "w/o SL: embedding"]
    assert ablation[1]["reported"] == "w/o SL"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"labels": {"A": "a"}, "columns": {"x": {"probbe": "knn"}}}, "unknown key 'probbe'; did you mean 'probe'"),
        ({"labels": {"A": "a"}, "colums": {"x": {"probe": "knn"}}}, "colum"),
        ({"labels": {}, "columns": {"x": {"probe": "knn"}}}, "labels"),
        ({"recipe": "a", "probe": "knn"}, "label"),
    ],
)
def test_bad_row_groups_are_named(row, message, monkeypatch):
    read = catalogue.read_yaml
    table = {"title": "t", "metrics": ["ACC"], "rows": [row]}
    monkeypatch.setattr(catalogue, "read_yaml", lambda path: table if path.name == "table2.yaml" else read(path))
    with pytest.raises(ConfigError, match=message):
        catalogue.entry("table", "table2")


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["/x/bin/snakemake"], "snakemake --cores all"),
        (["pytest", "--cores", "3"], "snakemake --cores all"),
        (["/x/snakemake/__main__.py", "t.csv", "--cores", "2", "--configfile", "a.yaml"],
         "snakemake --configfile a.yaml --cores 2"),
        (["snakemake", "-c4", "--config", "seeds=[0,1]", "strict=true", "--forcerun", "x", "--dry-run", "t.csv"],
         "snakemake --config 'seeds=[0,1]' strict=true --cores 4"),
        (["snakemake", "--profile", "profiles/slurm", "t.csv", "-n"], "snakemake --profile profiles/slurm"),
        (["snakemake", "--cores=all", "--configfile=a b.yaml"], "snakemake --configfile 'a b.yaml' --cores all"),
    ],
)  # fmt: skip
def test_the_command_without_its_targets(words, command, monkeypatch):
    monkeypatch.delenv("BENCH_RUN", raising=False)
    assert command_of(words) == command
    monkeypatch.setenv("BENCH_RUN", "./run")
    assert command_of(words) == f"./run {command}"
