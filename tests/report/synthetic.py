"""A made-up results folder with every file that the report and the ledger read."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from espalier.evaluation import runs
from espalier.files import sha256_of
from espalier.tracking import records

ROOT = Path(__file__).parents[2]
QUERIES = [f"q{i:02}" for i in range(40)]
DOCS = [f"d{i:03}" for i in range(60)]
SWEEP = [f"{order}-p{p:02}" for order in ("first", "icf") for p in (1, 2, 3, 8, 15, 32)]
SYSTEMS = {
    "best": ["bm25", "firstp", "maxp", "theta0", "theta1", "theta2"],
    "colbert": ["bm25", *SWEEP, "icf-s0.5", "icf-p03-d0.5"],
    "sparse": [
        "bm25",
        "splade-original",
        "splade-original-union",
        "splade-dths",
        "splade-dths-st",
        "splade-dths-x0.5",
        "splade-dths-x4",
        "splade-hybrid",
        "splade-dths-k100",
    ],
}
VIEWS = ["documents", "passages"]
MEASURES = ["nDCG@10", "RR@10", "AP", "P@1", "NumRelRet"]
OWN = "mine"
"""A run of the user's own, measured for query embedding pruning."""
EVALUATION = {
    "own_runs": [],
    "measures": MEASURES,
    "relevance_levels": {"msmarco-passage/trec-dl-*": 2},
    "alpha": 0.05,
    "margin": {"absolute": 0.01, "relative": 0.02},
    "bootstrap_samples": 200,
}
FAMILIES = {
    "best": {"name": "segments", "baseline": "maxp", "systems": ["theta*", "firstp", "bm25"]},
    "colbert": {"name": "pruning", "baseline": "first-p32", "systems": ["first-*", "icf-p??"]},
    "sparse": {
        "name": "guidance",
        "baseline": "splade-original",
        "systems": ["splade-dths*", "splade-hybrid", "gone*"],
    },
}
OWN_FAMILY = {"name": "own", "baseline": "first-p32", "systems": [OWN]}


def view(folder: Path) -> Path:
    """40 queries, the last one without judgments; each has two relevant documents."""
    folder.mkdir(parents=True)
    lines = [f"{q}\ttext of {q}" for q in QUERIES]
    (folder / "test.queries.tsv").write_text("\n".join(lines) + "\n")
    judged = [f"{q} 0 {DOCS[(i + j) % 60]} 1" for i, q in enumerate(QUERIES[:-1]) for j in (0, 7)]
    (folder / "test.qrels").write_text("\n".join(judged) + "\n")
    manifest = {
        "docs": "made-up/docs", "docs_count": 60, "docs_sha256": "0" * 64,
        "splits": {"test": {"id": "made-up/docs/test", "unanswerable": 0, "not_sampled": 0}},
    }  # fmt: skip
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def system_runs(folder: Path, paper: str) -> Path:
    """One run per system; later systems rank the relevant documents higher."""
    generator = np.random.default_rng(len(paper))
    for strength, system in enumerate(SYSTEMS[paper], start=1):
        score = generator.normal(size=(40, 60))
        for i in range(40):
            score[i, [i % 60, (i + 7) % 60]] += 0.3 * strength
        frame = pd.DataFrame(
            {"query_id": np.repeat(QUERIES, 60), "doc_id": DOCS * 40, "score": score.ravel()}
        )
        method = {"automatic": True, "retrieval": [{"name": "made up", "strength": strength}]}
        runs.write(folder / f"{system}.run.gz", frame, {"method": method})
    return folder


def stage_records(folder: Path, papers: Sequence[str]) -> None:
    """The records of the stages that made views, a model and runs would have written."""
    (folder / "colbert").mkdir(exist_ok=True)
    (folder / "colbert" / "model").write_text("weights")
    passages = [folder / "collection" / "passages"]
    stages = [
        (f"collections-snapshot-{name}", "collections snapshot", {},
         {"view": [folder / "collection" / name]})
        for name in VIEWS
    ]  # fmt: skip
    stages += [("colbert-train", "colbert train", {"view": passages},
                {"model": [folder / "colbert" / "model"]})]  # fmt: skip
    stages += [
        (f"{paper}-sweep", f"{paper} sweep",
         {"view": passages, "model": [folder / "colbert" / "model"] if paper == "colbert" else []},
         {"runs": [folder / paper / "runs"]})
        for paper in papers
    ]  # fmt: skip
    for number, (name, stage, inputs, outputs) in enumerate(stages):
        record = folder / "records" / f"{name}.json"
        records.write(
            record, stage=stage, command=["espalier", *stage.split()],
            settings={"seed": 1, "depth": 60}, inputs=records.described(inputs, record),
            outputs=outputs,
            metrics={"documents": 60},
            cost={"started": 1.7e9 + number, "wall_seconds": 2.5, "cpu_seconds": 2.0,
                  "peak_memory_bytes": 10**8, "threads": 1},
        )  # fmt: skip


def sparse_counts(work: np.ndarray) -> dict[str, np.ndarray]:
    """What only sparse retrieval counts."""
    overlap = 1.0 - 0.001 * (work % 3)
    return {"blocks_loaded": work // 9, "blocks": work // 8, "overlap": overlap}


def pruning_counts(work: np.ndarray, p: int) -> dict[str, np.ndarray]:
    """What only query embedding pruning counts."""
    masks = 20 + work % 3
    tokens = {"masks": masks, "tokens_without_masks": 32 - masks, "word_pieces": 29 - masks}
    return {
        "relevant_retrieved": work // 40,
        "embeddings": np.full(len(work), p),
        "index_bytes": 24 * np.full(len(work), 7),
        "store_bytes": 260 * np.full(len(work), 7),
        "store_embeddings": np.full(len(work), 7),
        **tokens,
    }


def cost_tables(folder: Path) -> None:
    """Counts and latencies that grow with p, selection hits, history, weights."""
    generator = np.random.default_rng(9)
    for paper in ("colbert", "sparse"):
        counts, latency = [], []
        for n, system in enumerate(SYSTEMS[paper][1:], start=1):
            size = int(system[-2:]) if system[-2:].isdigit() else n
            work = generator.integers(80, 120, size=40) * (size + 2)
            counts.append(pd.DataFrame({
                "system": system, "query_id": QUERIES,
                "documents_retrieved" if paper == "colbert" else "documents_scored": work,
                **(sparse_counts(work) if paper == "sparse" else pruning_counts(work, size)),
            }))  # fmt: skip
            latency.append(pd.DataFrame({
                "system": system, "query_id": QUERIES,
                **({"encode_ns": 400_000, "score_ns": work * 1000} if paper == "colbert" else {}),
                "total_ns": work * 1000 + 400_000,
            }))  # fmt: skip
        (folder / paper).mkdir(parents=True, exist_ok=True)
        pd.concat(counts).to_parquet(folder / paper / "counts.parquet", index=False)
        pd.concat(latency).to_parquet(folder / paper / "latency.parquet", index=False)
    (folder / "best").mkdir(parents=True, exist_ok=True)
    rate = {"random": 0.2, "maxp": 0.3, "theta0": 0.4, "theta1": 0.6, "theta2": 0.8}
    hits = [
        {"system": s, "query_id": q, "doc_id": "d", "hit": int(x < r), "hit_strict": int(x < r / 2)}
        for s, r in rate.items()
        for q, x in zip(QUERIES, generator.random(40), strict=True)
    ]
    pd.DataFrame(hits).to_parquet(folder / "best" / "selection.parquet", index=False)
    data = [("document_pieces", 60, None, 90.5, 71.0, 200.0), ("positives", 40) + (None,) * 4]
    data += [("relevant_passages_train", 1000, 0.58, None, None, None)]
    columns = ["quantity", "count", "share", "mean", "median", "p90"]
    pd.DataFrame(data, columns=columns).to_parquet(folder / "best" / "data.parquet", index=False)
    history = [
        {"system": s, "epoch": e, "loss": 1 / (e + n), "dev_rr": 0.3 + 0.05 * n + 0.02 * e}
        for n, s in enumerate(["maxp", "theta0", "theta1", "theta2"], start=1)
        for e in range(1, 4)
    ]
    pd.DataFrame(history).to_parquet(folder / "best" / "history.parquet", index=False)
    reached = [
        {"system": s, "dev_rr": reached, "picked": s == picked, "part": part}
        for part, picked, shift in (("s1", "theta2", 0.0), ("s2", "theta1", 0.2))
        for s, reached in (
            ("maxp", 0.3),
            ("theta1", 0.4 + shift),
            ("theta2", 0.5),
            ("chance", None),
        )
    ]
    pd.DataFrame(reached).to_parquet(folder / "best" / "iterations.parquet", index=False)
    edges = np.linspace(0, 1, 11)
    weights = [
        {"side": side, "bin_low": low, "bin_high": high, "count": int(100 * height)}
        for side, shape in (("bm25", -4), ("learned", -1))
        for low, high, height in zip(edges[:-1], edges[1:], np.exp(shape * edges[:-1]), strict=True)
    ]
    (folder / "sparse" / "splade").mkdir()
    pd.DataFrame(weights).to_parquet(folder / "sparse/splade/weights.parquet", index=False)


def adopt_arguments(folder: Path) -> list[str]:
    """The command line that takes in the user's own run, with the lines that it reads."""
    lines = [f"{q} 0 {DOCS[(i + 7) % 60]} 1 2.5 theirs\n" for i, q in enumerate(QUERIES)]
    (folder / f"{OWN}.txt").write_text("".join(lines))
    return [
        "evaluation", "adopt", "--view", str(folder / "collection" / "passages"),
        "--own", str(folder / f"{OWN}.txt"), "--runs", str(folder / "colbert" / "own"),
        "--record", str(folder / "records" / "evaluation-adopt-colbert.json"),
        "--settings", json.dumps({"seed": 1, "names": [OWN]}),
    ]  # fmt: skip


def run_folders(folder: Path, paper: str) -> list[str]:
    """Where the runs of a paper are."""
    own = [folder / paper / "own"] if paper == "colbert" else []
    return [str(place) for place in (folder / paper / "runs", *own)]


def evaluation_settings(paper: str) -> dict[str, object]:
    """Of one paper's measures and comparisons."""
    measured = {"measures": ["nDCG@10", "RR@10", "AP"]}
    own = [OWN] if paper == "colbert" else []
    families = [FAMILIES[paper], *([OWN_FAMILY] if own else [])]
    return {**EVALUATION, "own_runs": own, "families": [{**f, **measured} for f in families]}


def evaluate_arguments(folder: Path, paper: str) -> list[str]:
    """The command line that the chain would give, for one paper."""
    stem = folder / "evaluation" / paper
    settings = {"seed": 1, "paper": paper, "evaluation": evaluation_settings(paper)}
    return [
        "evaluation", "evaluate", "--view", str(folder / "collection" / "passages"),
        "--runs", *run_folders(folder, paper),
        "--per-query", f"{stem}.per_query.parquet", "--summary", f"{stem}.summary.json",
        "--comparisons", f"{stem}.comparisons.parquet",
        "--record", str(folder / "records" / f"evaluation-evaluate-{paper}.json"),
        "--settings", json.dumps(settings),
    ]  # fmt: skip


def latencies_arguments(folder: Path, paper: str, baseline: str) -> list[str]:
    """The command line that compares one paper's times."""
    family = {"name": "times", "baseline": baseline, "systems": ["*"], "columns": ["total_ns"]}
    settings = {"seed": 1, "evaluation": {**EVALUATION, "families": [family]}}
    return [
        "evaluation", "latencies", "--latency", str(folder / paper / "latency.parquet"),
        "--ratios", str(folder / "evaluation" / f"{paper}.latencies.parquet"),
        "--record", str(folder / "records" / f"evaluation-latencies-{paper}.json"),
        "--settings", json.dumps(settings),
    ]  # fmt: skip


def reproduction_arguments(folder: Path) -> list[str]:
    """The command line for original runs: MaxP's is ours, and theta2's is our theta1."""
    runs_here = folder / "best" / "runs"
    originals = {"maxp": "maxp", "theta2": "theta1"}
    settings = {**evaluation_settings("best"), "originals": list(originals)}
    return [
        "evaluation", "reproduction", "--view", str(folder / "collection" / "passages"),
        "--runs", str(runs_here),
        "--originals", *(str(runs_here / f"{name}.run.gz") for name in originals.values()),
        "--reproduction", str(folder / "evaluation" / "best.reproduction.parquet"),
        "--record", str(folder / "records" / "evaluation-reproduction-best.json"),
        "--settings", json.dumps({"seed": 1, "evaluation": settings}),
    ]  # fmt: skip


def tables(folder: Path) -> list[str]:
    """All tables and summaries of a folder."""
    patterns = ["evaluation/*", *(f"{paper}/*.parquet" for paper in SYSTEMS), "*/*/weights.parquet"]
    return [str(p) for pattern in patterns for p in sorted(folder.glob(pattern))]


def claims_arguments(folder: Path) -> list[str]:
    """The command line of the ledger."""
    return [
        "evaluation", "claims", "--tables", *tables(folder),
        "--claims", *(str(p) for p in sorted((ROOT / "claims").glob("*.yaml"))),
        "--ledger", str(folder / "claims.json"), "--text", str(folder / "claims.txt"),
        "--record", str(folder / "records" / "evaluation-claims.json"),
        "--settings", json.dumps({"seed": 1, "evaluation": EVALUATION}),
    ]  # fmt: skip


def report_arguments(folder: Path) -> list[str]:
    """The command line of the report."""
    settings = {"seed": 1, "experiment": "made-up", "evaluation": {"alpha": 0.05}}
    return [
        "report", "render", "--ledger", str(folder / "claims.json"), "--tables", *tables(folder),
        "--views", *(str(folder / "collection" / name) for name in VIEWS),
        "--records", *record_files(folder),
        "--report", str(folder / "report"),
        "--record", str(folder / "records" / "report-render.json"),
        "--settings", json.dumps(settings),
    ]  # fmt: skip


def record_files(folder: Path) -> list[str]:
    """The records that report and MLflow view are made from."""
    found = sorted((folder / "records").glob("*.json"))
    return [str(p) for p in found if not p.name.startswith(("report", "tracking"))]


def track_arguments(folder: Path, papers: Sequence[str] = tuple(SYSTEMS)) -> list[str]:
    """The command line of the MLflow view; the folder's name is the experiment's."""
    settings = {"seed": 1, "experiment": folder.name, "results": str(folder.parent)}
    costs = [folder / p / f"{name}.parquet" for p in papers if p != "best"
             for name in ("counts", "latency")]  # fmt: skip
    stages = record_files(folder)
    if len(papers) < len(SYSTEMS):
        stages = [name for name in stages if "colbert-train" in name or "snapshot" in name]
    return [
        "tracking", "track", "--ledger", str(folder / "claims.json"),
        "--claims", *(str(p) for p in sorted((ROOT / "claims").glob("*.yaml"))),
        "--artifacts", *(str(folder / n) for n in ("claims.txt", "report/index.html")),
        "--figures", str(folder / "report" / "figures"),
        "--summaries", *(f"{folder}/evaluation/{paper}.summary.json" for paper in papers),
        "--per-query", *(f"{folder}/evaluation/{paper}.per_query.parquet" for paper in papers),
        "--costs", *map(str, costs),
        "--runs", *(place for paper in papers for place in run_folders(folder, paper)),
        "--views", *(str(folder / "collection" / name) for name in VIEWS),
        "--records", *stages,
        "--tracked", str(folder / "tracked.json"),
        "--record", str(folder / "records" / "tracking-track.json"),
        "--settings", json.dumps(settings),
    ]  # fmt: skip


def results(folder: Path, papers: tuple[str, ...] = tuple(SYSTEMS)) -> list[list[str]]:
    """Make the folder's inputs; the command lines to run on it, in order."""
    for name in VIEWS:
        view(folder / "collection" / name)
    for paper in papers:
        system_runs(folder / paper / "runs", paper)
    stage_records(folder, papers)
    commands = [adopt_arguments(folder)] if "colbert" in papers else []
    commands += [evaluate_arguments(folder, paper) for paper in papers]
    if len(papers) == len(SYSTEMS):
        cost_tables(folder)
        commands += [
            latencies_arguments(folder, "colbert", "first-p32"),
            latencies_arguments(folder, "sparse", "splade-original-union"),
            reproduction_arguments(folder),
        ]
    return commands


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 by relative path, records apart."""
    paths = sorted(p for p in folder.rglob("*") if p.is_file() and "records" not in p.parts)
    return {str(p.relative_to(folder)): sha256_of(p) for p in paths}
