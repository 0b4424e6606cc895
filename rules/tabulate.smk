# Metrics of many runs -> one table. The plan file names the rows and what their records must say.
for table in plan.tables:

    rule:
        name:
            f"tabulate_{table}"
        input:
            plan=plan.plan_path(table),
            metrics=plan.table_metrics(table),
        output:
            csv=report(
                f"{plan.table_path(table)}.csv",
                caption="../report/captions/table.rst",
                category="Tables",
                labels={"table": table},
            ),
            md=f"{plan.table_path(table)}.md",
            tex=f"{plan.table_path(table)}.tex",
        log:
            f"{RESULTS}/logs/{table}_tabulate.log",
        localrule: True
        conda:
            "../environment.yml"
        resources:
            mem_mb=1000,
            runtime=10,
        params:
            code=plan.code("tabulate"),
            strict=["--strict"] if config["strict"] else [],
        shell:
            "python -m report.tabulate --plan {input.plan:q} {params.strict:q} --out {output.csv:q} > /dev/null 2> {log:q}"
