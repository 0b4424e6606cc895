"""Claims judged on a finished suite: only the plan and the verdicts are made, from what is there."""

import csv
import re
from collections import Counter

from report.gathered import gather
from report.papers import overview


def test_claims_are_judged_on_the_runs_of_a_finished_suite(smoke):
    target = "results/smoke/claims.csv"
    words = ("--config", "claims=[mixem.far_above_simclr,mixem.small_deviation]", "track=false")
    planned = smoke.snakemake(target, "--dry-run", *words)
    text = planned.stdout + planned.stderr
    assert set(re.findall(r"^(?:local)?rule (\w+):", text, re.M)) == {"write_plan", "claims"}, text
    done = smoke.snakemake(target, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    path = smoke.root / target
    with open(path, newline="") as file:
        better, spread = csv.DictReader(file)
    assert [better["stand_in"], better["n"], better["verdict"]] == ["data set", "1", "undecided"]
    assert abs(float(better["effect"]) - float(better["first_mean"]) + float(better["second_mean"])) < 0.01
    assert [spread["n"], spread["effect"], spread["verdict"]] == ["1", "", "undecided"]
    assert "stand-ins" in path.with_suffix(".md").read_text()
    for ending in (".csv", ".md"):
        path.with_suffix(ending).unlink()


def test_a_finished_suite_is_gathered_with_the_claims_of_all_papers(smoke, monkeypatch):
    monkeypatch.chdir(smoke.root)
    found = gather([smoke.root / "results/smoke"])
    tables = {table.table: (table.paper, table.suite) for table in found.tables}
    assert tables == {"table2": ("mixem", "smoke")}
    judged = [line for line in found.lines if line["verdict"] != "not run"]
    assert {line["claim"].partition(".")[0] for line in judged} >= {"mixem", "cdc"}
    assert {(line["n"], line["stand_in"], line["suite"]) for line in judged} == {
        ("1", where, "smoke") for where in ("data set", "data set, protocol")
    }
    assert len({line["claim"] for line in found.lines}) == 122
    assert Counter(line["claim"] for line in found.lines if line["verdict"] == "not run").most_common(1)[0][1] == 1
    assert "| MIX'EM | " in overview(found, "x")
