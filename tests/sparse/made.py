"""Small dual-weight indexes in memory, from plain lists."""

import numpy as np

from espalier.sparse import blocks
from espalier.sparse.index import Index
from espalier.sparse.names import Names
from espalier.sparse.postings import Partition, Postings, Query


def make_index(lists, block_size, documents, dtype=np.uint8):
    """An index of `documents` documents from [{doc: (bm25, learned)}…] per term."""
    docs, bm25, learned, begin = [], [], [], [0]
    for posting in lists:
        for doc, (b, w) in [*sorted(posting.items()), (documents, (0, 0))]:
            docs.append(doc)
            bm25.append(b)
            learned.append(w)
        begin.append(len(docs))
    docs, begin = np.array(docs, np.uint32), np.array(begin, np.int64)
    weights = [np.array(w, dtype) for w in (bm25, learned)]
    postings = Postings(docs, *weights, begin, *(blocks.maxima(w, begin[:-1]) for w in weights))
    partitions = {}
    for name in ("fixed", "variable"):
        cut = (
            blocks.fixed(begin, block_size)
            if name == "fixed"
            else blocks.variable(weights[1], begin, block_size)
        )
        last = docs[np.append(cut[1], len(docs))[1:] - 1]
        partitions[name] = Partition(*cut, last, *(blocks.maxima(w, cut[1]) for w in weights))
    names = Names.of(str(i) for i in range(documents))
    return Index(postings, partitions, names, {str(t): t for t in range(len(lists))}, {})


def make_query(weights):
    """A query of terms 0, 1, … with (BM25, learned) weights."""
    columns = (np.array([w[c] for w in weights], np.int64) for c in (0, 1))
    return Query(np.arange(len(weights)), *columns)
