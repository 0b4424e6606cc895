# Official files -> prepared folder.
rule prepare:
    output:
        PREPARED,
    log:
        f"{RESULTS}/logs/{{dataset}}_prepare.log",
    resources:
        mem_mb=lambda w, attempt: 4000 * attempt,
        runtime=lambda w, attempt: 60 * attempt,
    params:
        code=code_version("preparation.prepare"),
        dataset=lambda w: canonical_json(plan.stage("prepare", Run(w.dataset, "", "", 0)).settings),
        folder=DATA,
    shell:
        "python -m preparation.prepare --dataset {params.dataset:q} --out {params.folder} > {log} 2>&1"
