rule evaluate:
    """One paper's runs, judgments -> measures per query, means, comparisons with intervals."""
    input:
        view=paper_view,
        bm25=paper_bm25,
        runs=paper_runs,
        code=code(
            "evaluation.comparisons",
            "evaluation.measures",
            "evaluation.runs",
            "collections.view",
        )
        + [commands("evaluation")],
    output:
        per_query="<results>/evaluation/{paper}.per_query.parquet",
        summary="<results>/evaluation/{paper}.summary.json",
        comparisons="<results>/evaluation/{paper}.comparisons.parquet",
        record="<results>/records/evaluation-evaluate-{paper}.json",
    log:
        "<results>/logs/evaluation-evaluate-{paper}.log",
    benchmark:
        "<results>/benchmarks/evaluation-evaluate-{paper}.tsv"
    conda:
        "../../envs/espalier.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        settings=paper_settings,
    shell:
        "espalier evaluation evaluate --view {input.view} --runs {input.bm25}/test {input.runs}"
        " --per-query {output.per_query} --summary {output.summary}"
        " --comparisons {output.comparisons} --record {output.record}"
        " --settings {params.settings:q} --log {log} --threads {threads}"


rule claims:
    """Published claims, measures, comparisons, cost tables -> ledger, and its table in text."""
    input:
        claims=expand(
            os.path.join(workflow.basedir, "claims", "{paper}.yaml"),
            paper=["best", "pruning", "dths"],
        ),
        tables=expand(
            "<results>/evaluation/{paper}.{table}",
            paper=PAPERS,
            table=["per_query.parquet", "summary.json", "comparisons.parquet"],
        )
        + cost_tables()
        + selection_tables(),
        code=code("evaluation.claims", "evaluation.ledger") + [commands("evaluation")],
        schema=os.path.join(
            workflow.basedir, "src/espalier/evaluation/claims.schema.json"
        ),
    output:
        ledger=report(
            "<results>/claims.json",
            caption="../report/claims.rst",
            category="Verdicts",
        ),
        text=report(
            "<results>/claims.txt",
            caption="../report/claims.rst",
            category="Verdicts",
        ),
        record="<results>/records/evaluation-claims.json",
    log:
        "<results>/logs/evaluation-claims.log",
    benchmark:
        "<results>/benchmarks/evaluation-claims.tsv"
    conda:
        "../../envs/espalier.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        settings=settings(
            "evaluation.alpha", "evaluation.margin", "evaluation.bootstrap_samples"
        ),
    shell:
        "espalier evaluation claims --tables {input.tables} --claims {input.claims}"
        " --ledger {output.ledger} --text {output.text} --record {output.record}"
        " --settings {params.settings:q} --log {log} --threads {threads}"
