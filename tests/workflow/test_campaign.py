"""The short form of the campaign (`python -m tests.campaign`): single stages on damaged files, and one kill."""

import dataclasses
import random
import re

import pytest

from tests.campaign import kills, resumption
from tests.campaign.case import Lost, Setting
from tests.campaign.damage import KINDS, Damage
from tests.campaign.site import RESULTS

# Files that no stage reads, or that are damaged by cases of their own (tests/campaign: changes, resumption, tracker;
# what assigners learnt: tests/pipeline/test_predict.py).
OTHERS = (
    r"logs/.*|\.lock|\.sources\.json|\.suite\.json|\.id|table2\..*|results\.csv|mlflow\.(db|json)|mlartifacts/.*"
    r"|.*/clusters/.*\.fit\.npz|figures/.*|report/.*|\.resume/.*"
)


@pytest.fixture
def setting(smoke, tmp_path, request):
    return Setting(tmp_path, smoke.root, random.Random(request.node.name))


@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_damaged_files_are_refused_with_path_and_cure_or_made_anew(setting, kind):
    short = dataclasses.replace(kind, flips=1)
    outcome = Damage(short, setting.finished / RESULTS, setting.folder, setting.chance).all()
    assert outcome.told
    assert all("error: " in line or "warning: " in line for line in outcome.told)


def test_damaged_resume_state_costs_steps_and_no_bit(setting):
    assert "falling back to the state before" in next(iter(resumption.damaged(setting).told))


def test_a_killed_run_goes_on_with_the_same_command(setting):
    assert "its lock is removed" in next(iter(kills.killed_once(setting).told))


def test_every_kind_of_file_in_the_results_is_damaged_by_some_case(smoke):
    known = [re.sub(r"(data|full|clustering|clusters|neighbours)/[^/.]+", r"\1/x", kind.path) for kind in KINDS]
    for path in (smoke.root / RESULTS).rglob("*"):
        name = path.relative_to(smoke.root / RESULTS).as_posix()
        if path.is_dir() or re.fullmatch(OTHERS, name) or name.startswith(".plan/"):
            continue
        kind = re.sub(r"(data|full|clustering|clusters|neighbours)/[^/.]+", r"\1/x", name)
        kind = re.sub(r"metrics/[^/]+\.json", "metrics/clustering/x.json", kind)
        assert kind in known or path.name == "metrics.json", name


def test_a_reader_that_believes_damage_is_a_loss(setting, monkeypatch):
    """The campaign itself notices: a stage that reads flipped clusters would print other numbers."""
    import preparation.arrays

    monkeypatch.setattr(preparation.arrays, "verified", lambda path, record: path)
    (kind,) = [kind for kind in KINDS if kind.name == "clusters.npz"]
    damage = Damage(kind, setting.finished / RESULTS, setting.folder, setting.chance)
    damage.swap(damage.path, setting.chance)
    with pytest.raises(Lost, match=r"clusters.npz.*metrics/clustering/kmeans.json says something else"):
        damage.read("evaluate simclr_base", "swap")
