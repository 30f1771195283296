rule collection:
    """ir_datasets ids or folders -> snapshot of queries and judgments, documents' manifest."""
    input:
        files=view_files,
        code=code("collections.snapshot", "collections.view")
        + [commands("collections")],
    output:
        view=directory("<results>/collection/{view}"),
        record="<results>/records/collections-snapshot-{view}.json",
    log:
        "<results>/logs/collections-snapshot-{view}.log",
    benchmark:
        "<results>/benchmarks/collections-snapshot-{view}.tsv"
    wildcard_constraints:
        view="[^/]+",
    conda:
        "../../envs/espalier.yaml"
    threads: 1
    resources:
        mem_mb=memory(2000),
        runtime=minutes(240),
    params:
        settings=view_settings,
    shell:
        "espalier collections snapshot --view {output.view} --record {output.record}"
        " --settings {params.settings:q} --log {log} --threads {threads}"


rule bm25:
    """Snapshot of a view, its documents or scoreddocs -> candidates, one run per split."""
    input:
        view="<results>/collection/{view}",
        files=view_files,
        code=code("collections.candidates") + [commands("collections")],
    output:
        runs=directory("<results>/bm25/{view}"),
        record="<results>/records/collections-bm25-{view}.json",
    log:
        "<results>/logs/collections-bm25-{view}.log",
    benchmark:
        "<results>/benchmarks/collections-bm25-{view}.tsv"
    wildcard_constraints:
        view="[^/]+",
    conda:
        "../../envs/espalier.yaml"
    threads: 1
    resources:
        mem_mb=memory(1000, document_kb=TEXT_KB),
        runtime=minutes(30, document_ms=2),
    params:
        settings=candidate_settings,
    shell:
        "espalier collections bm25 --view {input.view} --runs {output.runs}"
        " --record {output.record} --settings {params.settings:q} --log {log}"
        " --threads {threads}"
