"""BM25 weights on the learned model's word pieces, so that both weights share their terms."""

import numpy as np
import numpy.typing as npt


def weights(
    frequency: npt.NDArray[np.float64],
    length: npt.NDArray[np.float64],
    document_frequency: npt.NDArray[np.float64],
    documents: int,
    mean_length: float,
    k1: float,
    b: float,
) -> npt.NDArray[np.float64]:
    """BM25 weight of each posting (Robertson and Zaragoza 2009; idf as in Lucene, never negative).

    All arrays are float64[postings]: the term's frequency in the document, the document's length
    in word pieces, the term's document frequency. A posting with frequency 0 weighs 0.
    """
    idf = np.log1p((documents - document_frequency + 0.5) / (document_frequency + 0.5))
    norm = k1 * (1.0 - b + b * length / mean_length)
    weight: npt.NDArray[np.float64] = idf * frequency * (k1 + 1.0) / (frequency + norm)
    return weight
