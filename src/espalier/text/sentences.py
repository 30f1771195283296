"""Sentences with their places in the text."""

from sentencex import segment

LANGUAGE = "en"
"""Whose abbreviations are known; other languages' full stops are split at as well."""

LONG = 500
"""Characters above which something is hardly one sentence."""

OPEN = str.maketrans(dict.fromkeys('"“”„‘«»‹›()[]{}「」『』•▪', " "))
"""What keeps sentencex from splitting: quotes, brackets, bullets. Where one is left open or misread
(2), 5"), it runs on to the next one, over pages of some texts."""


def sentences(text: str) -> list[tuple[int, int]]:
    """Character ranges of the sentences, in order; together they are the whole text.

    The white space after a sentence belongs to it, paragraph breaks too. An empty text has none.
    What is too long for a sentence is split inside quotes and brackets as well; one of these may
    then stand alone.
    """
    found: list[tuple[int, int]] = []
    for start, end in split(text):
        if end - start > LONG:
            inner = split(text[start:end].translate(OPEN))
            found += [(start + first, start + last) for first, last in inner]
        else:
            found.append((start, end))
    return found


def split(text: str) -> list[tuple[int, int]]:
    """The ranges as sentencex has them, those of white space joined to the one before."""
    found: list[tuple[int, int]] = []
    end = 0
    for sentence in segment(LANGUAGE, text):
        start, end = end, end + len(sentence)
        if found and not sentence.strip():
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return found
