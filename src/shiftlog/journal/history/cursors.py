"""Cursors of paged answers: opaque text that holds the position and the question it belongs to."""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shiftlog.model.canonical import canonical, sha256
from shiftlog.model.errors import InvalidParameter

_NOT_ASKED = frozenset({"cursor", "limit", "max_chars"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """The position to read on from: which of the kinds asked for, and the position in its list."""

    part: int = 0
    after: tuple[int, int] | None = None

    def encoded(self, question: Mapping[str, Any]) -> str:
        """Return the cursor as text, bound to the question."""
        packed = json.dumps([self.part, *(self.after or ()), _mark(question)], separators=(",", ":"))
        return base64.urlsafe_b64encode(packed.encode("ascii")).decode("ascii").rstrip("=")


def decoded(text: str | None, question: Mapping[str, Any]) -> Cursor:
    """Read a cursor; raise InvalidParameter for one that is not of this question."""
    if not text:
        return Cursor()
    try:
        values = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        part, *after, mark = values
        if not all(type(value) is int and abs(value) < 2**62 for value in (part, *after)):
            raise ValueError("no position")
        cursor = Cursor(part=part, after=(after[0], after[1]) if after else None)
    except (ValueError, TypeError, IndexError, binascii.Error, RecursionError):
        raise InvalidParameter.invalid("cursor", "a cursor from next_cursor is expected", text) from None
    if mark != _mark(question):
        raise InvalidParameter.invalid("cursor", "the cursor belongs to another question", text)
    return cursor


def _mark(question: Mapping[str, Any]) -> str:
    asked = {name: value for name, value in question.items() if name not in _NOT_ASKED}
    return sha256(canonical(asked))[7:19]
