# Prepared data + recipe (+ base encoder) -> trained model. Resume state lies outside the outputs: Snakemake deletes those.
rule train:
    input:
        data=PREPARED,
        base=lambda w: plan.base_files(plan.run(w)),
        neighbours=lambda w: plan.neighbour_files(plan.run(w), "neighbours"),
        watched=lambda w: plan.neighbour_files(plan.run(w), "watched"),
    output:
        f"{RUN}/model.pt",
        f"{RUN}/history.csv",
        f"{RUN}/snapshots.npz",
        f"{RUN}/train.json",
    log:
        f"{LOG}_train.log",
    conda:
        "../environment.yml"
    threads: config["threads"]
    resources:
        gpu=plan.gpus(),
        mem_mb=lambda w, attempt: 8000 * attempt,
        runtime=lambda w, attempt: 720 * attempt,
    params:
        code=lambda w: plan.stage("train", plan.run(w)).code,
        recipe=lambda w: canonical_json(plan.recipe(plan.run(w))),
        splits=lambda w: plan.splits("train", plan.run(w)),
        base=lambda w, input: f"--base {input.base[0]}" if input.base else "",
        neighbours=lambda w, input: f"--neighbours {input.neighbours[0]}" if input.neighbours else "",
        watched=lambda w, input: f"--watched {input.watched[0]}" if input.watched else "",
        data=lambda w, input: dirname(input.data[0]),
        folder=lambda w, output: dirname(output[0]),
        resume=f"{RESULTS}/.resume",
    shell:
        "python -m training.train --data {params.data} --recipe {params.recipe:q} --protocol {wildcards.protocol}"
        " --seed {wildcards.seed} {params.base} {params.neighbours} {params.watched} --out {params.folder} --resume {params.resume}"
        " > {log} 2>&1"
