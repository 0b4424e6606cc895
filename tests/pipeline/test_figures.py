"""Figures by name: which runs and files each is drawn from, and what is refused before any job."""

import pytest
import yaml

from pipeline import catalogue
from pipeline.figures import entry
from pipeline.naming import ConfigError
from pipeline.plan import Plan
from pipeline.runs import Run

ROW = {"recipe": "pixels", "assigner": "kmeans_raw"}
SMALL = {"title": "s", "metrics": ["ACC", "largest_share"], "rows": [{"label": a, **ROW} for a in "abc"]}
RANKING = {"kind": "ranking", "metric": "ACC", "table": "small"}


@pytest.fixture
def suite(tmp_path, monkeypatch):
    """Plan of a suite with own figures: name -> content."""
    monkeypatch.setattr(catalogue, "OWN", tmp_path / "own")
    default = catalogue.read_yaml(catalogue.CONFIG / "config.yaml")
    small = {"datasets": ["digits_200"], "overrides": {"*": {"batch_size": 64}}, "results": "r", "tables": ["small"]}

    def plan(own=None, **changes):
        (tmp_path / "own" / "figures").mkdir(parents=True, exist_ok=True)
        (tmp_path / "own" / "tables").mkdir(exist_ok=True)
        (tmp_path / "own" / "tables" / "small.yaml").write_text(yaml.safe_dump(SMALL))
        for name, content in (own or {}).items():
            (tmp_path / "own" / "figures" / f"{name}.yaml").write_text(yaml.safe_dump({"title": "t", **content}))
        return Plan(default | small | {"figures": []} | changes)

    return plan


def test_clusters_of_any_run_need_no_file(suite):
    plan = suite(seeds=[3, 4], protocols=["split", "full"])
    assert plan.figures.shown("gallery-cdc-t005-kmeans") == [
        ("cdc-t005, kmeans", Run("digits_200", "split", "cdc-t005", 3), "kmeans")
    ]
    assert plan.figures.entry("gallery-mixem-argmax")["title"] == "Nearest and farthest images of each cluster"
    folder = "r/runs/digits_200/split/mixem/seed3"
    assert plan.figure_words("confusion-mixem-argmax") == [
        "--data", "r/data/digits_200", "--runs", f"mixem, argmax={folder}",
    ]  # fmt: skip
    files = ["card.json", "images.npy", "labels.npy"]
    assert plan.figure_files("confusion-mixem-argmax") == [
        *(f"r/data/digits_200/{file}" for file in files),
        *(f"{folder}/{file}" for file in ("features.npz", "history.csv", "snapshots.npz")),
        f"{folder}/clusters/argmax.npz",
        f"{folder}/clusters/argmax.json",
    ]
    assert plan.figure_code("confusion-mixem-argmax") != plan.figure_code("gallery-mixem-argmax")


def test_data_sets_and_seeds_are_chosen_by_key(suite):
    recipes = {"kind": "embedding", "recipes": {"A": "simclr", "B": "mixem"}}
    names = {"none": {}, "every": {"datasets": "all", "seeds": "all"}, "some": {"datasets": ["digits"], "seeds": [9]}}
    plan = suite(
        {name: recipes | keys for name, keys in names.items()}, datasets=["digits_200", "digits"], seeds=[5, 6]
    )
    found = {name: [(of.label, of.run.dataset, of.run.seed) for of in plan.figures.shown(name)] for name in names}
    assert found["none"] == [("A", "digits_200", 5), ("B", "digits_200", 5)]
    assert found["some"] == [("A", "digits", 9), ("B", "digits", 9)]
    pairs = [("digits_200", 5), ("digits_200", 6), ("digits", 5), ("digits", 6)]
    assert found["every"] == [(label, *pair) for label in "AB" for pair in pairs]
    assert plan.figure_words("every")[:3] == ["--data", "r/data/digits_200", "r/data/digits"]
    assert not any("clusters" in file for file in plan.figure_files("every"))


def test_a_ranking_is_made_of_its_table(suite):
    plan = suite({"rank": RANKING}, **TWO)
    assert plan.figures.shown("rank") == []
    assert plan.figure_words("rank") == ["--table", plan.plan_path("small")]
    metrics = [f"r/runs/{name}/full/pixels/seed0/metrics.json" for name in TWO["datasets"]]
    assert plan.figure_files("rank") == [plan.plan_path("small"), *metrics]


GALLERY = {"kind": "gallery", "recipes": {"A": {"recipe": "simclr", "assigner": "kmeans"}}}
VECTORS = {"datasets": ["pendigits"], "protocols": ["all"], "overrides": {}}
TWO = {"datasets": ["digits", "digits_200"], "seeds": [0]}
STL = {"datasets": ["stl10"], "protocols": ["clusters"], "overrides": {}}


@pytest.mark.parametrize(
    ("figure", "changes", "message"),
    [
        ("galery-mixem-argmax", {}, "unknown kind of figures of clusters .* 'galery'; did you mean 'gallery'"),
        ("embedding-mixem-argmax", {}, "of clusters .* 'embedding'; known are: confusion, gallery"),
        ("gallery-mixen-argmax", {}, "unknown recipe .* 'mixen'; did you mean 'mixem'"),
        ("gallery-mixem-argmx", {}, "unknown assigner .* 'argmx'; did you mean 'argmax'"),
        ("digits_galery", {}, "unknown figure 'digits_galery'; did you mean 'digits_gallery'"),
        ("gallery-dec-argmax", VECTORS, "rows of data set 'pendigits' are vectors, and there is no image of a vector"),
        ("confusion-mixem-argmax", STL, "figure 'confusion-mixem-argmax': .* of data set 'stl10' have no labels"),
        ("ranking", TWO, "ranking.yaml: compares rows of table 'table2', which this suite does not make; .*small"),
        (RANKING, {}, "f.yaml: .* at least 2, and table 'small' has 1 in this suite .digits_200.; seeds of one"),
        (RANKING | {"metric": "largest_share"}, TWO, "'largest_share': neither more nor less of it is better"),
        (RANKING | {"metric": "ACX"}, TWO, "metric 'ACX' is none of table 'small'; did you mean 'ACC'"),
        (RANKING | {"of": "knn"}, TWO, "at least 3 methods can be ranked, and table 'small' has 0 .none. of 'knn'"),
        ({**RANKING, "recipes": {"A": "simclr"}}, TWO, "is not valid|valid under each|oneOf|should not be"),
        ({**GALLERY, "recipes": {"A": "simclr"}}, {},
         r"f.yaml: kind 'gallery' shows clusters, but 'A' names no assigner; write {recipe: simclr, assigner: kmeans}"),
        ({**GALLERY, "kind": "embedding"}, {}, "kind 'embedding' shows no clusters; leave the assigner of 'A' out"),
        ({**GALLERY, "datasets": ["digit"]}, {}, "unknown data set in .*f.yaml 'digit'; did you mean 'digits'"),
        ({"kind": "gallery", "table": "table2"}, {}, "kind 'gallery' needs the key 'recipes', 'table' found"),
        ({"kind": "ranking", "metric": "ACC", "recipes": {"A": "simclr"}}, {}, "kind 'ranking' needs the key 'table'"),
        ({**GALLERY, "nearest": -1}, {}, "-1 is less than the minimum of 0"),
        ({**GALLERY, "seeds": [0, 0]}, {}, "non-unique"),
        ({"kind": "embedding", "recipes": {"A": "dcrl"}}, {"datasets": ["stl10"], "overrides": {}},
         "recipe 'dcrl' has no settings for data set 'stl10'"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_one_line_before_any_job(suite, figure, changes, message):
    """As one of the suite's figures and as a target."""
    figures, name = ({}, figure) if isinstance(figure, str) else ({"f": figure}, "f")
    with pytest.raises(ConfigError, match=message) as problem:
        suite(figures, figures=[name], **changes)
    assert "\n" not in str(problem.value)
    plan = suite(figures, **changes)
    for ending in ("png", "pdf"):
        with pytest.raises(ConfigError, match=message):
            plan.check_targets(["-n", "--cores", "all", f"./r/figures/{name}.{ending}"])
    plan.check_targets(["-n", f"other/figures/{name}.png", f"r/{name}.png", f"r/figures/{name}.csv"])


def test_pictures_of_unlabelled_data_are_drawn(suite):
    plan = suite(**STL, figures=["gallery-mixem-argmax"])
    assert plan.figures.shown("gallery-mixem-argmax")[0].run == Run(
        "stl10", "clusters", "mixem", plan.config["seeds"][0]
    )


def test_a_figure_by_name_alone_is_known_to_the_stage():
    assert entry("gallery-mixem-argmax")["recipes"] == {"mixem, argmax": {"recipe": "mixem", "assigner": "argmax"}}
    assert entry("digits_gallery")["kind"] == "gallery"
