rule collection:
    """ir_datasets id -> snapshot of its queries and judgments, manifest of its documents."""
    input:
        code=code("collections.view"),
    output:
        view=directory("<results>/collection/{view}"),
        record="<results>/records/collection-{view}.json",
    log:
        "<results>/logs/collection-{view}.log",
    benchmark:
        "<results>/benchmarks/collection-{view}.tsv"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        settings=settings("collections"),
    shell:
        "espalier collection snapshot --view {output.view} --record {output.record}"
        " --settings {params.settings:q} --log {log} --threads {threads}"
