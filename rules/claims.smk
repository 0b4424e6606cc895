# Metrics of the runs behind the claims that were asked for -> their verdicts. Without claims there is nothing to judge.
if plan.claims.asked:

    rule claims:
        input:
            plan=plan.plan_path("claims"),
            metrics=plan.metrics_of(plan.claims.runs()),
        output:
            csv=report(
                f"{plan.place}/claims.csv",
                caption="../report/captions/claims.rst",
                category="Claims",
                labels={"what": "verdicts"},
            ),
            md=f"{plan.place}/claims.md",
        log:
            f"{RESULTS}/logs/claims.log",
        localrule: True
        conda:
            "../environment.yml"
        resources:
            mem_mb=1000,
            runtime=10,
        params:
            code=plan.code("claims"),
            strict=["--strict"] if config["strict"] else [],
        shell:
            "python -m report.claims --plan {input.plan:q} {params.strict:q} --out {output.csv:q} > {log:q} 2>&1"
