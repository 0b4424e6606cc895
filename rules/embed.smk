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
    threads: config["threads"]
    resources:
        gpu=GPU,
        mem_mb=lambda w, attempt: 4000 * attempt,
        runtime=lambda w, attempt: 60 * attempt,
    params:
        code=lambda w: plan.stage("embed", run_of(w)).code,
        data=DATA,
        folder=RUN,
    shell:
        "python -m methods.embed --data {params.data} --model {input.model} --out {params.folder} > {log} 2>&1"
