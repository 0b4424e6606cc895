# Files of finished runs, or what a table is made from -> one figure. Which data sets and seeds: its file in config/figures.
rule plot:
    input:
        lambda w: plan.figure_files(w.figure),
    output:
        png=report(
            f"{plan.place}/figures/{{figure}}.png",
            caption="../report/captions/figure.rst",
            category="Figures",
            labels={"figure": "{figure}"},
        ),
        pdf=f"{plan.place}/figures/{{figure}}.pdf",
    log:
        f"{RESULTS}/logs/{{figure}}_plot.log",
    conda:
        "../environment.yml"
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        code=lambda w: plan.figure_code(w.figure),
        figure=lambda w: canonical_json({"name": w.figure, **plan.figures.entry(w.figure)}),
        shown=lambda w: plan.figure_words(w.figure),
    shell:
        "python -m report.plot --figure {params.figure:q} {params.shown:q} --out {output.png:q} > {log:q} 2>&1"
