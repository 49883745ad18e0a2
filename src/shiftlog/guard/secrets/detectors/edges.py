r"""Where a word can begin: at a word's edge, and behind an escape whose last letter only looks like a part of the word.

Text inside of text is escaped (`"…\nghp_…"` in JSON, `%3Dghp_…` in an address, `\u003d`, the colours of a terminal),
and what follows an escape is as readable as what follows a blank.
"""

#: For linear-time patterns; it takes the escape into the match.
LINEAR_EDGE = r"(?:\b|\\[abefnrtv]|\\u[0-9A-Fa-f]{4}|\\x[0-9A-Fa-f]{2}|\\[0-7]{3}|%[0-9A-Fa-f]{2}|\[[0-9;]{0,8}m)"
#: For patterns of `re`, which look for commands and headers: those begin lines. It takes nothing.
NEW_LINE = r"(?<=\\[nrt])"
EDGE = rf"(?:\b|{NEW_LINE})"
