# Metrics of every run of the suite -> results.csv, one line for each number.
rule collect:
    input:
        plan=plan.plan_path("results"),
        metrics=plan.metrics(),
    output:
        f"{plan.place}/results.csv",
    log:
        f"{RESULTS}/logs/collect.log",
    localrule: True
    conda:
        "../environment.yml"
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        code=plan.code("collect"),
    shell:
        "python -m report.collect --plan {input.plan:q} --out {output:q} > {log:q} 2>&1"
