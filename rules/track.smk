# Results -> MLflow, a mirror that can be rebuilt. Its failure never touches a table.
rule track:
    input:
        plan=plan.plan_path("suite"),
        tables=[f"{plan.table_path(name)}.csv" for name in plan.tables],
        figures=[f"{plan.figure_path(name)}.png" for name in config["figures"]],
    output:
        f"{RESULTS}/mlflow.json",
    log:
        f"{RESULTS}/logs/track.log",
    localrule: True
    conda:
        "../environment.yml"
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        code=plan.code("track"),
        strict=["--strict"] if config["strict"] else [],
    shell:
        "python -m report.track --plan {input.plan:q} --out {output:q} {params.strict:q} > {log:q} 2>&1"
