# Features of a base run -> nearest neighbours of its training rows (SCAN's step 2), shared by every run that starts from it.
rule mine:
    input:
        data=PREPARED,
        features=f"{RUN}/features.npz",
        record=f"{RUN}/features.json",
    output:
        neighbours=f"{RUN}/neighbours/{{neighbours}}.npz",
        record=f"{RUN}/neighbours/{{neighbours}}.json",
    log:
        f"{LOG}_mine_{{neighbours}}.log",
    conda:
        "../environment.yml"
    threads: config["threads"]
    resources:
        mem_mb=lambda w, attempt: 8000 * attempt,
        runtime=lambda w, attempt: 60 * attempt,
    params:
        code=lambda w: plan.stage(f"mine/{w.neighbours}", plan.run(w)).code,
        settings=lambda w: plan.stage(f"mine/{w.neighbours}", plan.run(w)).settings,
        data=lambda w, input: dirname(input.data[0]),
    shell:
        "python -m training.mine --data {params.data} --features {input.features} --array {params.settings[array]}"
        " --count {params.settings[count]} --splits {params.settings[splits]} --out {output.neighbours} > {log} 2>&1"
