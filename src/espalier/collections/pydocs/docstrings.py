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
ESCAPED_SPACE = re.compile(r"\\[ ]")
HEADING = re.compile(
    r"[^\n]+\n[ \t]*([=\-~])\1{2,}[ \t]*$|(?:parameters|args|arguments|returns?|examples?):?$",
    re.IGNORECASE | re.MULTILINE,
)
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
    text = LITERAL.sub(literal_text, text)
    text = EMPHASIS.sub(r"\1", text)
    text = ESCAPED_SPACE.sub("", CITATION.sub("", text))
    lines = (line.rstrip() for line in text.splitlines())
    return BLANK_LINES.sub("\n\n", "\n".join(lines)).strip()


def role_text(match: re.Match[str]) -> str:
    """What a role shows: `~` means the last part of the name alone."""
    text = match.group(2)
    return text.rsplit(".", 1)[-1] if match.group(1) == "~" else text


def literal_text(match: re.Match[str]) -> str:
    """What backquotes show: code as it stands, a name without `~`, `!` or the dot before it."""
    if match.group(1):
        return match.group(1)
    name = match.group(2)
    return name.rsplit(".", 1)[-1] if name.startswith("~") else name.lstrip("!.")


def split_summary(docstring: str) -> tuple[str, str]:
    """A docstring's summary, on one line and plain, and the plain text after it.

    The summary is the first sentence of the first paragraph; there is none where the docstring
    begins with a section. A signature that stands before the summary is left out.
    """
    first, rest = first_paragraph(docstring)
    if rest and SIGNATURE.match(first):
        first, rest = first_paragraph(rest)
    if HEADING.match(first):
        return "", plain(f"{first}\n\n{rest}")
    summary, *others = SENTENCE_END.split(" ".join(plain(first).split()), maxsplit=1)
    return summary, "\n\n".join(filter(None, [*others, plain(rest)]))


def first_paragraph(text: str) -> tuple[str, str]:
    """The first paragraph, and what follows it."""
    first, *rest = re.split(r"\n\s*\n", text.strip(), maxsplit=1)
    return first, "".join(rest)


def words(text: str) -> list[str]:
    """Lower-case words: what comparisons of texts look at."""
    return re.findall(r"[a-z0-9]+", text.lower())
