"""The catalogue: config/ and, of the same layout, a user's own folder."""

import pytest
import yaml

from pipeline import catalogue, recipes, show
from pipeline.naming import ConfigError


@pytest.fixture
def own(tmp_path, monkeypatch):
    monkeypatch.setattr(catalogue, "OWN", tmp_path / "own")
    return tmp_path / "own"


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(content))


def test_own_files_are_known_beside_those_of_the_project(own):
    digits = catalogue.entry("data set", "digits")
    write(own / "datasets" / "mine.yaml", digits | {"title": "mine"})
    assert catalogue.entry("data set", "mine")["title"] == "mine"
    assert set(catalogue.names("data set")) > {"mine", "digits"}
    assert recipes.resolve("simclr", "mine")["network"] == recipes.resolve("simclr", "digits")["network"]


def test_own_entries_of_files_of_many_names(own):
    write(own / "assigners.yaml", {"mine": catalogue.entry("assigner", "kmeans") | {"n_init": 7}})
    assert catalogue.entry("assigner", "mine")["n_init"] == 7
    assert catalogue.entry("assigner", "kmeans")["n_init"] == 50
    assert any(line.split()[:1] == ["mine"] for line in show.listing())


def test_own_files_of_many_names_may_be_empty_but_are_no_lists(own):
    own.mkdir()
    (own / "assigners.yaml").write_text("# mine: {algorithm: kmeans}\n")
    assert "kmeans" in catalogue.names("assigner")
    (own / "probes.yaml").write_text("- mine\n")
    with pytest.raises(ConfigError, match=r"own/probes.yaml: a list found; `name: settings` of each entry expected"):
        catalogue.names("probe")


def test_own_recipes_extend_those_of_the_project(own):
    write(own / "recipes" / "mine.yaml", {"extends": "simclr", "families": {}, "batch_size": 17})
    assert recipes.resolve("mine", "digits")["batch_size"] == 17
    assert "mine" in recipes.names()


@pytest.mark.parametrize(("part", "content"), [("datasets/digits.yaml", {}), ("assigners.yaml", {"kmeans": {}})])
def test_a_name_in_both_is_refused(own, part, content):
    write(own / part, content)
    kind = "data set" if "datasets" in part else "assigner"
    with pytest.raises(ConfigError, match=r"stands in config/.* already; rename your own"):
        catalogue.names(kind)


def test_an_error_names_the_own_file(own):
    write(own / "datasets" / "mine.yaml", catalogue.entry("data set", "digits") | {"tittle": "x"})
    with pytest.raises(ConfigError, match=r"own/datasets/mine.yaml: unknown key 'tittle'; did you mean 'title'"):
        catalogue.entry("data set", "mine")


def test_what_one_schema_allowed_is_no_pass_for_another_or_for_what_equals_it():
    """What was found sound is not checked again; what is refused is refused each time."""
    sound = catalogue.entry("data set", "digits")
    catalogue.check({**sound, "classes": 1}, "dataset", "here")
    for value, schema in (({**sound, "classes": True}, "dataset"), ({**sound, "classes": 1}, "protocol")):
        for _ in range(2):
            with pytest.raises(ConfigError, match="here"):
                catalogue.check(value, schema, "here")
