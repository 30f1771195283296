import ir_measures
import pytest
from ir_measures import nDCG

from espalier.collections import access
from espalier.collections.bm25 import Bm25


@pytest.mark.parametrize(
    ("dataset_id", "place", "documents", "queries", "judgments", "ndcg"),
    [
        ("vaswani", "vaswani/npl.tar.gz", 11_429, 93, 2_083, 0.382),
        ("beir/nfcorpus/test", "beir/nfcorpus/source.zip", 3_633, 323, 12_334, 0.306),
    ],
)
def test_a_real_collection(
    real_collection_home, dataset_id, place, documents, queries, judgments, ndcg
):
    if not (real_collection_home / place).exists():
        pytest.skip(f"{real_collection_home / place} is absent; set IR_DATASETS_HOME to have it")
    access.check(dataset_id)
    docs = list(access.docs(dataset_id))
    texts = {query.query_id: query.text for query in access.queries(dataset_id)}
    qrels = list(access.qrels(dataset_id))
    assert (len(docs), len(texts), len(qrels)) == (documents, queries, judgments)
    run = Bm25(docs).retrieve(texts)
    judged = [ir_measures.Qrel(q.query_id, q.doc_id, q.relevance) for q in qrels]
    found = [ir_measures.ScoredDoc(*row) for row in run.itertuples(index=False)]
    assert ir_measures.calc_aggregate([nDCG @ 10], judged, found)[nDCG @ 10] == pytest.approx(
        ndcg, abs=0.001
    )
