# Late interaction: train the encoder, embed the passages, index them, prune the queries.


rule colbert_train:
    """View and its BM25 candidates, if it is trained on any -> late-interaction encoder."""
    input:
        view="<results>/collection/training" if TRAINS_ENCODER else [],
        candidates="<results>/bm25/training" if TRAINS_ENCODER else [],
        code=code(
            "colbert.training", "collections.view", "evaluation.runs", "models.locate"
        )
        + [commands("colbert")],
    output:
        model=directory("<results>/colbert/model"),
        record="<results>/records/colbert-train.json",
    log:
        "<results>/logs/colbert-train.log",
    benchmark:
        "<results>/benchmarks/colbert-train.tsv"
    conda:
        "../../envs/espalier.yaml"
    threads: all_cores()
    resources:
        mem_mb=memory(6000),
        runtime=minutes(60 + minutes_each("colbert.training.triples", 0.3)),
        gpu=gpus("colbert.training"),
    params:
        settings=settings("models.encoder", "colbert.encoder", "colbert.training"),
        launch=launch("colbert.training"),
    shell:
        "{params.launch} colbert train --view {input.view} --candidates {input.candidates}"
        " --model {output.model}"
        " --record {output.record} --settings {params.settings:q} --log {log}"
        " --threads {threads}"


rule colbert_codec:
    """Passages and encoder -> centroids and buckets that compress embeddings."""
    input:
        view="<results>/collection/passages",
        model="<results>/colbert/model",
        code=code("colbert.encoder", "colbert.compression", "collections.view")
        + [commands("colbert")],
    output:
        codec=directory("<results>/colbert/codec"),
        record="<results>/records/colbert-codec.json",
    log:
        "<results>/logs/colbert-codec.log",
    benchmark:
        "<results>/benchmarks/colbert-codec.tsv"
    conda:
        "../../envs/espalier.yaml"
    threads: 1
    resources:
        mem_mb=memory(6000, input_share=1),
        runtime=minutes(60, mb_seconds=5),
        gpu=gpus(),
    params:
        settings=settings("colbert.store"),
    shell:
        "espalier colbert codec --view {input.view} --model {input.model} --codec {output.codec}"
        " --record {output.record} --settings {params.settings:q} --log {log}"
        " --threads {threads}"


rule colbert_encode:
    """Passages, encoder and, if embeddings are compressed, codec -> embeddings of one slice."""
    input:
        view="<results>/collection/passages",
        model="<results>/colbert/model",
        codec=(
            "<results>/colbert/codec"
            if config["colbert"]["store"]["bits"] < 16
            else []
        ),
        code=code("colbert.encoder", "colbert.store", "collections.view")
        + [commands("colbert")],
    output:
        shard=directory("<results>/colbert/shards/{shard}"),
        record="<results>/records/colbert-encode-{shard}.json",
    log:
        "<results>/logs/colbert-encode-{shard}.log",
    benchmark:
        "<results>/benchmarks/colbert-encode-{shard}.tsv"
    conda:
        "../../envs/espalier.yaml"
    threads: 1
    resources:
        mem_mb=memory(2000, document_kb=120, shards=config["colbert"]["shards"]),
        runtime=minutes(30, document_ms=80, shards=config["colbert"]["shards"]),
        gpu=gpus(),
    params:
        settings=settings_with("shard", "colbert.shards"),
    shell:
        "espalier colbert encode --view {input.view} --model {input.model} --codec {input.codec}"
        " --shard {output.shard}"
        " --record {output.record} --settings {params.settings:q} --log {log}"
        " --threads {threads}"


rule colbert_quantizer:
    """Embeddings of all slices -> what codes a share of each document's, trained on a sample."""
    input:
        model="<results>/colbert/model",
        shards=expand(
            "<results>/colbert/shards/{shard}",
            shard=range(config["colbert"]["shards"]),
        ),
        code=code("colbert.quantizer", "colbert.static", "colbert.store")
        + [commands("colbert")],
    output:
        quantizer=directory("<results>/colbert/quantizers/{kept}"),
        record="<results>/records/colbert-quantizer-{kept}.json",
    log:
        "<results>/logs/colbert-quantizer-{kept}.log",
    benchmark:
        "<results>/benchmarks/colbert-quantizer-{kept}.tsv"
    conda:
        "../../envs/espalier.yaml"
    threads: 1
    resources:
        mem_mb=memory(2000, input_share=0.4),
        runtime=minutes(30, mb_seconds=5),
    params:
        settings=settings_with("kept", "colbert.index"),
    shell:
        "espalier colbert quantizer --model {input.model} --shards {input.shards}"
        " --quantizer {output.quantizer}"
        " --record {output.record} --settings {params.settings:q} --log {log}"
        " --threads {threads}"


rule colbert_invert:
    """Embeddings of one slice, quantizer -> codes of a share of each document's, in its lists."""
    input:
        quantizer="<results>/colbert/quantizers/{kept}",
        shard="<results>/colbert/shards/{shard}",
        code=code("colbert.inverted", "colbert.static", "colbert.store")
        + [commands("colbert")],
    output:
        lists=directory("<results>/colbert/inverted/{kept}/{shard}"),
        record="<results>/records/colbert-invert-{kept}-{shard}.json",
    log:
        "<results>/logs/colbert-invert-{kept}-{shard}.log",
    benchmark:
        "<results>/benchmarks/colbert-invert-{kept}-{shard}.tsv"
    conda:
        "../../envs/espalier.yaml"
    threads: 1
    resources:
        mem_mb=memory(2000, input_share=1.5),
        runtime=minutes(30, mb_seconds=4),
    params:
        settings=settings_with("shard"),
    shell:
        "espalier colbert invert --quantizer {input.quantizer} --shard {input.shard}"
        " --lists {output.lists}"
        " --record {output.record} --settings {params.settings:q} --log {log}"
        " --threads {threads}"


rule colbert_index:
    """Quantizer, lists of all slices -> approximate index of a share of each document's."""
    input:
        quantizer="<results>/colbert/quantizers/{kept}",
        lists=expand(
            "<results>/colbert/inverted/{{kept}}/{shard}",
            shard=range(config["colbert"]["shards"]),
        ),
        code=code("colbert.index") + [commands("colbert")],
    output:
        index=directory("<results>/colbert/indexes/{kept}"),
        record="<results>/records/colbert-index-{kept}.json",
    log:
        "<results>/logs/colbert-index-{kept}.log",
    benchmark:
        "<results>/benchmarks/colbert-index-{kept}.tsv"
    conda:
        "../../envs/espalier.yaml"
    threads: 1
    resources:
        mem_mb=memory(2000),
        runtime=minutes(30, mb_seconds=0.1),
    params:
        settings=settings(),
    shell:
        "espalier colbert index --quantizer {input.quantizer} --lists {input.lists}"
        " --index {output.index}"
        " --record {output.record} --settings {params.settings:q} --log {log}"
        " --threads {threads}"


rule colbert_sweep:
    """Queries, encoder, embeddings, index -> a run for each order and p, documents retrieved."""
    input:
        view="<results>/collection/passages",
        model="<results>/colbert/model",
        shards=expand(
            "<results>/colbert/shards/{shard}",
            shard=range(config["colbert"]["shards"]),
        ),
        indexes=expand("<results>/colbert/indexes/{kept}", kept=KEPT),
        code=code(
            "colbert.sweep",
            "colbert.pipeline",
            "colbert.pruning",
            "colbert.systems",
            "collections.view",
            "evaluation.measures",
            "evaluation.runs",
        )
        + [commands("colbert")],
    output:
        runs=directory("<results>/colbert/runs"),
        counts="<results>/colbert/counts.parquet",
        record="<results>/records/colbert-sweep.json",
    log:
        "<results>/logs/colbert-sweep.log",
    benchmark:
        "<results>/benchmarks/colbert-sweep.tsv"
    conda:
        "../../envs/espalier.yaml"
    threads: all_cores()
    resources:
        mem_mb=memory(4000, input_share=0.4),
        runtime=minutes(60, mb_seconds=2),
    params:
        settings=settings(
            "colbert.retrieval",
            "colbert.static.systems",
            "evaluation.relevance_levels",
        ),
    shell:
        "espalier colbert sweep --view {input.view} --model {input.model} --shards {input.shards}"
        " --indexes {input.indexes} --runs {output.runs} --counts {output.counts}"
        " --record {output.record} --settings {params.settings:q} --log {log}"
        " --threads {threads}"


rule colbert_latency:
    """Queries, encoder, embeddings, index -> time of each query, systems interleaved."""
    input:
        view="<results>/collection/passages",
        model="<results>/colbert/model",
        shards=expand(
            "<results>/colbert/shards/{shard}",
            shard=range(config["colbert"]["shards"]),
        ),
        indexes=expand("<results>/colbert/indexes/{kept}", kept=KEPT),
        code=code("colbert.latency", "colbert.pruning", "collections.view")
        + [commands("colbert")],
    output:
        latency="<results>/colbert/latency.parquet",
        record="<results>/records/colbert-latency.json",
    log:
        "<results>/logs/colbert-latency.log",
    benchmark:
        "<results>/benchmarks/colbert-latency.tsv"
    conda:
        "../../envs/espalier.yaml"
    threads: all_cores()
    resources:
        mem_mb=memory(4000, input_share=0.4),
        runtime=minutes(60, mb_seconds=2),
    params:
        settings=settings("colbert.retrieval", "colbert.latency"),
    shell:
        "espalier colbert latency --view {input.view} --model {input.model} --shards {input.shards}"
        " --indexes {input.indexes} --latency {output.latency}"
        " --record {output.record} --settings {params.settings:q} --log {log}"
        " --threads 1"
