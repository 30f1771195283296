# Long documents: segments, rankers trained on the segments they select, re-ranked test queries.
# A part is a replicate (s1) or a fold of one (s1-f1): best/parts.py.
BEST_TRAINING = [
    "models.ranker",
    "best.ranker",
    "best.batch_tokens",
    "best.checkpoint_seconds",
    "best.training",
]


wildcard_constraints:
    part="|".join(PARTS),
    replicate="s[0-9]+",
    step="[2-9]|[1-9][0-9]+",


rule best_segment:
    """View of the documents, BM25's runs -> instances, candidates, segments as word pieces."""
    input:
        view="<results>/collection/documents",
        candidates="<results>/bm25/documents",
        code=code(
            "best.store",
            "best.instances",
            "best.quality",
            "collections.view",
            "models.locate",
        )
        + [commands("best")],
    output:
        segments=directory("<results>/best/{part}/segments"),
        record="<results>/records/best-segment-{part}.json",
    log:
        "<results>/logs/best-segment-{part}.log",
    benchmark:
        "<results>/benchmarks/best-segment-{part}.tsv"
    conda:
        "../../envs/espalier.yaml"
    threads: 1
    resources:
        mem_mb=memory(2000, document_kb=60),
        runtime=minutes(30, document_ms=10),
    params:
        settings=segment_settings,
    shell:
        "espalier best segment --view {input.view} --candidates {input.candidates}"
        " --segments {output.segments} --record {output.record}"
        " --settings {params.settings:q} --log {log} --threads {threads}"


rule best_describe:
    """View of the documents, all parts' segments -> lengths, judged pairs, answers known."""
    input:
        view="<results>/collection/documents",
        segments=expand("<results>/best/{part}/segments", part=PARTS),
        code=code("best.describe", "models.locate") + [commands("best")],
    output:
        table="<results>/best/data.parquet",
        record="<results>/records/best-describe.json",
    log:
        "<results>/logs/best-describe.log",
    benchmark:
        "<results>/benchmarks/best-describe.tsv"
    conda:
        "../../envs/espalier.yaml"
    threads: 1
    resources:
        mem_mb=memory(1000, input_share=1),
        runtime=minutes(30, document_ms=1, mb_seconds=1),
    params:
        settings=settings("models.ranker", "best.segments.training"),
    shell:
        "espalier best describe --view {input.view} --segments {input.segments}"
        " --table {output.table} --record {output.record} --settings {params.settings:q}"
        " --log {log} --threads {threads}"


rule best_train_joint:
    """Segments -> theta0, trained on all of them, and theta1, on those that theta0 selects."""
    input:
        segments="<results>/best/{part}/segments",
        code=code("best.arms") + [commands("best")],
    output:
        theta0=directory("<results>/best/{part}/models/theta0"),
        theta1=directory("<results>/best/{part}/models/theta1"),
        history="<results>/best/{part}/history/theta1.parquet",
        record="<results>/records/best-train-joint-{part}.json",
    log:
        "<results>/logs/best-train-joint-{part}.log",
    benchmark:
        "<results>/benchmarks/best-train-joint-{part}.tsv"
    conda:
        "../../envs/espalier.yaml"
    threads: 1
    resources:
        mem_mb=memory(6000, input_share=1),
        runtime=minutes(120, mb_seconds=600),
        gpu=gpus("best.training"),
    params:
        launch=launch("best.training"),
        settings=part_settings(*BEST_TRAINING),
    shell:
        "{params.launch} best train-joint --segments {input.segments}"
        " --theta0 {output.theta0} --theta1 {output.theta1}"
        " --history {output.history} --record {output.record}"
        " --settings {params.settings:q} --log {log} --threads {threads}"


rule best_select:
    """Segments, the ranker of the step before -> one shard of what this step trains on."""
    input:
        segments="<results>/best/{part}/segments",
        model=ranker_before,
        code=code("best.arms") + [commands("best")],
    output:
        selection="<results>/best/{part}/selections/{step}/{shard}.parquet",
        record="<results>/records/best-select-{part}-{step}-{shard}.json",
    log:
        "<results>/logs/best-select-{part}-{step}-{shard}.log",
    benchmark:
        "<results>/benchmarks/best-select-{part}-{step}-{shard}.tsv"
    wildcard_constraints:
        shard="[0-9]+",
    conda:
        "../../envs/espalier.yaml"
    threads: 1
    resources:
        mem_mb=memory(3000, input_share=2),
        runtime=minutes(60, mb_seconds=60),
        gpu=gpus(),
    params:
        settings=part_settings(
            "best.batch_tokens",
            "best.checkpoint_seconds",
            "best.selection",
            "best.shards",
            shard="shard",
        ),
    shell:
        "espalier best select --segments {input.segments} --model {input.model}"
        " --selection {output.selection} --record {output.record}"
        " --settings {params.settings:q} --log {log} --threads {threads}"


rule best_train:
    """Segments, for theta2 and later a selection -> one arm's ranker, newly initialised."""
    input:
        segments="<results>/best/{part}/segments",
        selections=selections_for,
        code=code("best.arms") + [commands("best")],
    output:
        model=directory("<results>/best/{part}/models/{model}"),
        history="<results>/best/{part}/history/{model}.parquet",
        record="<results>/records/best-train-{part}-{model}.json",
    log:
        "<results>/logs/best-train-{part}-{model}.log",
    benchmark:
        "<results>/benchmarks/best-train-{part}-{model}.tsv"
    wildcard_constraints:
        model="|".join(SEPARATE) or "none",
    conda:
        "../../envs/espalier.yaml"
    threads: 1
    resources:
        mem_mb=memory(6000, input_share=1),
        runtime=minutes(120, mb_seconds=600),
        gpu=gpus("best.training"),
    params:
        launch=launch("best.training"),
        settings=part_settings(*BEST_TRAINING, model="model"),
    shell:
        "{params.launch} best train --segments {input.segments}"
        " --selections {input.selections} --model {output.model}"
        " --history {output.history} --record {output.record}"
        " --settings {params.settings:q} --log {log} --threads {threads}"


rule best_rerank:
    """Segments, a ranker -> its runs on the test queries, and the score of every segment."""
    input:
        segments="<results>/best/{part}/segments",
        model="<results>/best/{part}/models/{model}",
        code=code("best.arms", "best.reranking") + [commands("best")],
    output:
        runs=directory("<results>/best/{part}/runs/{model}"),
        scores="<results>/best/{part}/scores/{model}.parquet",
        record="<results>/records/best-rerank-{part}-{model}.json",
    log:
        "<results>/logs/best-rerank-{part}-{model}.log",
    benchmark:
        "<results>/benchmarks/best-rerank-{part}-{model}.tsv"
    wildcard_constraints:
        model="|".join(RANKERS),
    conda:
        "../../envs/espalier.yaml"
    threads: 1
    resources:
        mem_mb=memory(3000, input_share=2),
        runtime=minutes(60, mb_seconds=60),
        gpu=gpus(),
    params:
        settings=part_settings(
            "best.batch_tokens",
            "best.checkpoint_seconds",
            "best.reranking",
            model="model",
        ),
    shell:
        "espalier best rerank --segments {input.segments} --model {input.model}"
        " --runs {output.runs} --scores {output.scores} --record {output.record}"
        " --settings {params.settings:q} --log {log} --threads {threads}"


rule best_pick:
    """Histories, scores of all iterations -> BeST: the iteration that the dev measure picks."""
    input:
        histories=expand(
            "<results>/best/{{part}}/history/{model}.parquet", model=THETAS
        ),
        scores=expand("<results>/best/{{part}}/scores/{model}.parquet", model=THETAS),
        code=code("best.iterations", "best.reranking") + [commands("best")],
    output:
        runs=directory("<results>/best/{part}/runs/best"),
        scores="<results>/best/{part}/scores/best.parquet",
        record="<results>/records/best-pick-{part}.json",
    log:
        "<results>/logs/best-pick-{part}.log",
    benchmark:
        "<results>/benchmarks/best-pick-{part}.tsv"
    conda:
        "../../envs/espalier.yaml"
    threads: 1
    resources:
        mem_mb=memory(1000, input_share=5),
        runtime=minutes(30, mb_seconds=5),
    params:
        settings=part_settings("best.reranking"),
    shell:
        "espalier best pick --histories {input.histories} --scores {input.scores}"
        " --runs {output.runs} --picked-scores {output.scores} --record {output.record}"
        " --settings {params.settings:q} --log {log} --threads {threads}"


if config["best"]["folds"]:

    rule best_join_folds:
        """Runs of a ranker in all folds -> one run on all queries for each of its systems."""
        input:
            folds=folds_of,
            code=code("best.reranking") + [commands("best")],
        output:
            runs=directory("<results>/best/{replicate}/runs/{model}"),
            record="<results>/records/best-join-folds-{replicate}-{model}.json",
        log:
            "<results>/logs/best-join-folds-{replicate}-{model}.log",
        benchmark:
            "<results>/benchmarks/best-join-folds-{replicate}-{model}.tsv"
        wildcard_constraints:
            model="|".join([*RANKERS, "best"]),
        conda:
            "../../envs/espalier.yaml"
        threads: 1
        resources:
            mem_mb=memory(1000, input_share=5),
            runtime=minutes(30, mb_seconds=5),
        params:
            settings=settings(),
        shell:
            "espalier best join-folds --folds {input.folds} --runs {output.runs}"
            " --record {output.record} --settings {params.settings:q} --log {log}"
            " --threads {threads}"


rule best_selection_quality:
    """All parts' scores, selections, histories -> whether chosen segments answer; Table 2."""
    input:
        view="<results>/collection/documents",
        segments=expand("<results>/best/{part}/segments", part=PARTS),
        scores=expand(
            "<results>/best/{part}/scores/{model}.parquet",
            part=PARTS,
            model=best.ranked(config),
        ),
        selections=expand(
            "<results>/best/{part}/selections/{step}/{shard}.parquet",
            part=PARTS,
            step=STEPS,
            shard=SHARDS,
        ),
        histories=expand(
            "<results>/best/{part}/history/{model}.parquet",
            part=PARTS,
            model=[ranker for ranker in RANKERS if ranker != "theta0"],
        ),
        code=code("best.quality", "best.store") + [commands("best")],
    output:
        selection="<results>/best/selection.parquet",
        iterations="<results>/best/iterations.parquet",
        history="<results>/best/history.parquet",
        record="<results>/records/best-selection-quality.json",
    log:
        "<results>/logs/best-selection-quality.log",
    benchmark:
        "<results>/benchmarks/best-selection-quality.tsv"
    conda:
        "../../envs/espalier.yaml"
    threads: 1
    resources:
        mem_mb=memory(1000, input_share=5),
        runtime=minutes(30, mb_seconds=5),
    params:
        settings=quality_settings,
    shell:
        "espalier best selection-quality --view {input.view} --segments {input.segments}"
        " --scores {input.scores} --selections {input.selections}"
        " --histories {input.histories} --selection {output.selection}"
        " --iterations {output.iterations} --history {output.history}"
        " --record {output.record} --settings {params.settings:q} --log {log}"
        " --threads {threads}"
