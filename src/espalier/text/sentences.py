"""Sentences with their places in the text."""

from sentencex import segment

LANGUAGE = "en"
"""Whose abbreviations are known; other languages' full stops are split at as well."""


def sentences(text: str) -> list[tuple[int, int]]:
    """Character ranges of the sentences, in order; together they are the whole text.

    The white space after a sentence belongs to it, paragraph breaks too. An empty text has none.
    """
    found: list[tuple[int, int]] = []
    end = 0
    for sentence in segment(LANGUAGE, text):
        start, end = end, end + len(sentence)
        if found and not sentence.strip():
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return found
