"""Mutants of what new rows pass through: assigners' states, preparation, predict."""

from tests.mutants.mutant import mutants

WING = "tests/evaluation/assigners"
ROWS = "tests/preparation/test_new_rows.py"
PREDICT = "tests/pipeline/test_predict.py"

MUTANTS = mutants(
    "evaluation/centroids.py",
    f"{WING} {PREDICT}",
    centres_of_the_second_place=(
        'torch.from_numpy(state["centres"])',
        'torch.from_numpy(state["centres"][::-1].copy())',
    ),
    margin_of_the_farthest=("other = distances.min(1)", "other = distances.max(1)"),
    nearest_is_surest=("found[part] = 1 - np.divide", "found[part] = np.divide"),
)
MUTANTS += mutants(
    "evaluation/assigners/sinkhorn.py",
    WING,
    state_without_scale=('self.prototypes = state["scale"], state', 'self.prototypes = 0 * state["scale"], state'),
)
MUTANTS += mutants(
    "evaluation/new_rows.py",
    PREDICT,
    features_of_any_model=('if embedded["train"]["fingerprint"] != records["train"]["fingerprint"]:', "if False:",
                           "predict looks at both records before"),
    classes_of_other_rows=('prepared.labels[stored["rows"]]', 'prepared.labels[: len(stored["rows"])]'),
    any_state=("assigner.restore(read_arrays(state_path(clusters), made))",
               "assigner.restore(read_arrays(state_path(clusters), None))"),
)  # fmt: skip
MUTANTS += mutants(
    "preparation/new_rows.py",
    ROWS,
    new_rows_not_standardised=("x = standardised(spec, shaped(", "x = (lambda spec, x: x)(spec, shaped("),
    documents_not_weighted=('x = weighted(x) if spec["source"] == "reuters" else x', "x = x"),
    labels_are_values=("        yield [*drop, *labels]\n", "        yield [*drop]\n"),
    colours_become_grey=("if (colours == colours[:, :, :1]).all() and shape[2] == 1:", "if shape[2] == 1:"),
    any_size=("    if found != list(shape):\n", "    if found[2] != shape[2]:\n"),
    files_not_decoded=('if like.card["record"]["settings"].get("decode"):', "if False:"),
)
MUTANTS += mutants(
    "preparation/statistics.py",
    ROWS,
    any_mean=(
        "if (far := np.flatnonzero(shift > SHIFT + allowed)).size:",
        "if (far := np.flatnonzero(shift < 0)).size:",
    ),
    any_scale=("not 1 / (RATIO + allowed) <= ratio <= RATIO + allowed", "not 0 <= ratio <= RATIO + allowed"),
    few_rows_are_many=("allowed, least = CHANCE / np.sqrt(len(x)),", "allowed, least = 0 * np.sqrt(len(x)),"),
)
MUTANTS += mutants(
    "pipeline/predict.py",
    PREDICT,
    diverged_runs_predict=('if train["status"] not in EVALUABLE:', "if False:"),
    other_code_predicts=('    if record["code"] != code:\n', "    if False:\n"),
    other_inputs_predict=("        if made != held:\n", "        if False:\n"),
    other_models_predict=(
        'if records["train"]["fingerprint"] != trained["train"]["fingerprint"]:',
        "if False:",
    ),
    paths_not_with_features=('stored.write(names, "path.npy")', "pass"),
)
MUTANTS += mutants(
    "training/embed.py",
    PREDICT,
    own_rows_in_place_of_new_ones=("        shown = open_prepared(arguments.new)\n", "        shown = data\n"),
)
