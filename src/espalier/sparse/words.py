"""Words of a text, the terms of DeepImpact and of BM25 beside it."""

import re

WORD = re.compile(r"[^\W_]+")
"""A maximal run of letters and digits."""


def words(text: str) -> list[str]:
    """Lower-cased words of a text in order, repeated ones too; punctuation separates words.

    Differs from nltk's word tokenizer, punctuation dropped, only where that one keeps marks inside
    a word ("3.5", "e-mail": two words here) or cuts contractions ("isn't" to "is" and "n't",
    "cannot" to "can" and "not": here "isn" and "t", and "cannot").
    """
    return WORD.findall(text.lower())
