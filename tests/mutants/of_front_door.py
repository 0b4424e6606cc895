"""Mutants of the front door: names, commands, early refusals, previews, targets."""

from tests.mutants.mutant import mutants

BENCH = "tests/pipeline/test_bench.py"
TARGETS = "tests/pipeline/test_targets.py"
FRONT_DOOR = mutants(
    "pipeline/make.py",
    BENCH,
    targets_after_options=("command = [*targets, *options(arguments, file, given), *passed]",
                           "command = [*options(arguments, file, given), *targets, *passed]"),
    words_after_dashes_are_lost=("*options(arguments, file, given), *passed]", "*options(arguments, file, given)]"),
    two_suites_pass=("    if len(given) > 1:\n", "    if False:\n"),
    other_tables_are_left_alone=('config["tables"] = [*config["tables"], *tables]', 'config["tables"] = tables'),
    previews_end_well=("sys.exit(preview.main(command, plan, runs))", "preview.main(command, plan, runs); sys.exit(0)"),
    clusters_get_all_cores=("if cores or not _away(folder):", "if True:"),
    gpus_are_not_counted=('words += ["--resources", f"gpu={len(found)}"]', "pass"),
    gpus_are_asked_for_on_clusters=("not told & set(ELSEWHERE)", "True"),
)  # fmt: skip
FRONT_DOOR += mutants(
    "pipeline/suites.py",
    BENCH,
    the_last_seed_is_lost=("range(first, last + 1)", "range(first, last)"),
    mappings_replace_each_other=("_over(merged[key], value) if both else value", "value"),
    given_values_lose=("_over(_over(found, suite), given or {})", "_over(_over(found, given or {}), suite)"),
)
FRONT_DOOR += mutants(
    "pipeline/refusals.py",
    BENCH,
    no_gpu_passes=("    if here:\n", "    if False:\n"),
    prepared_data_need_files=(' or Path(plan.results, "data", dataset, "card.json").is_file()', ""),
    downloads_need_files=('    if not plan.config["download"]:\n', "    if True:\n"),
)  # fmt: skip
FRONT_DOOR += mutants(
    "pipeline/plan.py",
    "tests/pipeline/test_gpus.py",
    jobs_begin_without_a_gpu=("        if here:\n", "        if False:\n"),
    jobs_elsewhere_need_a_gpu=("        if here:\n", "        if True:\n"),
)
FRONT_DOOR += mutants(
    "pipeline/preview.py",
    "tests/pipeline/test_preview.py",
    differences_reversed=("{_text(before, keys)} -> {_text(now, keys)}", "{_text(now, keys)} -> {_text(before, keys)}"),
    new_keys_are_no_difference=("[*before, *(keys for keys in now if keys not in before)]", "list(before)"),
    code_is_no_difference=('    if record.get("code") != stage.code:\n', "    if False:\n"),
    what_snakemake_does_not_see=("if jobs or found else [NOTHING]", "if jobs else [NOTHING]"),
)
FRONT_DOOR += mutants(
    "pipeline/targets.py",
    TARGETS,
    unknown_targets_pass=("        if found is None:\n", "        if False:\n"),
    any_process_is_asked=("not workflow.is_main_process or not", "not"),
)
FRONT_DOOR += mutants(
    "pipeline/traps.py",
    TARGETS,
    targets_pass_for_values=('if option == "--config" and "=" not in word:', "if False:"),
    values_go_on=('                option = ""\n', ""),
)

MUTANTS = [*FRONT_DOOR]
