# Runs of many seeds -> does anything that needs no label name the good one? Only where the suite asks for it.
if config["selection"]:

    rule selection:
        input:
            plan=plan.plan_path("selection"),
            metrics=plan.selection_metrics(),
        output:
            csv=report(
                f"{plan.place}/selection.csv",
                caption="../report/captions/selection.rst",
                category="Selection",
                labels={"what": "which run without labels"},
            ),
            md=f"{plan.place}/selection.md",
        log:
            f"{RESULTS}/logs/selection.log",
        localrule: True
        conda:
            "../environment.yml"
        resources:
            mem_mb=2000,
            runtime=30,
        params:
            code=plan.code("selection"),
            strict=["--strict"] if config["strict"] else [],
        shell:
            "python -m report.selection --plan {input.plan:q} {params.strict:q} --out {output.csv:q} > {log:q} 2>&1"
