# Features and clusters -> metrics. All evaluations of one run share one process.
rule evaluate:
    input:
        data=PREPARED,
        features=f"{RUN}/features.npz",
        record=f"{RUN}/features.json",
        clusters=lambda w: plan.cluster_files(plan.run(w), "npz"),
        records=lambda w: plan.cluster_files(plan.run(w), "json"),
    output:
        f"{RUN}/metrics.json",
    log:
        f"{LOG}_evaluate.log",
    conda:
        "../environment.yml"
    threads: config["threads"]
    resources:
        mem_mb=lambda w, attempt: 8000 * attempt,
        runtime=lambda w, attempt: 60 * attempt,
    params:
        code=lambda w: plan.stage("evaluate", plan.run(w)).code,
        evaluations=lambda w: plan.evaluation_settings(plan.run(w)),
        splits=lambda w: plan.splits("evaluate", plan.run(w)),
        data=lambda w, input: dirname(input.data[0]),
    shell:
        "python -m evaluation.evaluate --data {params.data} --features {input.features} --clusters {input.clusters}"
        " --evaluations {params.evaluations:q} --protocol {wildcards.protocol} --seed {wildcards.seed} --out {output}"
        " > {log} 2>&1"
