# Metrics of many runs -> one table. The plan file names the rows and what their records must say.
def table_metrics(name):
    """metrics.json of every run behind a table."""
    runs = dict.fromkeys(run for row in plan.tables[name]["rows"] for run in plan.row_runs(row))
    return [f"{RESULTS}/{run.path}/metrics.json" for run in runs]


for table in plan.tables:

    rule:
        name:
            f"tabulate_{table}"
        input:
            plan=f"{RESULTS}/.plan/{table}.json",
            metrics=table_metrics(table),
        output:
            csv=f"{plan.table_path(table)}.csv",
            md=f"{plan.table_path(table)}.md",
            tex=f"{plan.table_path(table)}.tex",
        log:
            f"{RESULTS}/logs/{table}_tabulate.log",
        resources:
            mem_mb=1000,
            runtime=10,
        params:
            code=code_version("evaluation.tabulate"),
            strict="--strict" if config["strict"] else "",
        shell:
            "python -m evaluation.tabulate --plan {input.plan} {params.strict} --out {output.csv} 2>&1 | tee {log} >&2"
