# Features -> clusters, one file per assigner.
rule assign:
    input:
        data=PREPARED,
        features=f"{RUN}/features.npz",
        record=f"{RUN}/features.json",
    output:
        clusters=f"{RUN}/clusters/{{assigner}}.npz",
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
        code=lambda w: plan.stage(f"assign/{w.assigner}", plan.run(w)).code,
        assigner=lambda w: canonical_json(plan.stage(f"assign/{w.assigner}", plan.run(w)).settings["assigner"]),
        splits=lambda w: plan.splits(f"assign/{w.assigner}", plan.run(w)),
        data=lambda w, input: dirname(input.data[0]),
    shell:
        "python -m evaluation.assign --data {params.data:q} --features {input.features:q} --assigner {params.assigner:q}"
        " --protocol {wildcards.protocol:q} --seed {wildcards.seed:q} --out {output.clusters:q} > {log:q} 2>&1"
