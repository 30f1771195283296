# The passages in dual-weight indexes, one weighting after another, searched under each setting.
wildcard_constraints:
    weighting="|".join(WEIGHTINGS),
    shard=r"\d+",


# Memory for a document that is encoded: MS MARCO's have 6.4 segments, of some 33 KB each.
ENCODED_KB = 240 if any("segments" in spec for spec in WEIGHTINGS.values()) else 120


rule sparse_expand:
    """View of the passages -> questions that docT5query predicts for one slice, as JSON lines."""
    input:
        view="<results>/collection/passages",
        code=code("sparse.doct5query", "models.locate") + [commands("sparse")],
    output:
        questions="<results>/sparse/{weighting}/questions/{shard}.jsonl",
        record="<results>/records/sparse-expand-{weighting}-{shard}.json",
    log:
        "<results>/logs/sparse-expand-{weighting}-{shard}.log",
    benchmark:
        "<results>/benchmarks/sparse-expand-{weighting}-{shard}.tsv"
    conda:
        "../../envs/espalier.yaml"
    threads: 1
    resources:
        mem_mb=memory(6000, document_kb=20, shards=config["sparse"]["shards"]),
        runtime=minutes(60, document_ms=5000, shards=config["sparse"]["shards"]),
        gpu=gpus(),
    params:
        settings=shard_settings,
    shell:
        "espalier sparse expand --view {input.view} --questions {output.questions}"
        " --record {output.record} --settings {params.settings:q} --log {log} --threads {threads}"


rule sparse_encode:
    """View of the passages, their expansions -> frequencies and learned weights of one slice."""
    input:
        view="<results>/collection/passages",
        expansions=expansions_of,
        code=code("sparse.weightings", "sparse.shards") + [commands("sparse")],
    output:
        shard=directory("<results>/sparse/{weighting}/shards/{shard}"),
        record="<results>/records/sparse-encode-{weighting}-{shard}.json",
    log:
        "<results>/logs/sparse-encode-{weighting}-{shard}.log",
    benchmark:
        "<results>/benchmarks/sparse-encode-{weighting}-{shard}.tsv"
    conda:
        "../../envs/espalier.yaml"
    threads: 1
    resources:
        mem_mb=memory(2000, document_kb=ENCODED_KB, shards=config["sparse"]["shards"]),
        runtime=minutes(30, document_ms=60, shards=config["sparse"]["shards"]),
        gpu=gpus(),
    params:
        settings=shard_settings,
        expansions=optional("--expansions", expansions_of),
    shell:
        "espalier sparse encode --view {input.view} {params.expansions} --shard {output.shard}"
        " --record {output.record} --settings {params.settings:q} --log {log} --threads {threads}"


rule sparse_invert:
    """Frequencies and learned weights of one slice -> the same, term by term."""
    input:
        shard="<results>/sparse/{weighting}/shards/{shard}",
        code=code("sparse.inverted") + [commands("sparse")],
    output:
        inverted=directory("<results>/sparse/{weighting}/inverted/{shard}"),
        record="<results>/records/sparse-invert-{weighting}-{shard}.json",
    log:
        "<results>/logs/sparse-invert-{weighting}-{shard}.log",
    benchmark:
        "<results>/benchmarks/sparse-invert-{weighting}-{shard}.tsv"
    conda:
        "../../envs/espalier.yaml"
    threads: 1
    resources:
        mem_mb=memory(1000, input_share=8),
        runtime=minutes(10, mb_seconds=0.5),
    params:
        settings=settings(),
    shell:
        "espalier sparse invert --shard {input.shard} --inverted {output.inverted}"
        " --record {output.record} --settings {params.settings:q} --log {log} --threads {threads}"


rule sparse_index:
    """Inverted slices -> a weighting's indexes of both weights and of each, their distributions."""
    input:
        inverted=inverted_of,
        code=code("sparse.index", "sparse.weights") + [commands("sparse")],
    output:
        indexes=directory("<results>/sparse/{weighting}/indexes/{weighting}"),
        weights="<results>/sparse/{weighting}/weights.parquet",
        record="<results>/records/sparse-index-{weighting}.json",
    log:
        "<results>/logs/sparse-index-{weighting}.log",
    benchmark:
        "<results>/benchmarks/sparse-index-{weighting}.tsv"
    conda:
        "../../envs/espalier.yaml"
    threads: 1
    resources:
        mem_mb=memory(4000, input_share=0.5),
        runtime=minutes(30, mb_seconds=2),
    params:
        settings=index_settings,
    shell:
        "espalier sparse index --inverted {input.inverted} --indexes {output.indexes}"
        " --weights {output.weights} --record {output.record}"
        " --settings {params.settings:q} --log {log} --threads {threads}"


rule sparse_encode_queries:
    """View of the passages -> integer query weights of the test split, for one weighting."""
    input:
        view="<results>/collection/passages",
        code=code("sparse.weightings", "sparse.queries") + [commands("sparse")],
    output:
        queries="<results>/sparse/{weighting}/queries.parquet",
        record="<results>/records/sparse-encode-queries-{weighting}.json",
    log:
        "<results>/logs/sparse-encode-queries-{weighting}.log",
    benchmark:
        "<results>/benchmarks/sparse-encode-queries-{weighting}.tsv"
    conda:
        "../../envs/espalier.yaml"
    threads: 1
    resources:
        mem_mb=memory(2000),
        runtime=minutes(60),
        gpu=gpus(),
    params:
        settings=query_settings,
    shell:
        "espalier sparse encode-queries --view {input.view} --queries {output.queries}"
        " --record {output.record} --settings {params.settings:q} --log {log} --threads {threads}"


rule sparse_retrieve:
    """All weightings' indexes and queries -> a run for each setting, what each query touched."""
    input:
        indexes=expand(
            "<results>/sparse/{weighting}/indexes/{weighting}", weighting=WEIGHTINGS
        ),
        queries=expand(
            "<results>/sparse/{weighting}/queries.parquet", weighting=WEIGHTINGS
        ),
        code=code("sparse.retrieval", "sparse.queries", "evaluation.runs")
        + [commands("sparse")],
    output:
        runs=directory("<results>/sparse/runs"),
        counts="<results>/sparse/counts.parquet",
        record="<results>/records/sparse-retrieve.json",
    log:
        "<results>/logs/sparse-retrieve.log",
    benchmark:
        "<results>/benchmarks/sparse-retrieve.tsv"
    conda:
        "../../envs/espalier.yaml"
    threads: 1
    resources:
        mem_mb=memory(2000, input_share=0.5),
        runtime=minutes(60, mb_seconds=1),
    params:
        settings=flat_settings("sparse.settings", "sparse.depth", "sparse.segment_hits"),
    shell:
        "espalier sparse retrieve --indexes {input.indexes} --queries {input.queries}"
        " --runs {output.runs} --counts {output.counts} --record {output.record}"
        " --settings {params.settings:q} --log {log} --threads {threads}"


rule sparse_latency:
    """Indexes and queries -> time of each query under each setting, interleaved, one thread."""
    input:
        indexes=expand(
            "<results>/sparse/{weighting}/indexes/{weighting}", weighting=WEIGHTINGS
        ),
        queries=expand(
            "<results>/sparse/{weighting}/queries.parquet", weighting=WEIGHTINGS
        ),
        code=code("sparse.retrieval", "sparse.queries") + [commands("sparse")],
    output:
        latency="<results>/sparse/latency.parquet",
        record="<results>/records/sparse-latency.json",
    log:
        "<results>/logs/sparse-latency.log",
    benchmark:
        "<results>/benchmarks/sparse-latency.tsv"
    conda:
        "../../envs/espalier.yaml"
    threads: all_cores()
    resources:
        mem_mb=memory(2000, input_share=0.5),
        runtime=minutes(60, mb_seconds=1),
    params:
        settings=flat_settings(
            "sparse.settings",
            "sparse.depth",
            "sparse.segment_hits",
            "sparse.latency_queries",
            "sparse.latency_repeats",
        ),
    shell:
        "espalier sparse latency --indexes {input.indexes} --queries {input.queries}"
        " --latency {output.latency} --record {output.record}"
        " --settings {params.settings:q} --log {log} --threads 1"


rule sparse_export:
    """A weighting's index -> one side's impacts as a CIFF file (asked for by its path)."""
    input:
        indexes="<results>/sparse/{weighting}/indexes/{weighting}",
        code=code("sparse.exchange", "sparse.index") + [commands("sparse")],
    output:
        ciff="<results>/sparse/{weighting}/{side}.ciff.gz",
        record="<results>/records/sparse-export-{weighting}-{side}.json",
    log:
        "<results>/logs/sparse-export-{weighting}-{side}.log",
    benchmark:
        "<results>/benchmarks/sparse-export-{weighting}-{side}.tsv"
    wildcard_constraints:
        side="learned|bm25",
    conda:
        "../../envs/espalier.yaml"
    threads: 1
    resources:
        mem_mb=memory(2000, input_share=8),
        runtime=minutes(30, mb_seconds=1),
    params:
        settings=export_settings,
    shell:
        "espalier sparse export --index {input.indexes}/union --ciff {output.ciff}"
        " --record {output.record} --settings {params.settings:q} --log {log} --threads {threads}"
