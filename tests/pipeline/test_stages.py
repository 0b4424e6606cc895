"""Fingerprints: what makes a stage stale and what does not, and that the real jobs record what the plan expects."""

import json
import sys

import pytest

import evaluation.assign
import evaluation.evaluate
import preparation.prepare
import training.embed
import training.mine
import training.train
from pipeline import catalogue, stages
from pipeline.provenance import canonical_json
from pipeline.record import Record, stage_fingerprint
from pipeline.runs import Run, Runs
from pipeline.stages import Stages

CONFIG = {
    "seeds": [0],
    "overrides": {
        "*": {"batch_size": 64, "schedule": {"epochs": 1}},
        "simclr_base": {"network": {"widths": [8, 16]}},
        "scan-test_unsup": {"neighbours": {"count": 4, "watched": 3}},
    },
}
RUN = Run("digits_200", "full", "scan-test_unsup", 0)  # reads all that a training can read
ASSIGNER, PROBE = "argmax", "logistic"


def chain(config=CONFIG, run=RUN):
    """stage -> what the plan says of it, for every kind of stage behind a run."""
    plan = Stages(Runs(config, {}))
    base, near = plan.runs.base(run), plan.runs.neighbours(run)
    return {
        "prepare": plan.prepare(run.dataset),
        "base": plan.train(base),
        "embed base": plan.embed(base),
        "neighbours": plan.mine(base, near["neighbours"]),
        "watched": plan.mine(base, near["watched"]),
        "train": plan.train(run),
        "embed": plan.embed(run),
        "assign": plan.assign(run, ASSIGNER),
        "score": plan.score(run, ASSIGNER),
        "probe": plan.probe(run, PROBE),
    }


def changed(*more, **changes):
    one, other = chain(), chain(*more, **changes)
    return {stage for stage in one if one[stage].fingerprint != other[stage].fingerprint}


EVERYTHING = set(chain())
OWN = {"train", "embed", "assign", "score", "probe"}
OF_BASE = {"base", "embed base", "neighbours", "watched"}


# ---- one fact, one fingerprint

FACTS = {
    "stage": "train",
    "code": "c",
    "settings": {"recipe": {"lr": 0.1, "terms": ["a", "b"]}, "protocol": {"name": "full", "train": ["train"]}},
    "inputs": {"data": "d", "base": "b", "neighbours": "n", "watched": "w", "features": "f", "clusters": "k"},
    "seed": 0,
}


def test_each_fact_alone_changes_the_fingerprint():
    own = stage_fingerprint(**FACTS)
    others = [FACTS | {key: value} for key, value in (("stage", "embed"), ("code", "e"), ("seed", 1), ("seed", None))]
    others += [FACTS | {"inputs": FACTS["inputs"] | {name: "other"}} for name in FACTS["inputs"]]
    others += [
        FACTS | {"inputs": {key: value for key, value in FACTS["inputs"].items() if key != name}}
        for name in FACTS["inputs"]
    ]
    swapped = FACTS["inputs"] | {"neighbours": "w", "watched": "n"}
    others += [FACTS | {"inputs": swapped}]
    for recipe in ({"lr": 0.2, "terms": ["a", "b"]}, {"lr": 0.1, "terms": ["b", "a"]}, {"terms": ["a", "b"]}):
        others += [FACTS | {"settings": FACTS["settings"] | {"recipe": recipe}}]
    found = [stage_fingerprint(**facts) for facts in others]
    assert own not in found
    assert len(set(found)) == len(found)


def test_the_order_of_keys_is_no_fact_and_a_record_is_of_the_same_facts():
    turned = {key: dict(reversed(value.items())) if isinstance(value, dict) else value for key, value in FACTS.items()}
    assert stage_fingerprint(**turned) == stage_fingerprint(**FACTS)
    record = Record("train", ("training.mine",), FACTS["settings"], FACTS["inputs"], 0)
    code = record.facts["code"]
    assert record.facts["fingerprint"] == stage_fingerprint(**FACTS | {"code": code})
    other = Record("train", ("training.mine",), FACTS["settings"], FACTS["inputs"], 1)
    assert other.facts["fingerprint"] != record.facts["fingerprint"]
    assert record.finish("diverged", seconds=3)["fingerprint"] == record.facts["fingerprint"]


# ---- what reaches which stage


def test_nothing_changes_by_itself():
    assert changed() == set()
    surroundings = {"device": "cuda", "devices": 2, "results": "elsewhere", "suite": "other", "strict": True}
    assert changed({**CONFIG, **surroundings}) == set()
    other = CONFIG["overrides"] | {"mixem": {"batch_size": 32}}
    assert changed({**CONFIG, "overrides": other}) == set()


def test_a_seed_reaches_all_but_the_data():
    assert changed(run=Run(RUN.dataset, RUN.protocol, RUN.recipe, 1)) == EVERYTHING - {"prepare"}


@pytest.mark.parametrize(
    ("recipe", "change", "expected"),
    [
        ("scan-test_unsup", {"weights": {"entropy": 2}}, OWN),
        ("scan-test_unsup", {"optimiser": {"lr": 0.5}}, OWN),
        ("simclr_base", {"settings": {"temperature": 0.4}}, OF_BASE | OWN),
        ("scan-test_unsup", {"neighbours": {"count": 5}}, {"neighbours"} | OWN),
        ("scan-test_unsup", {"neighbours": {"watched": 4}}, {"watched"} | OWN),
        ("scan-test_unsup", {"neighbours": {"array": "h"}}, {"neighbours", "watched"} | OWN),
    ],
)
def test_a_setting_reaches_its_stage_and_what_follows(recipe, change, expected):
    overrides = {**CONFIG["overrides"], recipe: {**CONFIG["overrides"].get(recipe, {}), **change}}
    if "neighbours" in change:
        overrides[recipe]["neighbours"] = CONFIG["overrides"][recipe]["neighbours"] | change["neighbours"]
    assert changed({**CONFIG, "overrides": overrides}) == expected


@pytest.mark.parametrize(
    ("kind", "name", "change", "expected"),
    [
        ("data set", "digits_200", {"normalisation": {"mean": [0.3], "std": [0.4]}}, EVERYTHING),
        ("protocol", "full", {"train": ["train"]}, (OF_BASE - {"watched"}) | {"watched", *OWN}),
        ("protocol", "full", {"fit": ["train"]}, {"assign", "score"}),
        ("protocol", "full", {"seen": ["train"]}, {"assign", "score"}),
        ("protocol", "full", {"probe": {"train": ["test"], "test": ["test"]}}, {"probe"}),
        ("protocol", "full", {"title": "another title"}, set()),
        ("assigner", ASSIGNER, {"features": "z"}, {"assign", "score"}),
        ("probe", PROBE, {"C": 2.0}, {"probe"}),
        ("assigner", "kmeans", {"n_init": 1}, set()),
        ("probe", "linear", {"lr": 1}, set()),
    ],
)
def test_an_entry_reaches_its_stage_and_what_follows(kind, name, change, expected, monkeypatch):
    before, read = chain(), catalogue.entry
    monkeypatch.setattr(catalogue, "entry", lambda k, n: {**read(k, n), **(change if (k, n) == (kind, name) else {})})
    after = chain()
    assert {stage for stage in before if before[stage].fingerprint != after[stage].fingerprint} == expected


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        ("preparation.prepare", EVERYTHING),
        ("training.train", (OF_BASE | OWN)),
        ("methods.simclr", OF_BASE | OWN),
        ("methods.scan", OWN),
        ("training.embed", {"embed base", "neighbours", "watched"} | OWN),
        ("training.mine", {"neighbours", "watched"} | OWN),
        ("evaluation.assign", {"assign", "score"}),
        ("evaluation.assigners.argmax", {"assign", "score"}),
        ("evaluation.metrics.nmi", {"score"}),
        ("evaluation.probes.logistic", {"probe"}),
        ("evaluation.evaluate", {"score", "probe"}),
        ("evaluation.probes.knn", set()),
        ("methods.mixem", set()),
    ],
)
def test_code_reaches_the_stages_that_run_it_and_what_follows(module, expected, monkeypatch):
    """An edit of one root; what modules import is the business of tests/pipeline/test_provenance.py."""
    before, own = chain(), stages.code_version
    monkeypatch.setattr(stages, "code_version", lambda *roots: own(*roots) + ("edited" if module in roots else ""))
    after = chain()
    assert {stage for stage in before if before[stage].fingerprint != after[stage].fingerprint} == expected


# ---- the real jobs


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """stage -> the record that the real job wrote, every kind of stage once, in this process."""
    folder, plan = tmp_path_factory.mktemp("run"), Stages(Runs(CONFIG, {}))
    data, out = folder / "data", {name: folder / name for name in ("base", "own")}
    base, near = plan.runs.base(RUN), plan.runs.neighbours(RUN)
    patch = pytest.MonkeyPatch()
    patch.setenv("BENCH_DEVICE", "cpu")

    def run(module, *words):
        patch.setattr(sys, "argv", [module.__name__, *map(str, words)])
        module.main()

    run(preparation.prepare, "--dataset", RUN.dataset, "--out", data)
    where = ("--data", data, "--protocol", RUN.protocol, "--seed", RUN.seed)
    files = {use: out["base"] / f"{use}.npz" for use in near}
    more = {
        "base": (),
        "own": ("--base", out["base"] / "model.pt", *(w for use in near for w in (f"--{use}", files[use]))),
    }
    for name, one in (("base", base), ("own", RUN)):
        recipe = canonical_json(plan.runs.recipe(one))
        run(training.train, *where, "--recipe", recipe, "--out", out[name], "--resume", folder, *more[name])
        run(training.embed, "--data", data, "--model", out[name] / "model.pt", "--out", out[name])
        if name == "base":
            for use, asked in near.items():
                words = ("--array", asked.array, "--count", asked.count, "--splits", *asked.splits, "--out", files[use])
                run(training.mine, "--data", data, "--features", out[name] / "features.npz", *words)
    features, clusters = ("--features", out["own"] / "features.npz"), out["own"] / f"{ASSIGNER}.npz"
    run(evaluation.assign, *where, *features, "--assigner", ASSIGNER, "--out", clusters)
    asked = ("--clusters", clusters, "--probes", PROBE, "--out", out["own"] / "metrics.json")
    run(evaluation.evaluate, *where, *features, *asked)
    patch.undo()

    def records(*path):
        return json.loads(folder.joinpath(*path).read_text())["records"]

    score = records("own", "metrics", "clustering", f"{ASSIGNER}.json")
    return {
        "prepare": json.loads((data / "card.json").read_text())["record"],
        "base": records("base", "train.json")["train"],
        "embed base": records("base", "features.json")["embed"],
        **{use: records("base", f"{use}.json")["mine"] for use in near},
        **{name: score[name] for name in ("train", "embed")},
        "assign": score[f"assign/{ASSIGNER}"],
        "score": score[f"score/{ASSIGNER}"],
        "probe": records("own", "metrics", f"{PROBE}.json")[f"probe/{PROBE}"],
    }


@pytest.mark.parametrize("stage", sorted(EVERYTHING))
def test_the_real_job_records_what_the_plan_expects(recorded, stage):
    expected, found = chain()[stage], recorded[stage]
    assert found["status"] == "ok"
    assert found["settings"] == json.loads(json.dumps(expected.settings))
    assert found["code"] == expected.code
    assert found["fingerprint"] == expected.fingerprint


def test_the_real_jobs_name_all_that_they_read(recorded):
    inputs = {stage: record["inputs"] for stage, record in recorded.items()}
    made = {stage: record["fingerprint"] for stage, record in recorded.items()}
    assert inputs == {
        "prepare": {},
        "base": {"data": made["prepare"]},
        "embed base": {"model": made["base"]},
        "neighbours": {"features": made["embed base"]},
        "watched": {"features": made["embed base"]},
        "train": {
            "data": made["prepare"], "base": made["base"], "neighbours": made["neighbours"], "watched": made["watched"],
        },
        "embed": {"model": made["train"]},
        "assign": {"features": made["embed"]},
        "score": {"clusters": made["assign"]},
        "probe": {"features": made["embed"]},
    }  # fmt: skip
    seeds = {stage: record["seed"] for stage, record in recorded.items()}
    assert {stage for stage, seed in seeds.items() if seed == 0} == {"base", "train", "assign", "probe"}
