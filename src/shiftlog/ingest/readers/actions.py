"""Actions, as readers of all agents build them: unified diffs, decisions, requirement ids.

Shell commands are read in `shell_actions`; each reader knows its own tools.
"""

from collections.abc import Iterable, Sequence
from typing import Any, cast

import re2

_re2 = cast(Any, re2)
_CONTEXT_LINES = 3
# re2 is linear, and these run over every model text of any length.
_REQUIREMENT = _re2.compile(r"\b(?:FR|TR|TEST)-[A-Z][A-Z0-9]*(?:-[A-Z0-9]+)*-\d+\b")


def is_decision(text: str) -> bool:
    """Return True if a model text states a decision."""
    return "Decision:" in text or "Rationale:" in text


def requirement_ids(text: str) -> list[str]:
    """Return the requirement ids in a text, each once, in order."""
    if "FR-" not in text and "TR-" not in text and "TEST-" not in text:
        return []
    return list(dict.fromkeys(cast("list[str]", _REQUIREMENT.findall(text))))


def commentary(text: str, *, reasoning: bool = False) -> str:
    """Return the dialog category of a model text."""
    if is_decision(text):
        return "decision"
    return "reasoning" if reasoning else "observation"


# -- diffs -------------------------------------------------------------------------------------------------------------


def diff_header(path: str, *, created: bool = False, deleted: bool = False, moved_from: str | None = None) -> str:
    """Return the two lines that begin a unified diff of one file."""
    old = "/dev/null" if created else f"a/{moved_from or path}"
    new = "/dev/null" if deleted else f"b/{path}"
    return f"--- {old}\n+++ {new}\n"


def diff_from_patch(path: str, hunks: Sequence[object]) -> str | None:
    """Return the unified diff of a structured patch `[{oldStart, oldLines, newStart, newLines, lines}]`."""
    parts = [diff_header(path)]
    for hunk in hunks:
        if not isinstance(hunk, dict):
            continue
        fields = cast("dict[str, Any]", hunk)
        lines = fields.get("lines")
        if not isinstance(lines, list):
            continue
        place = [fields.get(name) for name in ("oldStart", "oldLines", "newStart", "newLines")]
        numbers = [value if isinstance(value, int) and abs(value) < 2**53 else 0 for value in place]
        parts.append(f"@@ -{numbers[0]},{numbers[1]} +{numbers[2]},{numbers[3]} @@\n")
        parts.extend([line + "\n" for line in cast("list[object]", lines) if isinstance(line, str)])
    return "".join(parts) if len(parts) > 1 else None


def diff_of_created(path: str, content: str) -> str:
    """Return the diff of a new file."""
    return diff_header(path, created=True) + _whole(content, "+", "@@ -0,0 +1,{0} @@\n")


def diff_of_deleted(path: str, content: str) -> str:
    """Return the diff of a deleted file."""
    return diff_header(path, deleted=True) + _whole(content, "-", "@@ -1,{0} +0,0 @@\n")


def _whole(content: str, sign: str, place: str) -> str:
    lines = _lines(content)
    if not lines:
        return ""
    body = "".join(f"{sign}{line}\n" for line in lines)
    return place.format(len(lines)) + body + ("" if content.endswith("\n") else "\\ No newline at end of file\n")


def diff_of_replacements(path: str, replacements: Iterable[tuple[str, str]]) -> str | None:
    """Return an approximate diff of replaced texts; line numbers count within the text."""
    parts = [diff_header(path)]
    for old, new in replacements:
        before, after = _lines(old), _lines(new)
        if before == after:
            continue
        start = _common(before, after)
        end = _common(before[start:][::-1], after[start:][::-1])
        first = max(start - _CONTEXT_LINES, 0)
        lead = before[first:start]
        tail = before[len(before) - end :][:_CONTEXT_LINES]
        removed, added = before[start : len(before) - end], after[start : len(after) - end]
        around = len(lead) + len(tail)
        old_place = f"-{first + 1 if around + len(removed) else 0},{around + len(removed)}"
        new_place = f"+{first + 1 if around + len(added) else 0},{around + len(added)}"
        parts.append(f"@@ {old_place} {new_place} @@\n")
        signed = ((" ", lead), ("-", removed), ("+", added), (" ", tail))
        parts.extend(f"{sign}{line}\n" for sign, lines in signed for line in lines)
    return "".join(parts) if len(parts) > 1 else None


def _lines(text: str) -> list[str]:
    if not text:
        return []
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


def _common(left: list[str], right: list[str]) -> int:
    count = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        count += 1
    return count
