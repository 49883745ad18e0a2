"""Cutting the input into documents: bytes in, documents out. No I/O and no knowledge of envelopes.

A document is JSON (its first character is `{` or `[`) or YAML. The session log's contract defines where each ends. An
unreadable document comes out with the reason.
"""

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from shiftlog.repl.texts import json as json_text
from shiftlog.repl.texts.json import ENVELOPE_BYTES, TOO_LARGE, UnreadableText

if TYPE_CHECKING:
    from shiftlog.repl.texts.yaml import Loaded

# This much of an overlong document is kept, to find its request id.
KEPT_CHARS = 4_096
KEPT_LINES = 100
NOT_UTF8 = "not valid UTF-8"

ANY_LINE = ("",)

_BOM = "\ufeff"
_DIRECTIVE = re.compile(r"%YAML[ \t]+1\.[0-9]+[ \t]*")
_TYPE_LINE = re.compile(r"""(?:type|"type"|'type')[ \t]*:(?:[ \t]|$)""")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One document: its form, and its value or the problem; a request id may be searched in `text`."""

    form: str
    value: Any = None
    problem: str | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class InputLine:
    """One line without its newline; an overlong line is cut."""

    text: str
    size: int
    is_valid: bool = True

    @property
    def is_blank(self) -> bool:
        return not self.text.strip(" \t") and self.size <= ENVELOPE_BYTES

    @property
    def is_marker(self) -> bool:
        """True if the line begins a new YAML document: `---`, alone or followed by white space."""
        return self.text.startswith("---") and (len(self.text) == 3 or self.text[3] in " \t")

    @property
    def is_bare_marker(self) -> bool:
        return self.is_marker and (not self.text[3:].strip() or self.text[3:].lstrip().startswith("#"))

    @property
    def is_end(self) -> bool:
        """True if the line is `...`, which ends a YAML document."""
        return self.text.rstrip() == "..."

    @property
    def is_json(self) -> bool:
        return self.text.lstrip(" \t")[:1] in ("{", "[")


class Framing:
    """Takes bytes in pieces of any size and returns the documents that they complete."""

    def __init__(self) -> None:
        self._partial = bytearray()
        self._skipped = 0
        self._started = False
        self._open: _Json | _Yaml | None = None

    def feed(self, data: bytes) -> list[Document]:
        """Take the next bytes; return the documents that they complete."""
        documents: list[Document] = []
        at = 0
        while (end := data.find(b"\n", at)) >= 0:
            self._add(data[at:end])
            documents.extend(self._take(self._line()))
            at = end + 1
        self._add(data[at:])
        return documents

    def end(self) -> list[Document]:
        """Take the end of the input; return the last documents."""
        documents = self._take(self._line()) if self._partial or self._skipped else []
        if self._open is not None:
            documents.append(self._open.ended())
            self._open = None
        return documents

    def _add(self, piece: bytes) -> None:
        room = ENVELOPE_BYTES + 2 - len(self._partial)  # a line of maximum size and its newline
        self._partial += piece[:room]
        self._skipped += max(len(piece) - room, 0)

    def _line(self) -> InputLine:
        data, skipped = bytes(self._partial), self._skipped
        self._partial.clear()
        self._skipped = 0
        if not skipped and data.endswith(b"\r"):
            data = data[:-1]
        size = len(data) + skipped
        if size > ENVELOPE_BYTES:
            data = data[:KEPT_CHARS]
        try:
            text, is_valid = data.decode("utf-8"), True
        except UnicodeDecodeError:
            text, is_valid = data.decode("utf-8", "replace"), size > ENVELOPE_BYTES
        if not self._started or self._open is None:
            text = text.removeprefix(_BOM)
        self._started = True
        return InputLine(text, size, is_valid)

    def _take(self, line: InputLine) -> list[Document]:
        """Give a line to the open document, or to a new one if it does not belong there."""
        documents: list[Document] = []
        if self._open is not None:
            ended, belongs = self._open.take(line)
            if ended is None:
                return []
            documents.append(ended)
            self._open = None
            if belongs:
                return documents
        ended = self._begin(line)
        return documents if ended is None else [*documents, ended]

    def _begin(self, line: InputLine) -> Document | None:
        if line.is_blank or line.is_bare_marker or line.is_end:
            return None
        if not line.is_json:
            if line.text.lstrip(" \t").startswith("#") or _DIRECTIVE.fullmatch(line.text):
                return None
            self._open = _Yaml(line)
            return None
        self._open = _Json()
        ended, _ = self._open.take(line)
        if ended is not None:
            self._open = None
        return ended


def _envelope_line(line: InputLine) -> Document | None:
    """Return the document if one line alone is a JSON object with `type` and `payload`."""
    text = line.text.strip(" \t")
    if not (line.is_valid and text.startswith("{") and text.endswith("}") and line.size <= ENVELOPE_BYTES):
        return None
    if '"type"' not in text or '"payload"' not in text:
        return None
    try:
        value = json_text.load(text)
    except UnreadableText:
        return None
    return Document(form="json", value=value, text=text) if {"type", "payload"} <= value.keys() else None


@dataclass(slots=True)
class _Json:
    """A JSON document, open until its brackets are closed."""

    lines: list[str] = field(default_factory=list[str])
    size: int = 0
    problem: str | None = None
    outline: json_text.Outline = field(default_factory=json_text.Outline)

    def take(self, line: InputLine) -> tuple[Document | None, bool]:
        """Return the document if this line ends it, and whether the line was part of it."""
        first = not self.lines
        if not first and (line.is_blank or line.is_bare_marker):
            return self.ended(), True
        if not first and _envelope_line(line) is not None:
            return self.ended(), False
        self.size += line.size + 1
        if self.size - 1 > ENVELOPE_BYTES:
            self.problem = TOO_LARGE
            del self.lines[KEPT_LINES:]
        if len(self.lines) < KEPT_LINES or self.problem is None:
            self.lines.append(line.text)
        if not line.is_valid or line.size > ENVELOPE_BYTES:
            return self._refused(TOO_LARGE if line.size > ENVELOPE_BYTES else NOT_UTF8), True
        return self._parsed(line.text, first), True

    def _parsed(self, text: str, first: bool) -> Document | None:
        if first and self.problem is None:  # most documents are one line, and the parser is faster than the outline
            try:
                return Document(form="json", value=json_text.load(text), text=text)
            except UnreadableText:
                pass
        if self.outline.feed(text) == json_text.OPEN:
            return None
        if self.problem is not None:
            return self.ended()
        try:
            return Document(form="json", value=json_text.load(self._text()), text=self._text())
        except UnreadableText as error:
            return self._refused(str(error))

    def ended(self) -> Document:
        """Return the refusal of a document whose brackets were never closed."""
        return self._refused(self.problem or "the JSON document is not complete")

    def _refused(self, reason: str) -> Document:
        return Document(form="json", problem=reason, text=self._text())

    def _text(self) -> str:
        return "\n".join(self.lines)


class _Yaml:
    """A YAML document, open until a line ends it."""

    def __init__(self, line: InputLine) -> None:
        self._lines: list[str] = []
        self._size = 0
        self._problem: str | None = None
        # Results of the last parse, so that a long text is not parsed again at every blank line: nothing can repair it,
        # or only a line that holds this, or is indented less than that, can change the outcome.
        self._never = False
        self._awaited: tuple[str, ...] | None = None
        self._block_indent: int | None = None
        self._add(line)

    def take(self, line: InputLine) -> tuple[Document | None, bool]:
        """Return the document if this line ends it, and whether the line was part of it."""
        if line.is_marker or line.is_end:
            return self.ended(), line.is_end or line.is_bare_marker
        if line.text.startswith("{") and _envelope_line(line) is not None:
            return self.ended(), False
        if _TYPE_LINE.match(line.text) and self._ends_before_type():
            return self.ended(), False
        if line.is_blank:
            whole = self._whole_at_blank()
            if whole is not None:
                return whole, True
        self._add(line)
        return None, True

    def ended(self) -> Document:
        """Return the document as it is."""
        text = self._text()
        if self._problem is not None:
            return Document(form="yaml", problem=self._problem, text=text[:KEPT_CHARS])
        from shiftlog.repl.texts.yaml import load

        try:
            return Document(form="yaml", value=load(text).value, text=text)
        except UnreadableText as error:
            return Document(form="yaml", problem=str(error), text=text)

    def _add(self, line: InputLine) -> None:
        self._size += line.size + 1
        if not line.is_valid:
            self._problem = self._problem or NOT_UTF8
        if self._size - 1 > ENVELOPE_BYTES:
            self._problem = TOO_LARGE
        if self._problem is not None:
            del self._lines[KEPT_LINES:]
            if len(self._lines) == KEPT_LINES:
                return
        self._lines.append(line.text)
        if line.is_blank:
            return
        if self._awaited is not None and any(mark in line.text for mark in self._awaited):
            self._awaited = None
        indent = len(line.text) - len(line.text.lstrip(" "))
        if self._block_indent is not None and indent < self._block_indent:
            self._block_indent = None

    def _ends_before_type(self) -> bool:
        """Return True if the document is a complete envelope, so that a `type:` line begins the next one."""
        if self._problem is not None:
            return True
        loaded = self._parsed()
        return loaded is not None and {"type", "payload"} <= loaded.value.keys()

    def _whole_at_blank(self) -> Document | None:
        """Return the document if it is a complete envelope and does not end inside a scalar."""
        if self._problem is not None or self._awaited is not None or self._block_indent is not None:
            return None
        loaded = self._parsed()
        if loaded is None:
            return None
        if loaded.ends_in_block:
            self._block_indent = loaded.block_indent
            self._awaited = ANY_LINE if loaded.block_indent is None else None
            return None
        self._awaited = _missing(loaded.value)
        return Document(form="yaml", value=loaded.value, text=self._text()) if self._awaited is None else None

    def _parsed(self) -> "Loaded | None":
        """Parse the text so far; return it if it is a mapping."""
        from shiftlog.repl.texts.yaml import UnfinishedText, load

        if self._never:
            return None
        try:
            loaded = load(self._text())
        except UnfinishedText as error:
            self._awaited = tuple(error.awaited)
            return None
        except UnreadableText:
            self._never = True
            return None
        if not isinstance(loaded.value, dict):
            self._never = loaded.value is not None
            self._awaited = ANY_LINE
            return None
        return loaded

    def _text(self) -> str:
        return "\n".join(self._lines) + "\n"


def _missing(envelope: dict[str, Any]) -> tuple[str, ...] | None:
    """Return the text that a line must have to complete an envelope; None if nothing is missing.

    A request without a method may still get one after a blank line.
    """
    if "type" not in envelope or "payload" not in envelope:
        return ("type", "payload")
    payload = envelope["payload"]
    if not isinstance(payload, dict):
        return ANY_LINE if payload is None else None
    return ("method",) if envelope["type"] == "request" and "method" not in payload else None
