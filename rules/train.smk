# Prepared data + recipe (+ base encoder) -> trained model. Resume state lies outside the outputs: Snakemake deletes those.
def base_model(wildcards):
    """model.pt and train.json of the base run, or nothing."""
    base = plan.base(run_of(wildcards))
    return [] if base is None else [f"{RESULTS}/{base.path}/{name}" for name in ("model.pt", "train.json")]


rule train:
    input:
        data=PREPARED,
        base=base_model,
    output:
        f"{RUN}/model.pt",
        f"{RUN}/history.csv",
        f"{RUN}/train.json",
    log:
        f"{LOG}_train.log",
    threads: config["threads"]
    resources:
        gpu=GPU,
        mem_mb=lambda w, attempt: 8000 * attempt,
        runtime=lambda w, attempt: 720 * attempt,
    params:
        code=lambda w: plan.stage("train", run_of(w)).code,
        recipe=lambda w: canonical_json(plan.stage("train", run_of(w)).settings["recipe"]),
        base=lambda w, input: f"--base {input.base[0]}" if input.base else "",
        splits=lambda w: plan.splits("train", run_of(w)),
        data=DATA,
        folder=RUN,
        resume=f"{RESULTS}/.resume",
    shell:
        "python -m methods.train --data {params.data} --recipe {params.recipe:q} --protocol {wildcards.protocol}"
        " --seed {wildcards.seed} {params.base} --out {params.folder} --resume {params.resume} > {log} 2>&1"
