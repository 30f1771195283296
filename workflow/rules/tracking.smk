rule track:
    """Ledger, measures, costs, runs, report, records -> the MLflow experiment; the only writer."""
    input:
        ledger="<results>/claims.json",
        claims=rules.claims.input.claims,
        text="<results>/claims.txt",
        report="<results>/report",
        summaries=expand("<results>/evaluation/{paper}.summary.json", paper=PAPERS),
        per_query=expand("<results>/evaluation/{paper}.per_query.parquet", paper=PAPERS),
        costs=cost_tables(),
        runs=[folder for paper in PAPERS for folder in run_folders(paper)],
        bm25=expand("<results>/bm25/{view}", view=VIEWS),
        views=expand("<results>/collection/{view}", view=VIEWS),
        records=record_files() + ["<results>/records/report-render.json"],
        code=code("tracking.entries", "tracking.mlflow_view") + [commands("tracking")],
    output:
        tracked="<results>/tracked.json",
        record="<results>/records/tracking-track.json",
    log:
        "<results>/logs/tracking-track.log",
    benchmark:
        "<results>/benchmarks/tracking-track.tsv"
    # On the machine where the chain was started: no node needs to reach MLflow.
    localrule: True
    conda:
        "../../envs/espalier.yaml"
    threads: 1
    resources:
        mem_mb=memory(1000, input_share=1),
        runtime=minutes(30),
    params:
        settings=settings("experiment", "results"),
    shell:
        "espalier tracking track --ledger {input.ledger} --claims {input.claims}"
        " --artifacts {input.ledger} {input.text} {input.report}/index.html"
        " --figures {input.report}/figures --summaries {input.summaries}"
        " --per-query {input.per_query} --costs {input.costs} --runs {input.runs} {input.bm25}"
        " --views {input.views} --records {input.records}"
        " --tracked {output.tracked} --record {output.record}"
        " --settings {params.settings:q} --log {log} --threads {threads}"
