# Official files -> prepared folder.
rule prepare:
    output:
        PREPARED,
    log:
        f"{RESULTS}/logs/{{dataset}}_prepare.log",
    conda:
        "../environment.yml"
    resources:
        mem_mb=lambda w, attempt: 4000 * attempt,
        runtime=lambda w, attempt: 60 * attempt,
    params:
        code=lambda w: plan.stages.prepare(w.dataset).code,
        sources=lambda w: plan.prepare_sources(w.dataset),
        dataset=lambda w: canonical_json(plan.stages.prepare(w.dataset).settings),
        folder=lambda w, output: dirname(output[0]),
    shell:
        "python -m preparation.prepare --dataset {params.dataset:q} --out {params.folder:q} {params.sources:q}"
        " > {log:q} 2>&1"
