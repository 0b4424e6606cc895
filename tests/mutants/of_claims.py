"""Mutants of claims: their plan, their statistics and the stage that judges them."""

from tests.mutants.mutant import mutants

MUTANTS = mutants(
    "report/effects.py",
    "tests/report/test_effects.py",
    two_seeds_decide=("FEWEST = 3", "FEWEST = 2"),
    one_sided_intervals=("(1 + LEVEL) / 2, n - 1)) * statistics.stdev", "LEVEL, n - 1)) * statistics.stdev"),
    seeds_paired_by_position=(
        "seeds = sorted(first if second is None else set(first) & set(second))",
        "seeds = sorted(first)",
    ),
    margins_reversed=('margin, strict = (by, True) if kind == "better" else (-by, False)', "margin, strict = by, True"),
    lower_is_never_better=('if better == "higher" else', "if True else"),
    touching_is_contradicted=(
        "return CONTRADICTED if high < self.low or",
        "return CONTRADICTED if high <= self.low or",
    ),
    one_good_part_will_do=(
        "(CONTRADICTED, NOT_RUN, UNDECIDED, SUPPORTED)",
        "(SUPPORTED, UNDECIDED, NOT_RUN, CONTRADICTED)",
    ),
    spreads_upside_down=(
        "statistics.stdev(ours) / statistics.stdev(theirs)",
        "statistics.stdev(theirs) / statistics.stdev(ours)",
    ),
)
MUTANTS += mutants(
    "report/claims.py",
    "tests/report/test_claims.py",
    nothing_is_taken_off=("value - less[seed]", "value"),
    values_are_not_scaled=("read.result[name] * scale", "read.result[name]"),
    diverged_runs_are_not_there=('or read.kind == "diverged"', ""),
    collapsed_runs_are_fine=(' or read.train.get("at_chance")', ""),
    stand_ins_count=('if bool(line["stand_in"]) is stands]', "]"),
    means_of_other_seeds=("if seed in shared or not shared]", "]"),
)
MUTANTS += mutants(
    "pipeline/claims.py",
    "tests/pipeline/test_claims.py",
    everything_is_the_papers=("if here not in claim[own]", "if False"),
    exceptions_are_judged=(' or dataset in claim.get("not_on", [])', ""),
    claims_of_one_set_everywhere=('or (asked and claim["stand_ins"])', "or asked"),
    every_protocol_is_the_suites=(
        'figure.get("protocol", case.protocol),\n                self.row',
        "case.protocol,\n                self.row",
    ),
    impossible_runs_are_planned=("return [] if case.why_not else [", "return [] if False else ["),
)
