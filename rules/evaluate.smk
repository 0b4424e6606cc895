# Features and clusters -> metrics. All evaluations of one run share one process.
def evaluations_of(wildcards):
    """The probes asked of a run, each as JSON with its name."""
    settings = plan.stage("evaluate", run_of(wildcards)).settings["evaluations"]
    return [canonical_json({"name": name, **values}) for name, values in sorted(settings.items())]


def clusters_of(wildcards, ending):
    """The clusters, or their records, of every assigner asked of a run."""
    run = run_of(wildcards)
    return [f"{RESULTS}/{run.path}/clusters/{assigner}.{ending}" for assigner in plan.assigners(run)]


rule evaluate:
    input:
        data=PREPARED,
        features=f"{RUN}/features.npz",
        record=f"{RUN}/features.json",
        clusters=lambda w: clusters_of(w, "npz"),
        records=lambda w: clusters_of(w, "json"),
    output:
        f"{RUN}/metrics.json",
    log:
        f"{LOG}_evaluate.log",
    threads: config["threads"]
    resources:
        mem_mb=lambda w, attempt: 8000 * attempt,
        runtime=lambda w, attempt: 60 * attempt,
    params:
        code=code_version("evaluation.evaluate"),
        evaluations=evaluations_of,
        splits=lambda w: plan.splits("evaluate", run_of(w)),
        data=DATA,
    shell:
        "python -m evaluation.evaluate --data {params.data} --features {input.features} --clusters {input.clusters}"
        " --evaluations {params.evaluations:q} --protocol {wildcards.protocol} --seed {wildcards.seed} --out {output}"
        " > {log} 2>&1"
