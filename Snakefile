configfile: os.path.join(workflow.basedir, "config/default.yaml")


include: "workflow/rules/common.smk"
include: "workflow/rules/collection.smk"
include: "workflow/rules/colbert.smk"


rule all:
    """Everything that this experiment's papers ask for."""
    input:
        targets(),
