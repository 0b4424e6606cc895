"""Mutants of figures."""

from tests.mutants.mutant import mutants

RANKING = "tests/report/test_ranking.py"
CLUSTERS = "tests/report/test_cluster_figures.py"

FIGURES = mutants(
    "report/figures/ranking.py",
    RANKING,
    difference_without_root_2=("ppf(1 - alpha, methods, np.inf) / np.sqrt(2)", "ppf(1 - alpha, methods, np.inf)"),
    least_is_ranked_first=("-values if higher else values", "values if higher else -values"),
    controls_are_ranked=("if settings.controls or not row.control", "if True"),
    bars_without_friedman=("bars = groups(means, cd) if differ else", "bars = groups(means, cd) if True else"),
)
FIGURES += mutants(
    "report/clusters.py",
    CLUSTERS,
    distances_to_the_mean_of_all=("x[members] - x[members].mean(0)", "x[members] - x.mean(0)"),
    features_of_other_rows=("stored[name][found.rows]", "stored[name][: len(found.rows)]"),
    clusters_of_any_features=('if any(records["embed"].get(fact)', 'if all(records["embed"].get(fact)'),
)
FIGURES += mutants(
    "report/figures/gallery.py",
    CLUSTERS,
    farthest_last=("order[len(near) :][::-1]", "order[len(near) :]"),
    frames_around_the_right_ones=("name != strip.top", "name == strip.top"),
)
FIGURES += mutants(
    "evaluation/confusion.py",
    f"{CLUSTERS} tests/evaluation/metrics",
    accuracy_of_clusters=(
        "self.counts.diagonal() / self.counts.sum(1)",
        "self.counts.diagonal() / self.counts.sum(0)[: len(self.counts)]",
    ),
)
FIGURES += mutants(
    "pipeline/figures.py",
    "tests/pipeline/test_figures.py",
    last_seed_of_the_suite=("suite[:1])", "suite[-1:])"),
    vectors_have_galleries=('literals.get("of_images") and are_vectors', 'literals.get("of_pixels") and are_vectors'),
    one_data_set_is_ranked=("if len(over) < 2:", "if len(over) < 1:"),
)

MUTANTS = FIGURES
