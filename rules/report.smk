# Tables, figures and records of the suite -> one page that needs no network, and what it shows beside it.
report: "../report/captions/workflow.rst"


rule report:
    input:
        plans=[plan.plan_path(name) for name in ("suite", *plan.tables)],
        tables=[f"{plan.table_path(name)}.csv" for name in plan.tables],
        figures=[f"{plan.figure_path(name)}.png" for name in config["figures"]],
    output:
        report(
            f"{plan.place}/report/index.html",
            caption="../report/captions/page.rst",
            category="Report",
            labels={"what": "all on one page"},
        ),
    log:
        f"{RESULTS}/logs/report.log",
    localrule: True
    conda:
        "../environment.yml"
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        code=plan.page_code(),
        results=lambda w: RESULTS,
    shell:
        "python -m report.page --results {params.results:q} --plans {input.plans:q} --figures {input.figures:q}"
        " --out {output:q} > {log:q} 2>&1"
