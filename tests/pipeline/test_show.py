from pipeline import catalogue, recipes, show
from tests.conftest import ROOT


def line(lines, key):
    return next(text for text in lines if text.split()[0] == key)


def test_each_value_stands_with_its_file_and_comment():
    lines = show.shown("mixem", "digits")
    assert "0.5 " in line(lines, "weights.inst_ent")
    assert "config/recipes/mixem.yaml  # ours, label-free: docs/methods.md" in line(lines, "weights.inst_ent")
    assert "config/recipes/mixem.yaml  # released config" in line(lines, "weights.push")
    assert "config/families/digits.yaml -> config/augmentations/digits.yaml" in line(lines, "augmentation.noise.std")
    assert "as its base simclr_base: config/families/digits.yaml" in line(lines, "network.widths")


def test_the_value_shown_is_the_value_used():
    """Every leaf of the resolved recipe is shown, and none besides."""
    for name, dataset in (("scan", "cifar100_20"), ("byol", "imagenet100"), ("pcl-sampled", "imagenet1k")):
        resolved = {key: value for key, value in recipes.resolve(name, dataset).items() if key != "name"}
        wanted = {".".join(keys) for keys, _ in show.leaves(resolved)}
        assert {text.split()[0] for text in show.shown(name, dataset)} == wanted


def test_overrides_of_a_suite_are_named():
    overrides = show.suite_overrides("smoke")
    assert "overrides.*" in line(show.shown("mixem", "digits_200", overrides), "batch_size")
    assert "overrides.mixem" in line(show.shown("mixem", "digits_200", overrides), "schedule.epochs")


def test_difference_names_what_two_recipes_do_not_share():
    lines = show.difference("mixem", "mixem-paper", "digits")
    assert "settings.follow: code | paper" in lines
    assert not any(text.startswith("optimiser") for text in lines)
    assert show.difference("mixem", "mixem", "digits")[1:] == ["no difference"]


def test_listing_names_everything():
    lines = {text.strip().split(" ")[0] for text in show.listing()}
    for kind in ("data set", "family", "augmentation", "table", "assigner", "probe", "metric"):
        assert set(catalogue.names(kind)) <= lines
    assert set(recipes.names()) <= lines
    assert {"smoke", "digits_all"} <= lines


def test_the_command(project):
    done = project.stage("pipeline.show", "mixem", "digits", "--diff", "simclr")
    assert done.returncode == 0, done.stderr
    assert "method: mixem | simclr" in done.stdout
    bad = project.stage("pipeline.show", "mixen", "digits")
    assert bad.returncode == 1
    assert bad.stderr.startswith("error: unknown recipe 'mixen'; did you mean 'mixem'?")
    assert (ROOT / "pipeline/show.py").is_file()
