rule colbert_train:
    """x."""
    input:
        training="<results>/collection/training",
    output:
        model=directory("<results>/colbert/model"),
    log:
        "<results>/logs/colbert-train.log",
    shell:
        "echo {input.training} {output.model} > {log}"
