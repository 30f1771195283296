rule report:
    """Ledger, measures, costs, manifests, records -> the HTML report and its figures."""
    input:
        ledger="<results>/claims.json",
        tables=expand(
            "<results>/evaluation/{paper}.{table}",
            paper=PAPERS,
            table=["per_query.parquet", "summary.json", "comparisons.parquet"],
        )
        + cost_tables()
        + comparison_tables()
        + selection_tables(),
        views=expand("<results>/collection/{view}", view=VIEWS),
        records=record_files(),
        code=code("report.page", "report.sections", "tracking.records")
        + [commands("report")],
        assets=[
            own(f"src/espalier/report/{name}")
            for name in ("template.html", "published.yaml")
        ],
    output:
        report=report(
            directory("<results>/report"),
            patterns=["figures/{name}.svg"],
            caption="../report/figures.rst",
            category="Figures",
        ),
        record="<results>/records/report-render.json",
    log:
        "<results>/logs/report-render.log",
    benchmark:
        "<results>/benchmarks/report-render.tsv"
    conda:
        "../../envs/espalier.yaml"
    threads: 1
    resources:
        mem_mb=memory(1000, input_share=5),
        runtime=minutes(30),
    params:
        settings=settings("experiment", "evaluation.alpha"),
    shell:
        "espalier report render --ledger {input.ledger} --tables {input.tables}"
        " --views {input.views} --records {input.records} --report {output.report}"
        " --record {output.record} --settings {params.settings:q} --log {log}"
        " --threads {threads}"
