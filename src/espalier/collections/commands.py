"""`espalier collections …`: snapshots of collections and their BM25 candidates."""

from espalier.stage import Job, Room

room = Room("collections")


@room.stage(outputs=("view",))
def snapshot(job: Job) -> dict[str, int]:
    """Write the queries and judgments of one view, and the manifest of its documents."""
    from espalier.collections.snapshot import take

    return take(job.out("view"), job.settings["view"], job.seed)


@room.stage(inputs=("view",), outputs=("runs",))
def bm25(job: Job) -> dict[str, int]:
    """Retrieve by BM25 for every split of a view: one folder with one run each."""
    from espalier.collections.candidates import write_runs
    from espalier.collections.view import View

    return write_runs(job.out("runs"), View(job.path("view")), **job.settings["bm25"])
