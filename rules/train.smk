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
        code=lambda w: plan.stages.train(plan.run(w)).code,
        recipe=lambda w: plan.runs.recipe_text(plan.run(w)),
        files=lambda w: canonical_json(plan.sources.of_recipe(plan.runs.recipe(plan.run(w)))),
        splits=lambda w: plan.splits(plan.stages.train(plan.run(w))),
        base=lambda w, input: ["--base", input.base[0]] if input.base else [],
        neighbours=lambda w, input: ["--neighbours", input.neighbours[0]] if input.neighbours else [],
        watched=lambda w, input: ["--watched", input.watched[0]] if input.watched else [],
        data=lambda w, input: dirname(input.data[0]),
        folder=lambda w, output: dirname(output[0]),
        resume=f"{RESULTS}/.resume",
    shell:
        "python -m training.train --data {params.data:q} --recipe {params.recipe:q} --protocol {wildcards.protocol:q}"
        " --seed {wildcards.seed:q} {params.base:q} {params.neighbours:q} {params.watched:q} --out {params.folder:q}"
        " --resume {params.resume:q} > {log:q} 2>&1"
