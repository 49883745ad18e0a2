"""Turns a command's bytes into text: UTF-8 without terminal sequences, controls as `\\xNN`, carriage returns applied.

No I/O: bytes in, UTF-8 bytes out, with the same result at any cut of the input. Whole lines come out at once; an
unfinished line is held, because a carriage return may still restart it, unless it is long or was released.
"""

import codecs
import re
from collections.abc import Mapping
from typing import Any

LINE_BYTES = 64 * 1024  # a carriage return does not restart a longer segment

_CONTROLS = bytes([*range(9), *range(11, 13), *range(14, 32), 127])  # all but tab, line feed and carriage return
# Bytes that are not UTF-8 are decoded to lone surrogates, which valid UTF-8 never has.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\udc80-\udcff]")

_UNDECODED = re.compile("[\udc80-\udcff]")


class _Escapes(dict[int, int | str]):
    """A translation table for texts with many escapes; other characters stay as they are."""

    def __missing__(self, code: int) -> int:
        return code


_ESCAPES = _Escapes((code, f"\\x{code:02x}") for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n\r")
_ESCAPES.update((0xDC00 + byte, f"\\x{byte:02x}") for byte in range(128, 256))
_ESCAPES.update((code, code) for code in range(0x3000) if code not in _ESCAPES)

# ECMA-48: control sequences, strings (OSC, DCS, SOS, PM, APC; cut short by a line break, CAN, SUB or a new escape)
# and escapes of two and more characters.
_CSI = r"\[[0-?]{0,256}[ -/]{0,16}"
_STRING = r"[\]PX^_][^\x07\x1b\n\x18\x1a\x9c]*+"
_STRING_CLOSE = r"(?:\x07|\x1b\\|\x9c|(?=[\n\x18\x1a])|(?=\x1b[^\\]))"
_SEQUENCE = re.compile(rf"\x1b(?:{_CSI}[@-~]|{_STRING}{_STRING_CLOSE}|[ -/]{{1,16}}[0-~]|[0-OQ-WYZ\\`-~])")
_BEGUN = re.compile(rf"\x1b(?:{_CSI}|[ -/]{{0,16}})?\Z")
_BEGUN_STRING = re.compile(rf"\x1b{_STRING}(?P<escape>\x1b?)\Z")
_RESTARTED = re.compile(rb"^[^\n]*\r(?=[^\r\n])", re.MULTILINE)
_STRING_END = re.compile(r"[\x07\x1b\n\x18\x1a\x9c]")


def shown_name(text: str) -> str:
    """Return a file name as text: bytes that are not UTF-8 are written as `\\xNN`."""
    return text if text.isascii() else _UNDECODED.sub(lambda match: f"\\x{ord(match[0]) - 0xDC00:02x}", text)


class TextDecoder:
    """Turns the bytes of one stream into the text for results."""

    def __init__(self) -> None:
        self.binary = False
        self._raw: bytes = b""  # an incomplete character
        self._escape: str = ""  # an incomplete escape sequence
        self._in_string = False
        self._line: list[bytes] = []  # the current segment of the unfinished line
        self._line_bytes = 0
        self._restarts = False  # the current segment was followed by a carriage return
        self._fixed = False  # part of the current segment was returned
        self.replaced: bytes = b""  # the segment of the unfinished line that the current one replaced

    def state(self) -> dict[str, Any]:
        """Return what another decoder needs to go on from here."""
        return {**vars(self), "_line": [b"".join(self._line)] if self._line else []}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from the state of another decoder."""
        vars(self).update(state)

    @property
    def holds_line(self) -> bool:
        """True if part of an unfinished line is held."""
        return self._line_bytes > 0

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes; return the text of all complete lines."""
        return self._split(self._clean(data, final=False))

    def release(self) -> bytes:
        """Return the held part of the unfinished line; a carriage return no longer restarts it."""
        held = self._take()
        self._fixed |= bool(held)
        return held

    def held(self) -> bytes:
        """Return the held part of the unfinished line without releasing it."""
        return b"".join(self._line)

    def finish(self) -> bytes:
        """End the stream; return the rest."""
        return self._split(self._clean(b"", final=True)) + self._take()

    def _clean(self, data: bytes, *, final: bool) -> bytes:
        """Decode, remove sequences and write out controls; carriage returns stay."""
        if self._raw:
            data = self._raw + data
            self._raw = b""
        plain = not self._escape and not self._in_string
        if plain and data.isascii() and len(data.translate(None, _CONTROLS)) == len(data):
            return data
        self.binary |= b"\0" in data
        try:
            text, used = codecs.utf_8_decode(data, "strict", final)
        except UnicodeDecodeError:
            self.binary = True
            text, used = codecs.utf_8_decode(data, "surrogateescape", final)
        self._raw = bytes(data[used:])
        if not plain or "\x1b" in text:
            text = self._strip(self._escape + text, final=final)
        if self.binary:
            text = text.translate(_ESCAPES)
        elif _CONTROL.search(text) is not None:
            text = _CONTROL.sub(lambda match: str(_ESCAPES[ord(match[0])]), text)
        return text.encode()

    def _strip(self, text: str, *, final: bool) -> str:
        self._escape = ""
        if self._in_string:
            text = self._skip_string(text, final=final)
        # An open sequence at the end is found before the removal and cut off after it, which must see where it begins.
        open_chars = self._find_open(text, final=final)
        text = _SEQUENCE.sub("", text)
        return text[: len(text) - open_chars]

    def _skip_string(self, text: str, *, final: bool) -> str:
        """Drop the rest of a string that began in an earlier chunk."""
        end = _STRING_END.search(text)
        if end is None:
            return ""
        if end[0] == "\x1b" and end.end() == len(text):
            self._escape = "" if final else "\x1b"
            return ""
        self._in_string = False
        if end[0] == "\x1b":
            return text[end.end() + 1 :] if text[end.end()] == "\\" else text[end.start() :]
        return text[end.end() :] if end[0] in "\x07\x9c" else text[end.start() :]

    def _find_open(self, text: str, *, final: bool) -> int:
        """Return the length of an incomplete sequence at the end of the text, and remember it.

        For a string only its being open is remembered; at the stream's end only incomplete strings are dropped.
        """
        last = text.rfind("\x1b")
        if last < 0:
            return 0
        before = text.rfind("\x1b", 0, last) if last == len(text) - 1 else -1
        string = (_BEGUN_STRING.match(text, before) if before >= 0 else None) or _BEGUN_STRING.match(text, last)
        if string is not None:
            self._in_string, self._escape = not final, "" if final else string["escape"]
            return len(text) - string.start()
        if final or not _BEGUN.match(text, last):
            return 0
        self._escape = text[last:]
        return len(self._escape)

    def _split(self, data: bytes) -> bytes:
        """Return whole lines with carriage returns resolved; hold the rest."""
        if not data:
            return b""
        end = data.rfind(b"\n") + 1
        out: list[bytes] = []
        if end:
            lines = data[:end]
            first_end = data.find(b"\n") + 1
            if self._line_bytes or self._fixed or self._restarts:
                self._add_segments(lines[: first_end - 1], out)
                out += (self._take(), b"\n")
                self._fixed = self._restarts = False
                self.replaced = b""
                lines = lines[first_end:]
            out.append(_resolve_returns(lines) if b"\r" in lines else lines)
            data = data[end:]
        if data:
            self._add_segments(data, out)
        return b"".join(out)

    def _add_segments(self, data: bytes, out: list[bytes]) -> None:
        """Continue the unfinished line."""
        for number, segment in enumerate(data.split(b"\r") if b"\r" in data else (data,)):
            self._restarts |= number > 0
            if not segment:
                continue
            if self._restarts and (self._line_bytes or self._fixed):
                self.replaced = self._take()
                if self._fixed:
                    out += (self.replaced, b"\n")
            self._fixed &= not self._restarts
            self._restarts = False
            self._line.append(segment)
            self._line_bytes += len(segment)
            if self._line_bytes > LINE_BYTES or (self._fixed and self._line_bytes > LINE_BYTES // 2):
                out.append(self._take())
                self._fixed = True

    def _take(self) -> bytes:
        held = b"".join(self._line)
        self._line.clear()
        self._line_bytes = 0
        return held


def _resolve_returns(lines: bytes) -> bytes:
    """Resolve the carriage returns of whole lines."""
    lines = lines.replace(b"\r\n", b"\n")
    if len(lines) <= LINE_BYTES:
        lines = _RESTARTED.sub(b"", lines)  # no segment can be long here
    if b"\r" not in lines:
        return lines
    return b"\n".join(_last_segment(line) if b"\r" in line else line for line in lines.split(b"\n"))


def _last_segment(line: bytes) -> bytes:
    """Return the last segment that is not empty, after those too long to restart."""
    kept: list[bytes] = []
    last = b""
    for segment in filter(None, line.split(b"\r")):
        if len(last) > LINE_BYTES:
            kept.append(last)
        last = segment
    return b"\n".join((*kept, last))
