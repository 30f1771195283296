"""Collections of the user's own: folders of plain files, `folder:path` or `folder:path:split`.

    docs.tsv     doc_id TAB text, or doc_id TAB title TAB text; no header
    queries.tsv  query_id TAB text, or query_id TAB text TAB split
    qrels.txt    TREC judgments: query_id 0 doc_id relevance
    spans.json   optional: [{"query_id": …, "doc_id": …, "char_spans": [[start, end], …]}, …], where
                 the answers stand in the text, in characters, ends exclusive; maybe "split", too
    run.txt      optional: TREC run of first-stage results, the collection's scoreddocs

`folder:path` has all queries, `folder:path:split` those of one split: the third column's, else that
of the query's entry in spans.json. Where no split is stated, train, dev and test have 70, 10 and
20% of the queries: documents are lined up by a hash of their ids, each with the queries whose
first relevant document it is. Environment variables in the path (`folder:$CORPORA/mine`) are
filled in.
"""
