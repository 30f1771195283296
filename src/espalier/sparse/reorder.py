"""Document order by recursive graph bisection: documents that share terms get near numbers.

Dhulipala, Kabiljo, Karrer, Ottaviano, Pupyrev and Shalita, "Compressing Graphs and Indexes with
Recursive Graph Bisection" (KDD 2016): a range of documents is split in two halves, documents
change sides while that lowers the estimated cost of the gaps, and both halves are treated alike.
Halves are formed by selection instead of sorting, as in Mackenzie, Petri and Moffat, "Faster Index
Reordering with Bipartite Graph Partitioning" (SIGIR 2021).

Documents come as a forward index: document d has the distinct terms
terms[doc_begin[d] : doc_begin[d+1]] of a vocabulary 0 … V−1.
"""

import numba
import numpy as np
import numpy.typing as npt

from espalier.errors import EspalierError

ITERATIONS = 20
"""Most rounds of changing sides for one range."""

LEAF = 16
"""Ranges of so many documents or fewer are left as they are."""


def bisection(
    terms: npt.NDArray[np.int32], doc_begin: npt.NDArray[np.int64], vocabulary: int
) -> npt.NDArray[np.int64]:
    """The new order of D documents, int64[D]: order[new] = old.

    Starts from the order given and is deterministic. Raises EspalierError for a term outside the
    vocabulary.
    """
    checked(terms, vocabulary)
    documents = len(doc_begin) - 1
    order = np.arange(documents, dtype=np.int64)
    # How much d · log2(d + 1) grows from d to d + 1.
    grown = np.arange(documents + 3, dtype=np.float64)
    grown = np.diff(grown * np.log2(grown + 1))
    bisect(terms, doc_begin, vocabulary, grown, order)
    return order


def log_gap_cost(
    terms: npt.NDArray[np.int32],
    doc_begin: npt.NDArray[np.int64],
    vocabulary: int,
    order: npt.NDArray[np.int64] | None = None,
) -> float:
    """Mean log2 of the gap to the posting before, over all postings: bits per posting.

    A list's first gap is counted from document −1. `order` renumbers the documents:
    order[new] = old. Without postings, 0. Raises EspalierError for a term outside the vocabulary.
    """
    checked(terms, vocabulary)
    if not len(terms):
        return 0.0
    if order is None:
        order = np.arange(len(doc_begin) - 1, dtype=np.int64)
    return float(log_gaps(terms, doc_begin, vocabulary, order)) / len(terms)


def checked(terms: npt.NDArray[np.int32], vocabulary: int) -> None:
    """EspalierError unless every term is in the vocabulary: the kernels check no bounds."""
    if len(terms) and not (terms.min() >= 0 and terms.max() < vocabulary):
        raise EspalierError(
            f"forward index: terms range from {terms.min()} to {terms.max()}, outside a vocabulary "
            f"of {vocabulary}; build the shards again with the model whose vocabulary this is"
        )


@numba.njit(cache=True)
def log_gaps(
    terms: npt.NDArray[np.int32],
    doc_begin: npt.NDArray[np.int64],
    vocabulary: int,
    order: npt.NDArray[np.int64],
) -> float:
    """Sum of log2 of all gaps."""
    last = np.full(vocabulary, -1, dtype=np.int64)
    total = 0.0
    for new in range(len(order)):
        old = order[new]
        for at in range(doc_begin[old], doc_begin[old + 1]):
            total += np.log2(new - last[terms[at]])
            last[terms[at]] = new
    return total


@numba.njit(cache=True)
def bisect(
    terms: npt.NDArray[np.int32],
    doc_begin: npt.NDArray[np.int64],
    vocabulary: int,
    grown: npt.NDArray[np.float64],
    order: npt.NDArray[np.int64],
) -> None:
    """Reorder `order` in place, range by range.

    A term in l of n documents on the left and r of m on the right is estimated to cost
    l · log2(n / (l + 1)) + r · log2(m / (r + 1)). What that falls by when a document with the
    term leaves the left side is log2(n / m) + grown[r] − grown[l − 1]; when one comes to it,
    log2(m / n) + grown[l] − grown[r − 1].
    """
    # Documents with the term on each side, left and right, and the term's pull to the right on
    # them: what their move to the right would gain, or their move from there would lose.
    degree = np.zeros((2, vocabulary), dtype=np.int32)
    term_pull = np.zeros((2, vocabulary), dtype=np.float64)
    present = np.empty(vocabulary, dtype=np.int32)
    pull = np.empty(len(order), dtype=np.float64)
    scratch = np.empty(len(order), dtype=np.float64)
    state = np.ones(1, dtype=np.uint64)

    # A range's right half waits while the left one is treated: about log2(D) wait at once.
    waiting = np.empty((128, 2), dtype=np.int64)
    waiting[0, 0], waiting[0, 1] = 0, len(order)
    ranges = 1
    while ranges > 0:
        ranges -= 1
        low, high = waiting[ranges]
        if high - low <= LEAF:
            continue
        middle = (low + high) // 2
        found = count(terms, doc_begin, order, low, middle, high, degree, present)
        ratio = np.log2((middle - low) / (high - middle))
        for _ in range(ITERATIONS):
            for term in present[:found]:
                left, right = degree[0, term], degree[1, term]
                if left > 0:
                    term_pull[0, term] = ratio + grown[right] - grown[left - 1]
                if right > 0:
                    term_pull[1, term] = ratio + grown[right - 1] - grown[left]
            for i in range(low, high):
                side = int(i >= middle)
                total = 0.0
                for at in range(doc_begin[order[i]], doc_begin[order[i] + 1]):
                    total += term_pull[side, terms[at]]
                pull[i] = total
                scratch[i] = total
            # Swapping pairs while that pays, the best first, leaves the weakest pulls to the
            # right on the left side: up to this one.
            last = smallest(scratch, low, high, middle - 1)
            if not swap(terms, doc_begin, order, low, middle, high, pull, last, degree, state):
                break
        for term in present[:found]:
            degree[0, term] = degree[1, term] = 0
        waiting[ranges, 0], waiting[ranges, 1] = middle, high
        waiting[ranges + 1, 0], waiting[ranges + 1, 1] = low, middle
        ranges += 2


@numba.njit(cache=True)
def count(
    terms: npt.NDArray[np.int32],
    doc_begin: npt.NDArray[np.int64],
    order: npt.NDArray[np.int64],
    low: int,
    middle: int,
    high: int,
    degree: npt.NDArray[np.int32],
    present: npt.NDArray[np.int32],
) -> int:
    """Fill `degree` for the range, and `present` with its distinct terms; their number."""
    found = 0
    for i in range(low, high):
        side = int(i >= middle)
        for at in range(doc_begin[order[i]], doc_begin[order[i] + 1]):
            term = terms[at]
            if degree[0, term] + degree[1, term] == 0:
                present[found] = term
                found += 1
            degree[side, term] += 1
    return found


@numba.njit(cache=True)
def swap(
    terms: npt.NDArray[np.int32],
    doc_begin: npt.NDArray[np.int64],
    order: npt.NDArray[np.int64],
    low: int,
    middle: int,
    high: int,
    pull: npt.NDArray[np.float64],
    last: float,
    degree: npt.NDArray[np.int32],
    state: npt.NDArray[np.uint64],
) -> bool:
    """Swap pairs across the middle until no pull on the left exceeds one on the right.

    `last` is the largest pull that belongs on the left. Pulls that equal it change sides only to
    make a pair. If all documents swapped, the halves would stay the same: that is what two equal
    mixtures ask for, and swapping random documents makes them differ. Returns whether there was a
    pair.
    """
    out = (pull[low:middle] > last).sum()
    back = (pull[middle:high] < last).sum()
    pairs = max(out, back)
    if pairs == middle - low:
        for i in range(low, middle):
            # Knuth's MMIX generator: the high bits are the random ones.
            state[0] = state[0] * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
            other = low + np.int64((state[0] >> np.uint64(33)) % np.uint64(high - low))
            if other >= middle:
                exchange(terms, doc_begin, order, i, other, degree)
        return True
    out_ties, back_ties = pairs - out, pairs - back
    i, j = low - 1, middle - 1
    for _ in range(pairs):
        i += 1
        while not (pull[i] > last or (pull[i] == last and out_ties > 0)):
            i += 1
        out_ties -= pull[i] == last
        j += 1
        while not (pull[j] < last or (pull[j] == last and back_ties > 0)):
            j += 1
        back_ties -= pull[j] == last
        exchange(terms, doc_begin, order, i, j, degree)
    return bool(pairs > 0)


@numba.njit(cache=True)
def exchange(
    terms: npt.NDArray[np.int32],
    doc_begin: npt.NDArray[np.int64],
    order: npt.NDArray[np.int64],
    i: int,
    j: int,
    degree: npt.NDArray[np.int32],
) -> None:
    """Let the documents at i, on the left, and at j, on the right, change places."""
    for at in range(doc_begin[order[i]], doc_begin[order[i] + 1]):
        degree[0, terms[at]] -= 1
        degree[1, terms[at]] += 1
    for at in range(doc_begin[order[j]], doc_begin[order[j] + 1]):
        degree[0, terms[at]] += 1
        degree[1, terms[at]] -= 1
    order[i], order[j] = order[j], order[i]


@numba.njit(cache=True)
def smallest(values: npt.NDArray[np.float64], low: int, high: int, rank: int) -> float:
    """The value at index `rank` if values[low:high] were sorted (Hoare's selection); reorders."""
    first, last = low, high - 1
    while first < last:
        a, b, c = values[first], values[(first + last) // 2], values[last]
        pivot = max(min(a, b), min(max(a, b), c))
        i, j = first, last
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if rank <= j:
            last = j
        elif rank >= i:
            first = i
        else:
            break
    found: float = values[rank]
    return found
