"""What the long documents are like, and what is made of them: lengths, judged pairs, segments.

Kim et al. 2021, section 'Experiments', states these figures of its collections. A row of the table
has `quantity`, `count`, and where it has them `share`, `mean`, `median`, `p90`:

- document_pieces: word pieces of a document, title and text (document_tokens where the ranker has
  other tokens than BERT's);
- training_segments, inference_segments: of a document, as far as they are used;
- training_segment_pieces, inference_segment_pieces: word pieces of a segment, title and text;
- judged_pairs_SPLIT: judgments, and the share that is relevant;
- relevant_passages_SPLIT: passages relevant to the split's queries, and the share that stands in a
  relevant document; relevant_passages_of_all_queries_SPLIT: the same found, of all there are;
- positives, positives_aligned, positives_covered: relevant documents that are trained on; the share
  of which a segment is known to be right (GoldP is trained on those), and a leading one.

Segments and positives are summed over parts: once for each seed or fold that has them. A split of
which some queries were left out has `_of_sample` behind what is said of it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute
from numpy.typing import NDArray
from pyarrow import parquet

from espalier.best.instances import learnable
from espalier.best.store import KINDS, Store, pieces_of
from espalier.collections.access import Doc
from espalier.collections.view import View

SAMPLE = 10_000
"""Documents whose word pieces are counted, at most: evenly spaced, all of a smaller collection.
A median of so many is off by three percent at most (95%) where lengths are as MS MARCO's."""

COLUMNS = ["quantity", "count", "share", "mean", "median", "p90"]

Lengths = NDArray[np.int64]
Row = dict[str, Any]


def table(view: View, stores: Sequence[Store], tokenizer: Any, leading: int) -> pd.DataFrame:
    """All rows, of all parts together; `leading` segments are trained on."""
    pieces = "document_pieces" if has_word_pieces(tokenizer) else "document_tokens"
    rows = [spread(pieces, document_lengths(view, tokenizer))]
    for kind in KINDS:
        of_documents, of_segments = zip(*(segments(store, kind) for store in stores), strict=True)
        rows.append(spread(f"{kind}_segments", np.concatenate(of_documents)))
        rows.append(spread(f"{kind}_segment_pieces", np.concatenate(of_segments)))
    for split, about in view.manifest["splits"].items():
        relevant = view.qrels(split)["relevance"] > 0
        of = f"{split}_of_sample" if about["not_sampled"] else split
        rows.append(counted(f"judged_pairs_{of}", len(relevant), int(relevant.sum())))
        rows += passages(of, about.get("passages"))
    sizes = [learnable(store.table("instances"), store.table("gold"), leading) for store in stores]
    count, aligned, covered = np.sum(sizes, axis=0).tolist()
    rows.append({"quantity": "positives", "count": count})
    rows.append(counted("positives_aligned", count, aligned))
    rows.append(counted("positives_covered", count, covered))
    return pd.DataFrame(rows, columns=COLUMNS)


def spread(quantity: str, values: Lengths) -> Row:
    """How many values there are, and where they lie."""
    return {
        "quantity": quantity,
        "count": len(values),
        "mean": float(values.mean()),
        "median": float(np.median(values)),
        "p90": float(np.percentile(values, 90)),
    }


def counted(quantity: str, count: int, some: int) -> Row:
    """How many there are, and the share that `some` are of them (none of none)."""
    return {"quantity": quantity, "count": count, "share": some / max(count, 1)}


def document_lengths(view: View, tokenizer: Any) -> Lengths:
    """int64[documents]: word pieces of at most `SAMPLE` documents."""
    step = max(-(-view.docs_count // SAMPLE), 1)
    return np.array([pieces(doc, tokenizer) for doc in islice(view.docs(), 0, None, step)])


def has_word_pieces(tokenizer: Any) -> bool:
    """Whether a tokenizer cuts as BERT's does."""
    model: str = json.loads(tokenizer.backend_tokenizer.to_str())["model"]["type"]
    return model == "WordPiece"


def pieces(doc: Doc, tokenizer: Any) -> int:
    """Word pieces of a document."""
    return len(pieces_of(tokenizer, doc.title)) + len(pieces_of(tokenizer, doc.text))


def segments(store: Store, kind: str) -> tuple[Lengths, Lengths]:
    """Segments of each document, word pieces of each segment."""
    file = parquet.ParquetFile(store.folder / f"{kind}.parquet")
    lengths = [
        pyarrow.compute.list_value_length(batch.column(0)).to_numpy().astype(np.int64)
        for batch in file.iter_batches(columns=["pieces"])
    ]
    of_documents: Lengths = np.unique(store.places(kind)["doc_id"], return_counts=True)[1]
    return of_documents, np.concatenate(lengths)


def passages(split: str, found: Mapping[str, int] | None) -> Iterator[Row]:
    """Of a split whose passages were looked for in its documents."""
    if found:
        for name, count in (
            ("relevant_passages", found["relevant"]),
            ("relevant_passages_of_all_queries", found["of_all_queries"]),
        ):
            yield counted(f"{name}_{split}", count, found["aligned"])


def metrics(rows: pd.DataFrame) -> dict[str, float]:
    """The table for the record: one number a cell."""
    cells = rows.melt("quantity", var_name="column").dropna()
    names = cells["quantity"] + "_" + cells["column"]
    return dict(zip(names, cells["value"].astype("float64"), strict=True))
