"""Mutants of evaluation (assigners, probes, metrics) and of the tables."""

from tests.mutants.mutant import mutants

PROTOCOLS = "tests/evaluation/test_protocols.py"
ASSIGN = mutants(
    "evaluation/assign.py",
    PROTOCOLS,
    fitted_on_scored_rows=('value[rows["fit"]]', 'value[rows["score"]]'),
    predicts_fitted_rows=("assigner.predict({key: value[rows[part]]", 'assigner.predict({key: value[rows["fit"]]'),
    views_are_features=('if not key.startswith("view")', "if True"),
)
ASSIGN += mutants(
    "evaluation/features.py",
    "tests/evaluation/assigners tests/evaluation/probes/test_knn.py",
    never_normalised=("    if normalise:\n", "    if False:\n"),
    broken_features_pass=("if not np.isfinite(x).all():", "if False:"),
)
ASSIGN += mutants(
    "evaluation/assigners/sinkhorn.py",
    "tests/evaluation/assigners/test_sinkhorn.py tests/evaluation/assigners/test_wing.py",
    clusters_without_their_scale=("(self._scores(x) + self.scale).argmax(1)", "self._scores(x).argmax(1)"),
)
ASSIGN += mutants(
    "evaluation/assigners/kmeans_components.py",
    "tests/evaluation/assigners/test_kmeans_components.py",
    starts_at_random=("init=starts", 'init="random"'),
)
ASSIGN += mutants(
    "evaluation/assigner.py",
    "tests/evaluation/assigners/test_wing.py",
    unseen_rows_are_clustered=("if not np.array_equal(x, fitted_on):", "if False:"),
)
PROBES = mutants(
    "evaluation/probe.py",
    f"{PROTOCOLS} tests/evaluation/probes",
    trained_on_test_rows=("return (x[train], self.labels[train]),", "return (x[test], self.labels[test]),"),
    probe_not_normalised=(
        "name or self.settings.features, self.settings.normalise)",
        "name or self.settings.features)",
    ),
    unlabelled_rows_are_probed=("if unlabelled and self.labels.ndim == 1:", "if False:"),
    equal_rows_are_not_held_out=("if np.array_equal(train, test):", "if False:"),
)
PROBES += mutants(
    "evaluation/probes/linear.py",
    f"{PROTOCOLS} tests/evaluation/probes/test_linear.py",
    standardised_with_test_rows=("mean, std = x.mean(0), x.std(0)", "mean, std = x_test.mean(0), x_test.std(0)"),
    epoch_chosen_on_test=('if settings.select == "holdout":', "if False:"),
    worst_epoch=("if watched > best:", "if watched < best or best < 0:"),
    last_epoch_whatever_was_chosen=("    if predicted is None:\n", "    if True:\n"),
)
PROBES += mutants(
    "evaluation/probes/logistic.py",
    PROTOCOLS,
    logistic_standardised_with_test_rows=("StandardScaler().fit(x)", "StandardScaler().fit(x_test)"),
)
PROBES += mutants(
    "evaluation/probes/knn.py",
    "tests/evaluation/probes/test_knn.py",
    votes_without_temperature=("keepdim=True)) / temperature).exp()", "keepdim=True))).exp()"),
    one_vote_each=("    if temperature is None:\n", "    if True:\n"),
    farthest_of_long_rows=("product(part, bank, -offset)", "product(part, bank)"),
)
PROBES += mutants(
    "evaluation/probes/low_shot_svm.py",
    f"{PROTOCOLS} tests/evaluation/probes/test_svm.py",
    cost_chosen_on_test=('and settings.select == "rest":', "and False:"),
    same_draw_every_time=("np.random.default_rng([seed, shots, draw])", "np.random.default_rng([seed, shots])"),
)
PROBES += mutants(
    "evaluation/svm.py",
    "tests/evaluation/probes/test_svm.py",
    class_weight_dropped=("class_weight={True: 2, False: 1}", "class_weight={True: 1, False: 1}"),
    precision_not_interpolated=("np.maximum.accumulate(precision)[:-1]", "precision[:-1]"),
    difficult_rows_count=('if difficult == "negative" else', 'if difficult != "" else'),
)
PROBES += mutants(
    "evaluation/evaluate.py",
    PROTOCOLS,
    one_cluster_asked_for=('asked = data.card["classes"]', "asked = 1"),
    probed_on_scored_rows=('for part in ("train", "test"))', 'for part in ("train", "train"))'),
    trained_on_everything=("data, train, test, data.rows(", "data, np.union1d(train, test), test, data.rows("),
    labels_of_other_rows_scored=(
        'data.labels[stored["rows"]], stored["clusters"]',
        'data.labels[: len(stored["rows"])], stored["clusters"]',
    ),
)
METRICS = mutants(
    "evaluation/metrics/accuracy.py",
    "tests/evaluation/metrics",
    many_to_one=("counts[linear_sum_assignment(counts, maximize=True)].sum()", "counts.max(1).sum()"),
    worst_matching=("linear_sum_assignment(counts, maximize=True)", "linear_sum_assignment(counts)"),
)
METRICS += mutants(
    "evaluation/metrics/nmi.py",
    "tests/evaluation/metrics",
    nmi_of_the_larger_entropy=('average_method="arithmetic"', 'average_method="max"'),
)
METRICS += mutants(
    "evaluation/metrics/sizes.py",
    "tests/evaluation/metrics",
    never_degenerate=("return bool(_few(found, effective) or silent)", "return False"),
)
METRICS += mutants(
    "evaluation/geometry.py",
    "tests/evaluation/test_geometry.py",
    rank_error_doubled=("sum(errors) / 2)", "sum(errors))"),
    distances_not_scaled=("/ np.sqrt(inputs.width) - local", "- local"),
)
TABLES = mutants(
    "report/results.py",
    "tests/report",
    stale_rows_are_printed=('if record is None or record["fingerprint"] != fingerprint:', "if record is None:"),
)
TABLES += mutants(
    "report/tables.py",
    "tests/report",
    deviation_of_the_population=("statistics.stdev(self.values)", "statistics.pstdev(self.values)"),
    lowest_is_best=('sign = 1 if facts["better"] == "higher" else -1', "sign = -1"),
    fractions_as_percent=('if found["unit"] == "fraction" else 1', "if False else 1"),
    controls_compete=("        if not row.control:\n", "        if True:\n"),
)

MUTANTS = [*ASSIGN, *PROBES, *METRICS, *TABLES]
