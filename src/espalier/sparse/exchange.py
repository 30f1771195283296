"""An index as the Common Index File Format holds one: a single weight, the impact, a posting."""

import numpy as np

from espalier.errors import EspalierError
from espalier.sparse import ciff
from espalier.sparse.index import Index


def as_ciff(index: Index, side: str) -> ciff.Lists:
    """One side of an index, 'bm25' or 'learned': its quantised weights, those that are 0 left out.

    Terms keep their order; some may have lost all their postings. The format asks for documents'
    lengths in terms, which an index does not keep: a document's length is the sum of its weights,
    as it is where weights are term frequencies. Memory: 17 bytes a posting beside the result.

    Raises EspalierError for an index of float32 weights, as the format holds integers.
    """
    postings, weights = index.postings, getattr(index.postings, side)
    if not np.issubdtype(weights.dtype, np.integer):
        raise EspalierError(
            f"index of {weights.dtype} weights: CIFF holds integers; export one of 8 bits"
        )
    kept = weights > 0
    begin = np.concatenate([[0], np.cumsum(kept)])[postings.term_begin].astype(np.int64)
    docs, impacts = postings.docs[kept], weights[kept].astype(np.uint32)
    documents = len(index.doc_ids)
    lengths = np.bincount(docs, impacts, minlength=documents).astype(np.int64)
    about = f"{side} weights of {documents} documents, quantised"
    return ciff.Lists(
        list(index.lexicon), begin, docs, impacts, list(index.doc_ids), lengths, about
    )
