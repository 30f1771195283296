"""`espalier collections …`: snapshots of collections and their BM25 candidates."""

from espalier.stage import Job, Room

room = Room("collections")


@room.stage(outputs=("view",))
def snapshot(job: Job) -> dict[str, int | float]:
    """Write the queries and judgments of one view, and the manifest of its documents."""
    from espalier.collections.snapshot import take

    return take(job.out("view"), job.settings["view"], job.seed)


@room.stage(inputs=("view",), outputs=("runs",))
def bm25(job: Job) -> dict[str, int]:
    """Candidates for every split of a view: BM25's, or those that come with the collection."""
    from espalier.collections import candidates
    from espalier.collections.view import View

    view = View(job.path("view"))
    if job.settings["candidates"] == "scoreddocs":
        return candidates.copy_runs(job.out("runs"), view)
    return candidates.write_runs(job.out("runs"), view, **job.settings["bm25"])
