"""Mutants of the report page."""

from tests.mutants.mutant import mutants

PAGE = mutants(
    "report/page_tables.py",
    "tests/report/test_page.py",
    page_numbers_of_the_paper_for_ours=(
        "return Field(text, repr(cell.mean), cell.rank,",
        "return Field(text, repr(cell.reported), cell.rank,",
    ),
    page_sorts_paper_by_ours=("return Field(text, repr(cell.reported),", "return Field(text, repr(cell.mean),"),
    page_hides_what_is_missing=("pair in filled or pair[0] in run - held", "pair in filled"),
    page_without_labels_says_nothing=('return "no labels"', 'return ""'),
    page_crosses_seeds_and_fingerprints=(
        "zip(origin.read, fingerprints, strict=True)",
        "zip(origin.read, fingerprints[::-1], strict=True)",
    ),
    page_of_clean_source=(
        'git.get("commit", "") + (f", {DIRTY}" if git.get("dirty") else "")',
        'git.get("commit", "")',
    ),
)
PAGE += mutants(
    "report/page_cards.py",
    "tests/report/test_page_parts.py",
    costs_of_stale_results=(
        'record.get("fingerprint") != source["fingerprint"] or "seconds" not in record',
        '"seconds" not in record',
    ),
    cards_of_other_data=('card["record"]["fingerprint"] != source["fingerprint"]', "False"),
)
PAGE += mutants(
    "report/page_curves.py",
    "tests/report/test_page_parts.py",
    curves_of_stale_runs=('.get("fingerprint") not in (source["fingerprint"], None)', '.get("fingerprint") == ""'),
    curves_upside_down=("_Axis(min(values), max(values), BOTTOM, TOP)", "_Axis(min(values), max(values), TOP, BOTTOM)"),
)
PAGE += mutants(
    "report/page.py",
    "tests/report/test_page.py",
    page_believes_what_it_shows=("autoescape=True", "autoescape=False"),
    failed_page_takes_the_place_of_the_page=("with whole(partial if arguments.partial else out", "with whole(out"),
    newest_plans_are_the_oldest=(
        "key=lambda path: path.stat().st_mtime_ns)",
        "key=lambda path: -path.stat().st_mtime_ns)",
    ),
)
PAGE += mutants(
    "pipeline/plan.py",
    "tests/workflow/test_report.py",
    page_layout_is_no_code=(
        'fingerprint(code=code_version("report.page"), files=files)',
        'fingerprint(code=code_version("report.page"))',
    ),
)

MUTANTS = PAGE
MUTANTS += mutants(
    "report/verify.py",
    "tests/report/test_reference.py",
    bits_of_one_seed_are_enough=("if all(mine[seed][", "if any(mine[seed]["),
    failures_are_numbers=("if any(_status(side[seed]) for side", "if False and any(_status(side[seed]) for side"),
    noise_of_common_seeds=("return NOISE if against(*samples) == WITHIN", "return NOISE if True"),
    different_ends_well=("if counts[DIFFERENT]:", "if False:"),
)
MUTANTS += mutants(
    "report/reference.py",
    "tests/report/test_reference.py",
    edited_sources_are_published=('if git and git["dirty"] and not edited:', "if False:"),
    any_columns_are_a_reference=("if tuple(rows.fieldnames or ()) != COLUMNS:", "if False:"),
)
MUTANTS += mutants(
    "report/publish.py",
    "tests/report/test_reference.py",
    failed_runs_are_published=('elif line["status"] == FAILED:', "elif False:"),
    unfinished_suites_are_published=("    if problems:\n", "    if False:\n"),
)
