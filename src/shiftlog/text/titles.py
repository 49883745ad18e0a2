"""Titles as people read them: without the signs of Markdown, and a bare shell by what ran in it.

The journal keeps a title as it was given; only what is shown to people passes through here.
"""

import re

# The title of a session that a client opened by opening a shell; the contract of execkit fixes it.
IMPLICIT_TITLE = "shell"
_LINK = re.compile(r"!?\[([^\][]+)\]\([^()\s]*\)")
_EMPHASIS = re.compile(r"(?<![\w*])(\*\*|\*|~~|`)(?=\S)([^*`~\n]+?)(?<=\S)\1(?![\w*])")
_HEADING = re.compile(r"^\s{0,3}(?:#{1,6}|>)\s+")


def shown_title(title: str, ran: str | None = None) -> str:
    """Return a title for people; `ran` says what a session that was opened for its shell alone did first."""
    if title == IMPLICIT_TITLE and ran:
        return ran
    plain = _HEADING.sub("", title)
    if not any(sign in plain for sign in "*`~["):
        return plain
    return _EMPHASIS.sub(r"\2", _EMPHASIS.sub(r"\2", _LINK.sub(r"\1", plain)))
