# What a table, or the tracker, must find, under the name of its content: two runs with other plans never share a file.
rule write_plan:
    input:
        lambda w: plan.made(w.plan),
    output:
        f"{RESULTS}/.plan/{{plan}}.json",
    log:
        f"{RESULTS}/logs/{{plan}}_plan.log",
    localrule: True
    conda:
        "../environment.yml"
    resources:
        mem_mb=100,
        runtime=1,
    shell:
        "cp {input:q} {output:q} > {log:q} 2>&1"
