"""Mutants of provenance, stages, recipes, checks, of the prepared folder and of own data."""

from tests.mutants.mutant import mutants

STAGES = "tests/pipeline/test_stages.py"
OF_FINGERPRINT = "return fingerprint(stage=stage, code=code, settings=dict(settings), inputs=dict(inputs), seed=seed)"

PROVENANCE = mutants(
    "pipeline/record.py",
    STAGES,
    fingerprint_without_seed=(OF_FINGERPRINT, OF_FINGERPRINT.replace(", seed=seed", "")),
    fingerprint_without_inputs=(OF_FINGERPRINT, OF_FINGERPRINT.replace("inputs=dict(inputs), ", "")),
    fingerprint_without_settings=(OF_FINGERPRINT, OF_FINGERPRINT.replace("settings=dict(settings), ", "")),
    fingerprint_without_code=(OF_FINGERPRINT, OF_FINGERPRINT.replace("code=code, ", "")),
    fingerprint_of_inputs_without_names=(
        OF_FINGERPRINT,
        OF_FINGERPRINT.replace("dict(inputs)", "sorted(inputs.values())"),
    ),
    record_without_seed=(
        '"fingerprint": stage_fingerprint(stage, code, settings, inputs, seed)',
        '"fingerprint": stage_fingerprint(stage, code, settings, inputs, None)',
    ),
)
PROVENANCE += mutants(
    "pipeline/provenance.py",
    "tests/pipeline/test_provenance.py",
    imports_do_not_count=("waiting.extend(_imports(module, path))", "pass"),
    docstrings_count=("node.body = node.body[1:] or [ast.Pass()]", "pass"),
    packages_do_not_count=('waiting.append(module.rpartition(".")[0])', "pass"),
    order_of_keys_counts=("json.dumps(value, sort_keys=True,", "json.dumps(value, sort_keys=False,"),
    unknown_modules_pass=("            if module in modules:\n", "            if False:\n"),
)
PROVENANCE += mutants(
    "pipeline/stages.py",
    STAGES,
    base_is_no_input=('inputs["base"] = self.train(base).fingerprint', "pass"),
    neighbours_are_no_input=("inputs[use] = self.mine(base, neighbours).fingerprint", "pass"),
    probes_without_seed=(
        'return self._stage("probe", roots, settings, {"features": self.embed(run).fingerprint}, run.seed)',
        'return self._stage("probe", roots, settings, {"features": self.embed(run).fingerprint}, None)',
    ),
    method_is_no_code=(
        '("training.train", f"methods.{recipe[\'method\']}"), settings',
        '("training.train",), settings',
    ),
    metrics_are_no_code=('("evaluation.evaluate", *wings.wing_modules("metric"))', '("evaluation.evaluate",)'),
)
RECIPES = mutants(
    "pipeline/layers.py",
    "tests/pipeline/test_layers.py tests/pipeline/test_recipes.py tests/pipeline/test_plan.py",
    named_parts_are_merged=("if not whole and isinstance(value, Mapping)", "if isinstance(value, Mapping)"),
    general_overrides_win=(
        'for key in dict.fromkeys(("*", stem, name)):',
        'for key in dict.fromkeys((name, stem, "*")):',
    ),
    any_family_serves=('listed.get(f"families {family}")) is None:', 'listed.get(f"families {family}", 1)) is None:'),
    unknown_variants_pass=("        if variant not in variants:\n", "        if False:\n"),
)
RECIPES += mutants(
    "pipeline/recipes.py",
    "tests/training/test_protocols.py tests/pipeline/test_recipes.py",
    network_may_differ_from_the_base=("if key not in TREATMENTS and base.get(key) != value:", "if False:"),
    labels_of_the_training_splits=(
        'return protocol["probe"]["train"]',
        'return protocol["train"]',
    ),
    nothing_is_watched=('watched = {"score": protocol["score"]} if', "watched = {} if"),
)
RECIPES += mutants(
    "pipeline/runs.py",
    f"tests/pipeline/test_plan.py {STAGES}",
    one_base_for_all_seeds=('base["recipe"], run.seed)', 'base["recipe"], 0)'),
    training_rows_are_watched=(
        '"watched": ("watched", protocol["score"])',
        '"watched": ("watched", protocol["train"])',
    ),
)
RECIPES += mutants(
    "pipeline/runs.py",
    "tests/workflow/test_unlabelled.py",
    bases_ask_for_labelled_splits=(' or without_labels(catalogue.entry("data set", dataset))', ""),
)
CHECKS = mutants(
    "pipeline/checks.py",
    "tests/pipeline/test_plan.py",
    too_many_clusters_pass=("        if count > fit:\n", "        if False:\n"),
    too_small_data_pass=('train < recipe["batch_size"]:', "False:"),
)
CHECKS += mutants(
    "pipeline/catalogue.py",
    "tests/pipeline/test_plan.py",
    keys_may_stand_twice=("            if key in seen:\n", "            if False:\n"),
)
CHECKS += mutants(
    "pipeline/catalogue.py",
    "tests/pipeline/test_catalogue.py",
    nothing_of_ones_own=("for place in (CONFIG / part, OWN / part):", "for place in (CONFIG / part,):"),
    own_names_win=("if twice := sorted(set(found) & set(here)):", "if twice := []:"),
    sound_for_any_schema=("(schema_name, repr(value))) in", '("", repr(value))) in'),
    sound_is_what_equals=("(schema_name, repr(value))) in", "(schema_name, repr(value).replace('True', '1'))) in"),
)
CHECKS += mutants(
    "preparation/prepared.py",
    "tests/evaluation/test_protocols.py tests/preparation tests/training/test_train.py",
    all_holds_unlabelled_rows=('[name for name in known if name != "unlabeled"]', "list(known)"),
    damage_is_not_seen=('card["sha256"][file]:', 'card["sha256"][file] and False:'),
)
OWN_DATA = mutants(
    "preparation/labels.py",
    "tests/preparation/test_labels.py",
    fractions_are_cut_off=("labels != np.floor(labels)", "False"),
    no_label_is_a_class=('known = together != ("-1" if any(text) else -1)', "known = np.ones(len(together), bool)"),
)
OWN_DATA += mutants(
    "preparation/prepared.py",
    "tests/preparation/test_readers.py tests/preparation/test_number_files.py",
    range_of_pixels_unchecked=("images.max() > 1 + 1e-4", "False"),
)
OWN_DATA += mutants(
    "preparation/folders.py",
    "tests/preparation/test_folders.py",
    splits_may_differ=("        if lacking:\n", "        if False:\n"),
)
OWN_DATA += mutants(
    "preparation/image_files.py",
    "tests/preparation/test_image_files.py",
    photographs_lie_on_their_side=("ImageOps.exif_transpose(image, in_place=True)", "pass"),
    pages_after_the_first_are_lost=("            if pages > 1:\n", "            if False:\n"),
)

MUTANTS = [*PROVENANCE, *RECIPES, *CHECKS, *OWN_DATA]
