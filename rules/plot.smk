# Files of finished runs -> one figure: the first of the suite's data sets, protocols and seeds.
rule plot:
    input:
        data=lambda w: expand(PREPARED, dataset=config["datasets"][0]),
        runs=lambda w: plan.figure_files(w.figure),
    output:
        report(
            f"{plan.place}/figures/{{figure}}.png",
            caption="../report/captions/figure.rst",
            category="Figures",
            labels={"figure": "{figure}"},
        ),
    log:
        f"{RESULTS}/logs/{{figure}}_plot.log",
    conda:
        "../environment.yml"
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        code=lambda w: plan.figure_code(w.figure),
        figure=lambda w: canonical_json({"name": w.figure, **plan.figure(w.figure)}),
        runs=lambda w: [f"{label}={folder}" for label, folder in plan.figure_runs(w.figure).items()],
        data=lambda w, input: dirname(input.data[0]),
    shell:
        "python -m report.plot --figure {params.figure:q} --data {params.data:q} --runs {params.runs:q}"
        " --out {output:q} > {log:q} 2>&1"
