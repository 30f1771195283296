# The passages in a dual-weight index, searched under each setting of the config.


rule sparse_encode:
    """View of the passages -> word-piece frequencies and learned weights of one slice."""
    input:
        view="<results>/collection/passages",
        code=code("sparse.splade", "sparse.shards", "models.locate")
        + [commands("sparse")],
    output:
        shard=directory("<results>/sparse/shards/{shard}"),
        record="<results>/records/sparse-encode-{shard}.json",
    log:
        "<results>/logs/sparse-encode-{shard}.log",
    benchmark:
        "<results>/benchmarks/sparse-encode-{shard}.tsv"
    conda:
        "../../envs/espalier.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=240,
    params:
        settings=settings_with(
            "shard", "models.splade", "sparse.max_length", "sparse.shards"
        ),
    shell:
        "espalier sparse encode --view {input.view} --shard {output.shard}"
        " --record {output.record} --settings {params.settings:q} --log {log} --threads {threads}"


rule sparse_index:
    """Shards -> dual-weight index, and the distributions of its weights."""
    input:
        shards=expand(
            "<results>/sparse/shards/{shard}", shard=range(config["sparse"]["shards"])
        ),
        code=code("sparse.index", "sparse.weights") + [commands("sparse")],
    output:
        index=directory("<results>/sparse/index"),
        weights="<results>/sparse/weights.parquet",
        record="<results>/records/sparse-index.json",
    log:
        "<results>/logs/sparse-index.log",
    benchmark:
        "<results>/benchmarks/sparse-index.tsv"
    conda:
        "../../envs/espalier.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=120,
    params:
        settings=settings("models.splade", "sparse.block_size", "bm25.k1", "bm25.b"),
    shell:
        "espalier sparse index --shards {input.shards} --index {output.index}"
        " --weights {output.weights} --record {output.record}"
        " --settings {params.settings:q} --log {log} --threads {threads}"


rule sparse_encode_queries:
    """View of the passages -> integer query weights of the test split."""
    input:
        view="<results>/collection/passages",
        code=code("sparse.splade", "sparse.queries", "models.locate")
        + [commands("sparse")],
    output:
        queries="<results>/sparse/queries.parquet",
        record="<results>/records/sparse-encode-queries.json",
    log:
        "<results>/logs/sparse-encode-queries.log",
    benchmark:
        "<results>/benchmarks/sparse-encode-queries.tsv"
    conda:
        "../../envs/espalier.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        settings=settings("models.splade", "sparse.max_length", "sparse.bm25_scale"),
    shell:
        "espalier sparse encode-queries --view {input.view} --queries {output.queries}"
        " --record {output.record} --settings {params.settings:q} --log {log} --threads {threads}"


rule sparse_retrieve:
    """Index and queries -> a run for each setting, and what each query touched."""
    input:
        index="<results>/sparse/index",
        queries="<results>/sparse/queries.parquet",
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
        mem_mb=4000,
        runtime=120,
    params:
        settings=settings("sparse.settings", "sparse.depth"),
    shell:
        "espalier sparse retrieve --index {input.index} --queries {input.queries}"
        " --runs {output.runs} --counts {output.counts} --record {output.record}"
        " --settings {params.settings:q} --log {log} --threads {threads}"


rule sparse_latency:
    """Index and queries -> time of each query under each setting, interleaved, one thread."""
    input:
        index="<results>/sparse/index",
        queries="<results>/sparse/queries.parquet",
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
    threads: workflow.cores
    resources:
        mem_mb=4000,
        runtime=120,
    params:
        settings=settings(
            "sparse.settings",
            "sparse.depth",
            "sparse.latency_queries",
            "sparse.latency_repeats",
        ),
    shell:
        "espalier sparse latency --index {input.index} --queries {input.queries}"
        " --latency {output.latency} --record {output.record}"
        " --settings {params.settings:q} --log {log} --threads 1"
