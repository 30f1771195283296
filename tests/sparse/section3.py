"""A slow transcription of the paper's section 3 and of block-max WAND, to hold the kernel to.

Python lists, dictionaries and exact fractions only; shares nothing with the kernels.
"""

from fractions import Fraction


def shared(b, learned, share):
    """share · BM25 + (1 − share) · learned, exactly."""
    exact = Fraction(str(share))
    return exact * Fraction(b) + (1 - exact) * Fraction(learned)


def brute_force(lists, query, beta, k):
    """Every document's RankScore(d, β), ordered: [(doc, score)…]."""
    total = {}
    for t, wb, wl in zip(*(column.tolist() for column in query), strict=True):
        for doc, (b, learned) in lists[t].items():
            old = total.get(doc, (0, 0))
            total[doc] = (old[0] + wb * b, old[1] + wl * learned)
    scored = [(shared(*sums, beta), doc) for doc, sums in total.items()]
    return [(d, float(s)) for s, d in sorted(scored, key=lambda x: (-x[0], x[1])) if s > 0][:k]


class Queue:
    """A queue of the k best documents by one score."""

    def __init__(self, k):
        self.k, self.entries = k, []

    @property
    def threshold(self):
        return min(s for s, _ in self.entries) if len(self.entries) == self.k else -1

    def lowest(self):
        return min(self.entries, key=lambda e: (e[0], -e[1]))

    def offer(self, doc, score):
        if len(self.entries) < self.k:
            self.entries.append((score, doc))
        elif score > self.lowest()[0]:
            self.entries.remove(self.lowest())
            self.entries.append((score, doc))


def dual_guidance(index, query, documents, guidance, k):
    """Documents with final scores, ordered; (# Eval, postings read, blocks loaded)."""
    alpha, beta, f_s, f_f, dual, uniform = guidance
    terms, weights_b, weights_l = (column.tolist() for column in query)
    postings, cut = index.postings, index.partitions["variable"]
    lists, blocks, tops = [], [], []
    for t in terms:
        begin, end = int(postings.term_begin[t]), int(postings.term_begin[t + 1]) - 1
        rows = [
            (int(postings.docs[i]), int(postings.bm25[i]), int(postings.learned[i]))
            for i in range(begin, end)
        ]
        starts = [
            int(cut.block_begin[m]) - begin
            for m in range(int(cut.term_block[t]), int(cut.term_block[t + 1]) - 1)
        ]
        parts = [rows[s:e] for s, e in zip(starts, [*starts, len(rows)][1:], strict=True)]
        blocks.append([(p[-1][0], max(r[1] for r in p), max(r[2] for r in p)) for p in parts])
        tops.append(tuple(max((r[c] for r in rows), default=0) for c in (1, 2)))
        lists.append(rows)
    at = [0] * len(terms)
    loaded = {(i, 0) for i, rows in enumerate(lists) if rows}
    q_s, q_f = Queue(k), Queue(k)
    alpha_score = {}
    scored = read = 0

    def doc_at(i):
        return lists[i][at[i]][0] if at[i] < len(lists[i]) else documents

    def advance(i, target):
        while doc_at(i) < target:
            at[i] += 1
        if doc_at(i) < documents:
            loaded.add((i, next(m for m, b in enumerate(blocks[i]) if b[0] >= doc_at(i))))

    def skip(b, learned):
        over_s, over_f = (
            Fraction(str(f)) * q.threshold if len(q.entries) == k else -1
            for f, q in ((f_s, q_s), (f_f, q_f))
        )
        return shared(b, learned, alpha) <= over_s or (dual and shared(b, learned, beta) <= over_f)

    def bound_s(i):
        return shared(weights_b[i] * tops[i][0], weights_l[i] * tops[i][1], alpha)

    while True:
        order = sorted(range(len(terms)), key=lambda i: (doc_at(i), i))
        b = learned = 0
        candidate = None
        for i in order:
            if doc_at(i) == documents:
                break
            b += weights_b[i] * tops[i][0]
            learned += weights_l[i] * tops[i][1]
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
            advance(max(inside, key=bound_s), beyond)  # the first of equals, as they stand
        elif all(doc_at(i) == candidate for i in inside):
            scored += 1
            read += len(inside)
            b = sum(weights_b[i] * lists[i][at[i]][1] for i in inside)
            learned = sum(weights_l[i] * lists[i][at[i]][2] for i in inside)
            s, f = shared(b, learned, alpha), shared(b, learned, beta)
            if uniform:
                alpha_score[candidate] = s
                q_f.offer(candidate, f)
                q_s.entries = [(alpha_score[d], d) for _, d in q_f.entries]
                assert {d for _, d in q_s.entries} == {d for _, d in q_f.entries}
            else:
                q_s.offer(candidate, s)
                q_f.offer(candidate, f)
            for i in inside:
                advance(i, candidate + 1)
        else:
            behind = [i for i in inside if doc_at(i) < candidate]
            advance(behind[-1], candidate)
    final = sorted(((d, float(s)) for s, d in q_f.entries if s > 0), key=lambda x: (-x[1], x[0]))
    return final, (scored, read, len(loaded))
