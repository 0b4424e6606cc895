"""Which claims a suite asks for, on which data, with which runs; and what stands in the files of config/claims."""

import json

import pytest
import yaml

from pipeline import catalogue
from pipeline.claim_plans import papers_own
from pipeline.claims import names, paper
from pipeline.naming import ConfigError
from pipeline.plan import Plan
from pipeline.runs import Run
from report.effects import bounds

ROWS = {
    "mixem": {"label": "M", "recipe": "mixem", "assigner": "argmax", "reported": {"t": {"method": "m", "part": "/x"}}},
    "simclr": {"label": "S", "recipe": "simclr", "assigner": "kmeans"},
    "probe": {"label": "P", "recipe": "simclr", "probe": "knn"},
}
BETTER = {"says": "it is", "place": "Table 1", "datasets": ["digits_200"], "kind": "better", "row": "mixem",
          "than": ["simclr"], "metrics": ["ACC"]}  # fmt: skip


@pytest.fixture
def claims(tmp_path, monkeypatch):
    """Writes the claims of a paper `mine`."""
    monkeypatch.setattr(catalogue, "OWN", tmp_path / "own")

    def write(**found):
        content = {"title": "Mine", "reported": "cdc_mixem", "protocols": ["full"], "rows": ROWS, "claims": found}
        (tmp_path / "own/claims").mkdir(parents=True, exist_ok=True)
        (tmp_path / "own/claims/mine.yaml").write_text(yaml.safe_dump(content, sort_keys=False))

    return write


def config(**changes):
    default = catalogue.read_yaml(catalogue.CONFIG / "config.yaml")
    small = {"datasets": ["digits_200"], "overrides": {"*": {"batch_size": 64}}, "tables": ["table3"], "seeds": [0, 1]}
    return default | small | {"claims": ["mine"]} | changes


def cases(**changes):
    return [(c.dataset, c.protocol, c.stand_in, c.why_not) for c in Plan(config(**changes)).claims.cases]


def test_a_claim_plans_exactly_the_runs_it_needs(claims):
    claims(one=BETTER, other=BETTER | {"row": "probe"})
    one = [Run("digits_200", "full", recipe, seed) for recipe in ("mixem", "simclr") for seed in (0, 1)]
    plan = Plan(config(claims=["mine.one"], tables=["uniclr_symmetry"]))
    assert plan.claims.runs() == one
    assert plan.metrics_of(plan.claims.runs()) == [f"results/{run.path}/metrics.json" for run in one]
    assert set(one) < set(plan.runs.all())  # with their bases, and those of the table
    assert plan.runs.assigners(one[0]) == ("argmax",)
    assert plan.runs.probes(one[2]) == ()
    assert Plan(config(claims=["mine"])).runs.probes(one[2]) >= ("knn",)
    assert {run.recipe for run in Plan(config(claims=["mine.other"])).claims.runs()} == {"simclr"}


def test_without_claims_there_is_no_plan_of_them(claims):
    plan = Plan(config(claims=[]))
    assert not [name for name in plan.plan_texts if name.startswith("claims")]
    assert plan.claims.tables() == {}
    with pytest.raises(
        ConfigError, match=r"results/digits_200/claims.csv: no claims asked for; add --config claims=\["
    ):
        plan.check_targets(["results/digits_200/claims.csv"])


def test_other_data_and_other_protocols_stand_in(claims):
    claims(one=BETTER)
    found = cases(datasets=["digits_200", "digits"], protocols=["full", "split"])
    assert found == [
        ("digits_200", "full", "", ""),
        ("digits", "full", "data set", ""),
        ("digits_200", "split", "protocol", ""),
        ("digits", "split", "data set, protocol", ""),
    ]


def test_a_claim_may_be_of_its_data_sets_alone_or_except_one(claims):
    claims(
        one=BETTER, other=BETTER | {"stand_ins": False}, third=BETTER | {"datasets": ["stl10"], "not_on": ["digits"]}
    )
    two = {"datasets": ["digits_200", "digits"]}
    assert [case[0] for case in cases(claims=["mine.one"], **two)] == ["digits_200", "digits"]
    assert [case[0] for case in cases(claims=["mine.other"], **two)] == ["digits_200"]
    assert [case[0] for case in cases(claims=["mine.third"], **two)] == ["digits_200"]


def test_tables_bring_the_papers_own_data_sets(claims):
    claims(one=BETTER | {"datasets": ["imagenet1k"], "protocols": ["split"], "row": "probe", "than": ["probe"]})
    found = cases(tables=["pcl_table4"])
    assert [case[:3] for case in found] == [
        ("digits_200", "full", "data set, protocol"),
        ("imagenet1k", "split", ""),
    ]


def test_what_cannot_be_judged_says_why_and_plans_nothing(claims):
    no_test = BETTER | {
        "row": {"row": "mixem", "protocol": "unlabeled"},
        "than": [{"row": "simclr", "protocol": "full"}],
    }
    claims(one=BETTER, no=no_test, lacks={"says": "s", "place": "p", "datasets": ["stl10"], "lacks": "no such stage"})
    plan = Plan(config())
    one, no, lacks = plan.claims.cases
    assert (one.why_not, lacks.why_not) == ("", "no such stage")
    assert "which data set 'digits_200' does not have" in no.why_not
    assert {run.protocol for run in plan.claims.runs()} == {"full"}
    with pytest.raises(ConfigError, match=r"claims: none of mine.lacks can be judged on digits_200; .*no such stage"):
        Plan(config(claims=["mine.lacks"]))


def test_the_plan_names_rows_runs_and_figures(claims):
    less = {"row": "mixem", "minus": {"row": "simclr", "metric": "NMI"}}
    claims(one=BETTER | {"row": less, "than": ["simclr", {"row": "simclr", "protocol": "split"}], "by": 2})
    plan = Plan(config())
    text = next(text for name, text in plan.plan_texts.items() if name.startswith("claims-"))
    found = json.loads(text)
    (case,) = found["cases"]
    assert (case["kind"], case["by"], case["protocol"]) == ("better", 2, "full")
    assert [part["second"]["row"] for part in case["parts"]] == [
        "mine.simclr digits_200 full",
        "mine.simclr digits_200 split",
    ]
    first = case["parts"][0]["first"]
    assert (first["metric"], first["minus"]["metric"], first["minus"]["row"]) == (
        "ACC",
        "NMI",
        "mine.simclr digits_200 full",
    )
    assert case["parts"][1]["second"]["label"] == "S, split"
    row = found["rows"]["mine.simclr digits_200 split"]
    assert [run["folder"] for run in row["runs"]] == [
        f"results/runs/digits_200/split/simclr/seed{seed}" for seed in (0, 1)
    ]
    assert {"train", "assign/kmeans", "score/kmeans"} <= set(row["runs"][0]["expected"])
    assert set(found["metrics"]) == {"ACC", "NMI"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"row": "mixen"}, "unknown row in .*mine.yaml, claim 'one': 'mixen'; did you mean 'mixem'"),
        ({"than": [{"row": "simclr", "minus": "pobe"}]}, "unknown row .* 'pobe'; did you mean 'probe'"),
        ({"metrics": ["AC"]}, "unknown metric .*'AC'; did you mean"),
        ({"datasets": ["digit"]}, "unknown data set .* 'digit'; did you mean 'digits'"),
        ({"protocols": ["ful"]}, "unknown protocol .* 'ful'; did you mean 'full'"),
        ({"kind": "beter"}, "'beter' is not one of"),
        ({"kind": "unchanged"}, "claim 'one': kind 'unchanged' needs the key 'within'"),
        ({"within": 3}, "claim 'one': kind 'better' has no key 'within'"),
        ({"kind": "ratio"}, "kind 'ratio' needs one of the keys at_least, at_most"),
        (
            {"metrics": ["effective_rank"]},
            "neither more nor less of 'effective_rank' is better; say kind higher or lower",
        ),
        ({"byy": 3}, "unknown key 'byy'; did you mean 'by'"),
    ],
)
def test_a_wrong_claim_is_named(claims, change, message):
    claims(one=BETTER | change)
    with pytest.raises(ConfigError, match=message):
        Plan(config())


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (["mini"], "unknown paper with claims 'mini'; did you mean 'mine'"),
        (["mine.oe"], "unknown claim of mine 'oe'; did you mean 'one'"),
        (["mine", "mine"], "claims: 'mine' stands twice"),
    ],
)
def test_unknown_claims_are_named(claims, asked, message):
    claims(one=BETTER)
    with pytest.raises(ConfigError, match=message):
        Plan(config(claims=asked))


# ---- config/claims


def test_the_five_papers_have_sixty_claims_that_runs_can_tell():
    assert {"cdc", "dcrl", "mixem", "pcl", "uniclr"} <= set(names())
    assert sum("kind" in claim for name in names() for claim in paper(name)["claims"].values()) >= 60


@pytest.mark.parametrize("name", ["cdc", "dcrl", "mixem", "pcl", "uniclr"])
def test_a_claim_that_the_papers_own_figures_deny_says_so(name):
    found = paper(name)
    for key, claim in found["claims"].items():
        if claim.get("kind") in (None, "degenerate", "spread", "ratio"):
            continue
        denied = False
        for own in papers_own(found, claim):
            within = bounds(claim, catalogue.entry("metric", own["metric"])["better"])
            effect = own["first"] - (own["second"] or 0)
            denied |= within.verdict(effect, effect) != "supported"
        assert denied == ("disagrees" in claim), (name, key)


def test_the_papers_own_figures_are_those_of_the_reported_file():
    found = paper("mixem")
    (own,) = papers_own(found, found["claims"]["every_term_improves"])
    assert own == {"dataset": "STL10", "metric": "ACC", "first": 69.88, "second": 69.95, "than": "SimCLR, K-means"}
    drop = papers_own(paper("dcrl"), paper("dcrl")["claims"]["dec_and_ae_drop"])
    assert [round(own["first"], 6) for own in drop] == [9.3]  # fractions in the file, 84.1 less 74.8
