# Features and clusters -> metrics/*.json, one record per assigner and per probe, computed in one process where they are not
# valid already, and their index. The records lie outside the outputs: Snakemake deletes those before a rerun.
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
        evaluated=lambda w: plan.evaluated(plan.run(w)),
        probes=lambda w: plan.probe_settings(plan.run(w)),
        data=lambda w, input: dirname(input.data[0]),
    shell:
        "python -m evaluation.evaluate --data {params.data:q} --features {input.features:q} --clusters {input.clusters:q}"
        " --probes {params.probes:q} --protocol {wildcards.protocol:q} --seed {wildcards.seed:q} --out {output:q}"
        " > {log:q} 2>&1"
