"""JSON with comments and trailing commas, as some agents and editors allow it in their settings."""

import re

_STRING = r'"(?:[^"\\]|\\.)*"'
COMMENTS = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?\*/", re.DOTALL)
TRAILING_COMMAS = re.compile(rf"{_STRING}|,(?=\s*[}}\]])", re.DOTALL)


def plain_json(text: str) -> str:
    """Return the text as plain JSON: comments and trailing commas are overwritten, so that offsets do not change."""
    return blanked(TRAILING_COMMAS, blanked(COMMENTS, text))


def blanked(pattern: re.Pattern[str], text: str) -> str:
    """Overwrite matches other than strings with spaces; offsets do not change."""

    def spaces(match: re.Match[str]) -> str:
        found = match[0]
        return found if found.startswith('"') else re.sub(r"[^\r\n]", " ", found)

    return pattern.sub(spaces, text)
