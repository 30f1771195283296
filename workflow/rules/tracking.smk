rule track:
    """Ledger, summaries, costs, runs, records -> the MLflow experiment; writes the only store."""
    input:
        ledger="<results>/claims.json",
        text="<results>/claims.txt",
        report="<results>/report",
        summaries=expand("<results>/evaluation/{paper}.summary.json", paper=PAPERS),
        costs=cost_tables(),
        runs=[folder for paper in PAPERS for folder in run_folders(paper)],
        bm25=expand("<results>/bm25/{view}", view=VIEWS),
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
        settings=settings("experiment", "results", "collections"),
    shell:
        "espalier tracking track --ledger {input.ledger}"
        " --artifacts {input.ledger} {input.text} {input.report}/index.html"
        " --summaries {input.summaries} --costs {input.costs} --runs {input.runs} {input.bm25}"
        " --records {input.records} --tracked {output.tracked} --record {output.record}"
        " --settings {params.settings:q} --log {log} --threads {threads}"
