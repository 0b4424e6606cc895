# Features -> clusters, one file per assigner, and what it learnt, with which new rows can be assigned.
rule assign:
    input:
        data=PREPARED,
        features=f"{RUN}/features.npz",
        record=f"{RUN}/features.json",
    output:
        clusters=f"{RUN}/clusters/{{assigner}}.npz",
        fitted=f"{RUN}/clusters/{{assigner}}.fit.npz",
        record=f"{RUN}/clusters/{{assigner}}.json",
    log:
        f"{LOG}_assign_{{assigner}}.log",
    conda:
        "../environment.yml"
    threads: config["threads"]
    resources:
        mem_mb=lambda w, attempt: 4000 * attempt,
        runtime=lambda w, attempt: 60 * attempt,
    params:
        code=lambda w: plan.stages.assign(plan.run(w), w.assigner).code,
        assigner=lambda w: canonical_json(plan.stages.assign(plan.run(w), w.assigner).settings["assigner"]),
        splits=lambda w: plan.splits(plan.stages.assign(plan.run(w), w.assigner)),
        data=lambda w, input: dirname(input.data[0]),
    shell:
        "python -m evaluation.assign --data {params.data:q} --features {input.features:q} --assigner {params.assigner:q}"
        " --protocol {wildcards.protocol:q} --seed {wildcards.seed:q} --out {output.clusters:q} > {log:q} 2>&1"
