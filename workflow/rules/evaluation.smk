rule adopt:
    """Run files of the user's own -> the same, checked, in the order that trec_eval gives them."""
    input:
        view=paper_view,
        own=own_files,
        code=code("evaluation.runs", "collections.view") + [commands("evaluation")],
    output:
        runs=directory("<results>/{paper}/own"),
        record="<results>/records/evaluation-adopt-{paper}.json",
    log:
        "<results>/logs/evaluation-adopt-{paper}.log",
    benchmark:
        "<results>/benchmarks/evaluation-adopt-{paper}.tsv"
    conda:
        "../../envs/espalier.yaml"
    threads: 1
    resources:
        mem_mb=memory(1000, input_share=3),
        runtime=minutes(30, mb_seconds=2),
    params:
        settings=own_settings,
    shell:
        "espalier evaluation adopt --view {input.view} --own {input.own} --runs {output.runs}"
        " --record {output.record} --settings {params.settings:q} --log {log} --threads {threads}"


rule evaluate:
    """One paper's runs, judgments -> measures per query, means, comparisons with intervals."""
    input:
        view=paper_view,
        bm25=paper_bm25,
        runs=paper_runs,
        qrels=paper_qrels,
        code=code("evaluation.comparisons", "evaluation.trial")
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
        mem_mb=memory(1000, input_share=3),
        runtime=minutes(30, mb_seconds=2),
    params:
        settings=paper_settings,
    shell:
        "espalier evaluation evaluate --view {input.view} --runs {input.bm25}/test {input.runs}"
        " --qrels {input.qrels} --per-query {output.per_query} --summary {output.summary}"
        " --comparisons {output.comparisons} --record {output.record}"
        " --settings {params.settings:q} --log {log} --threads {threads}"


rule latencies:
    """Times of each query -> their ratios to a baseline's, with intervals."""
    input:
        latency="<results>/{paper}/latency.parquet",
        code=code("evaluation.ratios") + [commands("evaluation")],
    output:
        ratios="<results>/evaluation/{paper}.latencies.parquet",
        record="<results>/records/evaluation-latencies-{paper}.json",
    log:
        "<results>/logs/evaluation-latencies-{paper}.log",
    benchmark:
        "<results>/benchmarks/evaluation-latencies-{paper}.tsv"
    conda:
        "../../envs/espalier.yaml"
    threads: 1
    resources:
        mem_mb=memory(1000, input_share=3),
        runtime=minutes(30, mb_seconds=2),
    params:
        settings=latency_settings,
    shell:
        "espalier evaluation latencies --latency {input.latency} --ratios {output.ratios}"
        " --record {output.record} --settings {params.settings:q} --log {log} --threads {threads}"


rule reproduction:
    """One paper's runs, original run files -> how near the ones come to the others."""
    input:
        view=paper_view,
        bm25=paper_bm25,
        runs=paper_runs,
        originals=original_files,
        qrels=paper_qrels,
        code=code(
            "evaluation.comparisons", "evaluation.reproduction", "evaluation.trial"
        )
        + [commands("evaluation")],
    output:
        reproduction="<results>/evaluation/{paper}.reproduction.parquet",
        record="<results>/records/evaluation-reproduction-{paper}.json",
    log:
        "<results>/logs/evaluation-reproduction-{paper}.log",
    benchmark:
        "<results>/benchmarks/evaluation-reproduction-{paper}.tsv"
    conda:
        "../../envs/espalier.yaml"
    threads: 1
    resources:
        mem_mb=memory(1000, input_share=3),
        runtime=minutes(30, mb_seconds=2),
    params:
        settings=paper_settings,
    shell:
        "espalier evaluation reproduction --view {input.view}"
        " --runs {input.bm25}/test {input.runs} --originals {input.originals}"
        " --qrels {input.qrels} --reproduction {output.reproduction} --record {output.record}"
        " --settings {params.settings:q} --log {log} --threads {threads}"


rule claims:
    """Published claims, measures, comparisons, cost tables -> ledger, and its table in text."""
    input:
        claims=[own(f"claims/{paper}.yaml") for paper in ("best", "pruning", "dths")],
        tables=expand(
            "<results>/evaluation/{paper}.{table}",
            paper=PAPERS,
            table=["per_query.parquet", "summary.json", "comparisons.parquet"],
        )
        + cost_tables()
        + comparison_tables()
        + selection_tables(),
        code=code("evaluation.claims", "evaluation.ledger") + [commands("evaluation")],
        schema=own("src/espalier/evaluation/claims.schema.json"),
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
        mem_mb=memory(1000, input_share=5),
        runtime=minutes(30),
    params:
        settings=settings(
            "evaluation.alpha", "evaluation.margin", "evaluation.bootstrap_samples"
        ),
    shell:
        "espalier evaluation claims --tables {input.tables} --claims {input.claims}"
        " --ledger {output.ledger} --text {output.text} --record {output.record}"
        " --settings {params.settings:q} --log {log} --threads {threads}"
