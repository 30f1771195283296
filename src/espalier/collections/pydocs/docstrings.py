"""Docstrings as prose: the summary line apart, markup taken off."""

import re

ROLE = re.compile(r":[\w:.+-]+:`(!|~)?([^`<]*?)(?:\s*<[^`>]*>)?`")
LINK = re.compile(r"`([^`<]+?)\s*<[^`>]+>`_{1,2}")
LITERAL = re.compile(r"``([^`]+)``|`([^`]+)`_{0,2}")
EMPHASIS = re.compile(r"(?<![\w*])\*{1,2}(\w[^*\n]*?\w|\w)\*{1,2}(?![\w*])")
UNDERLINE = re.compile(r"^[ \t]*([=\-~^\"'#*+])\1{2,}[ \t]*$\n?", re.MULTILINE)
DIRECTIVE = re.compile(
    r"^[ \t]*\.\. (?:_[^\n]*:|[\w:+-]+::[^\n]*|currentmodule[^\n]*|\|[^\n]*|\[[^\n]*\]_?)$\n?"
    r"(?:^[ \t]+:[\w-]+:[^\n]*$\n?)*",
    re.MULTILINE,
)
TEMPLATE = re.compile(r"^[^\n]*(?:%\(\w+\)s|\{\w+\}s?\s*$)[^\n]*$\n?", re.MULTILINE)
CITATION = re.compile(r"\s?\[[\w#*-]+\]_")
BLANK_LINES = re.compile(r"\n\s*\n(?:\s*\n)+")
SIGNATURE = re.compile(r"^[\w.]+\(.*\)(?:\s*->.*)?$|^[\w., ]+ = [\w.]+\(.*\)$", re.DOTALL)
SENTENCE_END = re.compile(r"(?<=[a-z0-9)\]][.!?])\s+(?=[A-Z`])")


def plain(text: str) -> str:
    """Take reST roles, quotes, emphasis, underlines, directives and templates off a text."""
    text = TEMPLATE.sub("", text)
    text = DIRECTIVE.sub("", text)
    text = UNDERLINE.sub("", text)
    text = ROLE.sub(role_text, text)
    text = LINK.sub(r"\1", text)
    text = LITERAL.sub(lambda match: match.group(1) or match.group(2), text)
    text = EMPHASIS.sub(r"\1", text)
    text = CITATION.sub("", text)
    lines = (line.rstrip() for line in text.splitlines())
    return BLANK_LINES.sub("\n\n", "\n".join(lines)).strip()


def role_text(match: re.Match[str]) -> str:
    """What a role shows: `~` means the last part of the name alone."""
    text = match.group(2)
    return text.rsplit(".", 1)[-1] if match.group(1) == "~" else text


def split_summary(docstring: str, longest: int) -> tuple[str, str]:
    """A docstring's summary, on one line and plain, and the plain text after it.

    The summary is the first paragraph, or its first sentence when it has more than `longest`
    words. A signature that stands before it is left out.
    """
    paragraphs = re.split(r"\n\s*\n", docstring.strip(), maxsplit=1)
    if SIGNATURE.match(paragraphs[0]) and len(paragraphs) > 1:
        paragraphs = re.split(r"\n\s*\n", paragraphs[1].strip(), maxsplit=1)
    first, rest = paragraphs[0], paragraphs[1] if len(paragraphs) > 1 else ""
    summary = " ".join(plain(first).split())
    if len(summary.split()) > longest:
        sentence, *others = SENTENCE_END.split(summary, maxsplit=1)
        if others:
            return sentence, "\n\n".join(filter(None, [others[0], plain(rest)]))
    return summary, plain(rest)


def words(text: str) -> list[str]:
    """Lower-case words: what comparisons of texts look at."""
    return re.findall(r"[a-z0-9]+", text.lower())
