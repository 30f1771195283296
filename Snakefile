configfile: os.path.join(workflow.basedir, "config/default.yaml")


include: "workflow/rules/common.smk"
include: "workflow/rules/collection.smk"
include: "workflow/rules/best.smk"
include: "workflow/rules/colbert.smk"
include: "workflow/rules/sparse.smk"
include: "workflow/rules/evaluation.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/tracking.smk"


rule all:
    """Everything that this experiment's papers ask for."""
    default_target: True
    input:
        "<results>/claims.json",
        "<results>/report",
        "<results>/tracked.json",
        record_files(),
