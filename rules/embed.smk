# Trained model -> features of every image.
rule embed:
    input:
        data=PREPARED,
        model=f"{RUN}/model.pt",
        record=f"{RUN}/train.json",
    output:
        f"{RUN}/features.npz",
        f"{RUN}/features.json",
    log:
        f"{LOG}_embed.log",
    conda:
        "../environment.yml"
    threads: config["threads"]
    resources:
        gpu=plan.gpus(),
        mem_mb=lambda w, attempt: 4000 * attempt,
        runtime=lambda w, attempt: 60 * attempt,
    params:
        code=lambda w: plan.stages.embed(plan.run(w)).code,
        data=lambda w, input: dirname(input.data[0]),
        folder=lambda w, output: dirname(output[0]),
    shell:
        "python -m training.embed --data {params.data:q} --model {input.model:q} --out {params.folder:q} > {log:q} 2>&1"
