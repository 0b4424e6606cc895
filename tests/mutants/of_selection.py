"""Mutants of selection.csv: its runs, its criteria and its statistics."""

from tests.mutants.mutant import mutants

MUTANTS = mutants(
    "report/choice.py",
    "tests/report/test_choice.py",
    nine_seeds_decide_a_choice=("FEWEST = 10", "FEWEST = 9"),
    the_worst_run_is_chosen=("named = int(by.argmax())", "named = int(by.argmin())"),
    misleading_helps=("if self.spearman.low > 0:", "if self.spearman.value > 0:"),
    perfect_orders_are_certain=("most = 1 - 6 / (n * (n * n - 1))", "most = 1 - 1e-12"),
    ranks_are_values=("rankdata(first), rankdata(second)", "first, second"),
    gain_without_the_mean=("chosen - of_draw.mean(1)", "chosen"),
    chosen_by_accuracy=("reached[drawn[np.arange(len(drawn)), by[drawn].argmax(1)]]", "of_draw.max(1)"),
)
MUTANTS += mutants(
    "report/criteria.py",
    "tests/report/test_selection.py",
    the_own_seed_agrees=("if seed in pair]", "]"),
    entropy_upside_down=("return float(-(p", "return float((p"),
    all_rows_in_the_silhouette=("prepare({name: x[rows]}", "prepare({name: x[: len(rows)]}"),
    damage_is_no_array=("    except Damaged:\n        raise\n", ""),
)
MUTANTS += mutants(
    "report/selection.py",
    "tests/report/test_selection.py",
    high_losses_are_good=('value if better == "higher" else -value', "value"),
    protocols_are_mixed=(
        'found.setdefault((run["dataset"], run["protocol"]), [])',
        'found.setdefault(("d", "full"), [])',
    ),
    accuracy_as_a_fraction=('read.result["ACC"] * plan["scale"]', 'read.result["ACC"]'),
)
MUTANTS += mutants(
    "report/own_loss.py",
    "tests/report/test_selection.py",
    loss_of_the_first_epoch=("history[-1]", "history[0]"),
)
MUTANTS += mutants(
    "report/tables.py",
    "tests/report/test_selection.py",
    a_chosen_run_competes=(' or spec.get("lowest_own_loss"))', ")"),
    the_highest_loss_is_chosen=("dataset: min(held, key=", "dataset: max(held, key="),
)
MUTANTS += mutants(
    "pipeline/checks.py",
    "tests/pipeline/test_selection.py",
    a_chosen_run_stands_alone=('row.get("lowest_own_loss") and not any(', "False and not any("),
)
MUTANTS += mutants(
    "pipeline/selection_plans.py",
    "tests/pipeline/test_selection.py",
    controls_are_methods=('{"control", "seen", "lowest_own_loss"}', '{"seen", "lowest_own_loss"}'),
)
