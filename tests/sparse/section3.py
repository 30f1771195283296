"""A slow transcription of the paper's section 3 and of block-max WAND, to hold the kernel to.

Python lists and dictionaries only; shares nothing with the kernels.
"""


def lists_of(postings, terms):
    """Per term: [(doc, bm25, learned)…] and [(last doc, max bm25, max learned)…] of its blocks."""
    lists, blocks = [], []
    for t in terms:
        begin, end = int(postings.term_begin[t]), int(postings.term_begin[t + 1])
        lists.append(
            [
                (int(postings.docs[i]), int(postings.bm25[i]), int(postings.learned[i]))
                for i in range(begin, end)
            ]
        )
        cut = []
        for m in range(int(postings.term_block[t]), int(postings.term_block[t + 1])):
            b, e = int(postings.block_begin[m]), int(postings.block_begin[m + 1])
            rows = lists[-1][b - begin : e - begin]
            cut.append((rows[-1][0], max(r[1] for r in rows), max(r[2] for r in rows), b - begin))
        blocks.append(cut)
    return lists, blocks


def brute_force(postings, query, documents, beta, k):
    """Every document's RankScore(d, β), ordered."""
    terms, weights_b, weights_l = (list(map(int, x)) for x in query)
    lists, _ = lists_of(postings, terms)
    total = {}
    for rows, wb, wl in zip(lists, weights_b, weights_l, strict=True):
        for doc, b, learned in rows:
            old = total.get(doc, (0, 0))
            total[doc] = (old[0] + wb * b, old[1] + wl * learned)
    scored = [(beta * b + (1.0 - beta) * learned, doc) for doc, (b, learned) in total.items()]
    return [(d, s) for s, d in sorted(scored, key=lambda x: (-x[0], x[1])) if s > 0][:k]


class Queue:
    """A queue of the k best documents by one score."""

    def __init__(self, k):
        self.k, self.entries = k, []

    @property
    def threshold(self):
        return min(s for s, _ in self.entries) if len(self.entries) == self.k else -1.0

    def lowest(self):
        return min(self.entries, key=lambda e: (e[0], -e[1]))

    def offer(self, doc, score):
        if len(self.entries) < self.k:
            self.entries.append((score, doc))
        elif score > self.lowest()[0]:
            self.entries.remove(self.lowest())
            self.entries.append((score, doc))


def dual_guidance(postings, query, documents, guidance, k):
    """Documents with final scores, ordered; (# Eval, postings read, blocks loaded); queue docs."""
    alpha, beta, f_s, f_f, dual, uniform = guidance
    terms, weights_b, weights_l = (list(map(int, x)) for x in query)
    lists, blocks = lists_of(postings, terms)
    at = [0] * len(terms)
    loaded = {(i, 0) for i, rows in enumerate(lists) if rows}
    q_s, q_f = Queue(k), Queue(k)
    alpha_score = {}
    scored = read = 0

    def doc_at(i):
        return lists[i][at[i]][0] if at[i] < len(lists[i]) else documents

    def combine(b, learned, share):
        return share * b + (1.0 - share) * learned

    def skip(b, learned):
        over_s = f_s * q_s.threshold if q_s.threshold > 0 else q_s.threshold
        over_f = f_f * q_f.threshold if q_f.threshold > 0 else q_f.threshold
        return combine(b, learned, alpha) <= over_s or (
            dual and combine(b, learned, beta) <= over_f
        )

    while True:
        order = sorted(range(len(terms)), key=doc_at)
        b = learned = 0
        candidate = None
        for i in order:
            if doc_at(i) == documents:
                break
            b += weights_b[i] * int(postings.term_bm25[terms[i]])
            learned += weights_l[i] * int(postings.term_learned[terms[i]])
            if not skip(b, learned):
                candidate = doc_at(i)
                break
        if candidate is None:
            break
        inside = [i for i in order if doc_at(i) <= candidate]
        outside = [doc_at(i) for i in order if doc_at(i) > candidate]
        b = learned = 0
        beyond = min(outside, default=documents)
        for i in inside:
            block = next((m for m in blocks[i] if m[0] >= candidate), None)
            if block:
                b += weights_b[i] * block[1]
                learned += weights_l[i] * block[2]
                beyond = min(beyond, block[0] + 1)
        if skip(b, learned):
            target = beyond
        elif all(doc_at(i) == candidate for i in inside):
            scored += 1
            read += len(inside)
            b = sum(weights_b[i] * lists[i][at[i]][1] for i in inside)
            learned = sum(weights_l[i] * lists[i][at[i]][2] for i in inside)
            s, f = combine(b, learned, alpha), combine(b, learned, beta)
            if uniform:
                alpha_score[candidate] = s
                q_f.offer(candidate, f)
                q_s.entries = [(alpha_score[d], d) for _, d in q_f.entries]
                assert {d for _, d in q_s.entries} == {d for _, d in q_f.entries}
            else:
                q_s.offer(candidate, s)
                q_f.offer(candidate, f)
            target = candidate + 1
        else:
            target = candidate
        for i in inside:
            while doc_at(i) < target:
                at[i] += 1
            if doc_at(i) < documents:
                loaded.add((i, max(m for m, x in enumerate(blocks[i]) if x[3] <= at[i])))
    final = sorted(((d, s) for s, d in q_f.entries if s > 0), key=lambda x: (-x[1], x[0]))
    return final, (scored, read, len(loaded))
