# Long documents: segments, rankers trained on the segments they select, re-ranked test queries.
BEST_TRAINING = ["models.ranker", "best.ranker", "best.batch_tokens", "best.training"]


rule best_segment:
    """View of the documents, BM25's runs -> instances, candidates, segments as word pieces."""
    input:
        view="<results>/collection/documents",
        candidates="<results>/bm25/documents",
        code=code("best.store", "best.instances", "collections.view", "models.locate")
        + [commands("best")],
    output:
        segments=directory("<results>/best/segments"),
        record="<results>/records/best-segment.json",
    log:
        "<results>/logs/best-segment.log",
    benchmark:
        "<results>/benchmarks/best-segment.tsv"
    conda:
        "../../envs/espalier.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        settings=settings(
            "models.ranker",
            "best.segments",
            "best.instances",
            "best.training.dev_depth",
            "best.reranking.depth",
        ),
    shell:
        "espalier best segment --view {input.view} --candidates {input.candidates}"
        " --segments {output.segments} --record {output.record}"
        " --settings {params.settings:q} --log {log} --threads {threads}"


rule best_train_first:
    """Segments -> the ranker of FirstP and MaxP, trained on first segments."""
    input:
        segments="<results>/best/segments",
        code=code("best.arms") + [commands("best")],
    output:
        model=directory("<results>/best/models/maxp"),
        history="<results>/best/history/maxp.parquet",
        record="<results>/records/best-train-first.json",
    log:
        "<results>/logs/best-train-first.log",
    benchmark:
        "<results>/benchmarks/best-train-first.tsv"
    conda:
        "../../envs/espalier.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=600,
    params:
        settings=settings(*BEST_TRAINING),
    shell:
        "espalier best train-first --segments {input.segments} --model {output.model}"
        " --history {output.history} --record {output.record}"
        " --settings {params.settings:q} --log {log} --threads {threads}"


rule best_train_joint:
    """Segments -> theta0, trained on all of them, and theta1, on those that theta0 selects."""
    input:
        segments="<results>/best/segments",
        code=code("best.arms") + [commands("best")],
    output:
        theta0=directory("<results>/best/models/theta0"),
        theta1=directory("<results>/best/models/theta1"),
        history="<results>/best/history/theta1.parquet",
        record="<results>/records/best-train-joint.json",
    log:
        "<results>/logs/best-train-joint.log",
    benchmark:
        "<results>/benchmarks/best-train-joint.tsv"
    conda:
        "../../envs/espalier.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=600,
    params:
        settings=settings(*BEST_TRAINING),
    shell:
        "espalier best train-joint --segments {input.segments} --theta0 {output.theta0}"
        " --theta1 {output.theta1} --history {output.history} --record {output.record}"
        " --settings {params.settings:q} --log {log} --threads {threads}"


rule best_select:
    """Segments, the ranker of the step before -> the segments that this step trains on."""
    input:
        segments="<results>/best/segments",
        model=ranker_before,
        code=code("best.arms") + [commands("best")],
    output:
        selection="<results>/best/selections/{step}.parquet",
        record="<results>/records/best-select-{step}.json",
    log:
        "<results>/logs/best-select-{step}.log",
    benchmark:
        "<results>/benchmarks/best-select-{step}.tsv"
    wildcard_constraints:
        step="[2-9]|[1-9][0-9]+",
    conda:
        "../../envs/espalier.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=600,
    params:
        settings=settings("best.batch_tokens"),
    shell:
        "espalier best select --segments {input.segments} --model {input.model}"
        " --selection {output.selection} --record {output.record}"
        " --settings {params.settings:q} --log {log} --threads {threads}"


rule best_train:
    """Segments, selection -> this step's ranker, newly initialised."""
    input:
        segments="<results>/best/segments",
        selection="<results>/best/selections/{step}.parquet",
        code=code("best.arms") + [commands("best")],
    output:
        model=directory("<results>/best/models/theta{step}"),
        history="<results>/best/history/theta{step}.parquet",
        record="<results>/records/best-train-{step}.json",
    log:
        "<results>/logs/best-train-{step}.log",
    benchmark:
        "<results>/benchmarks/best-train-{step}.tsv"
    wildcard_constraints:
        step="[2-9]|[1-9][0-9]+",
    conda:
        "../../envs/espalier.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=600,
    params:
        settings=settings_with("step", *BEST_TRAINING),
    shell:
        "espalier best train --segments {input.segments} --selection {input.selection}"
        " --model {output.model} --history {output.history} --record {output.record}"
        " --settings {params.settings:q} --log {log} --threads {threads}"


rule best_rerank:
    """Segments, a ranker -> its runs on the test split, and the score of every segment."""
    input:
        segments="<results>/best/segments",
        model="<results>/best/models/{model}",
        code=code("best.arms", "best.reranking", "evaluation.runs") + [commands("best")],
    output:
        runs=directory("<results>/best/runs/{model}"),
        scores="<results>/best/scores/{model}.parquet",
        record="<results>/records/best-rerank-{model}.json",
    log:
        "<results>/logs/best-rerank-{model}.log",
    benchmark:
        "<results>/benchmarks/best-rerank-{model}.tsv"
    wildcard_constraints:
        model="maxp|theta[0-9]+",
    conda:
        "../../envs/espalier.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=600,
    params:
        settings=settings_with("model", "best.batch_tokens", "best.reranking"),
    shell:
        "espalier best rerank --segments {input.segments} --model {input.model}"
        " --runs {output.runs} --scores {output.scores} --record {output.record}"
        " --settings {params.settings:q} --log {log} --threads {threads}"


rule best_selection_quality:
    """View, scores, selections, histories -> whether chosen segments answer; one history."""
    input:
        view="<results>/collection/documents",
        segments="<results>/best/segments",
        scores=expand("<results>/best/scores/{model}.parquet", model=RANKERS),
        selections=expand("<results>/best/selections/{step}.parquet", step=STEPS),
        histories=expand(
            "<results>/best/history/{model}.parquet",
            model=[model for model in RANKERS if model != "theta0"],
        ),
        code=code("best.quality", "best.store") + [commands("best")],
    output:
        selection="<results>/best/selection.parquet",
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
        mem_mb=4000,
        runtime=60,
    params:
        settings=settings(),
    shell:
        "espalier best selection-quality --view {input.view} --segments {input.segments}"
        " --scores {input.scores} --selections {input.selections}"
        " --histories {input.histories} --selection {output.selection}"
        " --history {output.history} --record {output.record}"
        " --settings {params.settings:q} --log {log} --threads {threads}"
