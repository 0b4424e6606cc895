# Features of a base run -> nearest neighbours of its rows (SCAN's step 2), shared by every run that starts from it.
rule mine:
    input:
        data=PREPARED,
        features=f"{RUN}/features.npz",
        record=f"{RUN}/features.json",
    output:
        neighbours=f"{RUN}/neighbours/{{array}}-{{number}}-{{splits}}.npz",
        record=f"{RUN}/neighbours/{{array}}-{{number}}-{{splits}}.json",
    log:
        f"{LOG}_mine_{{array}}-{{number}}-{{splits}}.log",
    conda:
        "../environment.yml"
    threads: config["threads"]
    resources:
        mem_mb=lambda w, attempt: 8000 * attempt,
        runtime=lambda w, attempt: 60 * attempt,
    params:
        code=lambda w: plan.stages.mine(
            plan.run(w), Neighbours(w.array, int(w.number), tuple(w.splits.split("+")))
        ).code,
        splits=lambda w: w.splits.split("+"),
        data=lambda w, input: dirname(input.data[0]),
    shell:
        "python -m training.mine --data {params.data:q} --features {input.features:q} --array {wildcards.array:q}"
        " --count {wildcards.number:q} --splits {params.splits:q} --out {output.neighbours:q} > {log:q} 2>&1"
