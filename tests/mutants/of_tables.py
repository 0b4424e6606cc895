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
