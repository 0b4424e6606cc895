"""Mutants of where tables lie, of their columns and LaTeX, and of results.csv."""

from tests.mutants.mutant import mutants

MUTANTS = mutants(
    "pipeline/places.py",
    "tests/pipeline/test_places.py",
    other_data_sets_at_the_top=(
        "other = [key for key in DECIDE if key not in table and config[key] != found[key]]",
        "other = []",
    ),
    protocols_share_a_folder=('if "protocols" in other else []', "if False else []"),
    tables_of_their_own_data_move=("if key not in table and config", "if config"),
    every_command_is_the_first=("first = read_json(path) if path.is_file() else own", "first = own"),
    every_file_is_the_first=('and own["files"] == first["files"] else first', "else first"),
    other_recipes_in_one_folder=('or found["overrides"] == config["overrides"]', "or True"),
    results_of_another_suite_are_taken=(
        'if file is not None and _same(suite["results"], place):\n            raise',
        'if False and _same(suite["results"], place):\n            raise',
    ),
    folders_of_runs_are_taken=("if first in {*TAKEN, *of_tables}:", "if first in of_tables:"),
    two_tables_in_one_file=("        if path in held:\n", "        if False:\n"),
    targets_of_other_data_pass=('if path.endswith(f"/{name}"):', "if False:"),
)
MUTANTS += mutants(
    "pipeline/plan.py",
    "tests/pipeline/test_places.py",
    taken_folder_is_not_seen=("if places.owner(self.config, self.files) != self.owner:", "if False:"),
    files_of_the_command_are_forgotten=(
        "self.owner = places.owner(config, self.files)",
        "self.owner = places.owner(config)",
    ),
)
MUTANTS += mutants(
    "report/tables.py",
    "tests/report/test_columns.py",
    columns_of_papers_always=('of_paper_alone = bool(plan.get("paper_columns"))', "of_paper_alone = True"),
    rows_of_nothing_stay=("if not (runs or valued or", "if not (True or valued or"),
    notes_on_nothing_stay=('plan.get("reported_note") if shown else None', 'plan.get("reported_note")'),
)
MUTANTS += mutants(
    "report/latex.py",
    "tests/report/test_latex.py",
    columns_run_off_the_page=("if panel and sum(widths.values()) > room:", "if False:"),
    notes_are_lost=("for note, n in numbers.items()]", "for note, n in ()]"),
)
MUTANTS += mutants(
    "report/collect.py",
    "tests/report/test_collect.py",
    settings_are_results=('if key not in asked and key != "training_seconds"', 'if key != "training_seconds"'),
    diverged_runs_are_lost=('lines.append([*own, "", "", "", fingerprint, read.kind])', "pass"),
    fingerprint_of_the_data=('list(run["expected"].values())[-1][0]', 'list(run["expected"].values())[0][0]'),
    old_results_stay=("return not out.is_file() or", "return not out.is_file() and"),
)
MUTANTS += mutants(
    "pipeline/parts.py",
    "tests/pipeline/test_parts.py",
    parts_have_the_seeds_of_the_whole=('"seeds": len(part["seeds"]), ', ""),
    parts_have_the_data_sets_of_the_whole=("{key: part[key] for key in DECIDE if key not in entry}", "{}"),
    figures_have_the_protocol_of_the_whole=(', "protocol": part["protocols"][0]}', "}"),
    tables_of_two_parts_pass=("if twice := sorted(set(listed[key]) & set(part[key])):", "if twice := []:"),
    parts_go_by_the_whole=("return own[0] if own else chief", "return chief"),
    chosen_tables_are_lost=('chosen = {} if config["tables"] else listed', "chosen = listed"),
)
MUTANTS += mutants(
    "pipeline/runs.py",
    "tests/pipeline/test_parts.py",
    all_seeds_for_every_table=('self.config["seeds"][: table.get("seeds")]', 'self.config["seeds"]'),
)
MUTANTS += mutants(
    "report/effects.py",
    "tests/report/test_effects.py",
    one_standard_error=("else 2 * math.sqrt(sum(error", "else math.sqrt(sum(error"),
    deviations_in_place_of_errors=("else self.std**2 / self.n", "else self.std**2"),
    above_is_below=("return ABOVE if difference > 0 else BELOW", "return BELOW if difference > 0 else ABOVE"),
    a_band_beats_the_spread=(
        "allowed = band if None in errors else",
        "allowed = band if band is not None or None in errors else",
    ),
)
MUTANTS += mutants(
    "report/tables.py",
    "tests/report/test_verdicts.py",
    runs_of_a_row_are_those_of_the_table=(
        'spec.get("reported_runs", plan.get("reported_runs"))',
        'plan.get("reported_runs")',
    ),
    dashes_are_lost_cells=('return not row["mean"] and row["source"].lower() == "missing"', 'return not row["mean"]'),
    errata_of_cells_that_are_not_shown=("if metrics and (not erratum", "if True or (not erratum"),
)
MUTANTS += mutants(
    "pipeline/refusals.py",
    "tests/pipeline/test_targets.py",
    files_of_prepared_data_are_missed=("if not empty or prepared.is_file():", "if not empty:"),
)
