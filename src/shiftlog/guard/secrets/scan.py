"""The scan: masks a text piece by piece, both whole texts and streams.

Lines without a trigger are copied. Other lines are searched one at a time, lines over `LINE_BYTES` in overlapping
windows; keys and environment dumps are followed across lines. The result never depends on where the text was cut into
pieces. Only lines up to `LINE_BYTES` are searched again after masking, so only for them masking twice equals masking
once.
"""

import re
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from shiftlog.guard.linear import LinearPattern, starts_at
from shiftlog.guard.secrets.detectors import blocks, kinds
from shiftlog.guard.secrets.detectors.escaped import find_in_escaped_lines
from shiftlog.guard.secrets.detectors.following import SecretFollower
from shiftlog.guard.secrets.detectors.kinds import SecretKind, SecretSpan, placeholder
from shiftlog.guard.secrets.detectors.lines import (
    Sign,
    Signs,
    SuspiciousLines,
    find_in_line,
    is_suspicious,
    look,
    merge_overlaps,
)
from shiftlog.guard.secrets.detectors.tokens import find_wrapped, may_be_wrapped

SECRET_BYTES = 16 * 1024
LINE_BYTES = 64 * 1024
# In fields that hold paths only these are masked, because they have a shape of their own.
PATH_CLASSES = frozenset({"url_password", "provider_key", "jwt"})
_STEP = LINE_BYTES - SECRET_BYTES
_LEFT = 2048
_VALUE_END = re.compile(r"[\s\"'`<>]", re.ASCII)
_MASKED = re.compile(r"\[REDACTED(?::[\w.-]+)?\]", re.ASCII)
_MAX_PASSES = 8
_KEY_HEADERS, _KEY_BODY, _KEY_LAST, _KEY_SHORT = 1, 2, 3, 4
_SHORT_KEY_LINES = 8
_LINE_COST_BYTES = 256  # a searched line costs one unit, and one more for each so many bytes
_BARE_KEY_LINES = 120
_SIMPLE = ("_recent", "_not_key", "_key", "_key_break", "_long", "_left", "_covered", "_unended")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRules:
    """Patterns beyond the built-in detectors, findings to ignore, and the form of placeholders."""

    patterns: tuple[tuple[LinearPattern, SecretKind], ...] = ()
    silenced: frozenset[str] = frozenset()
    classes: frozenset[str] | None = None
    by_rule: bool = False

    def allow(self, kind: SecretKind) -> bool:
        """Return True if findings of this kind count."""
        return kind.rule not in self.silenced and (self.classes is None or kind.klass in self.classes)

    def trigger(self, data: bytes) -> bool:
        """Return True if the data may hold a secret."""
        return is_suspicious(data) or self.trigger_added(data)

    def trigger_added(self, data: bytes) -> bool:
        """Return True if one of the added patterns matches the data."""
        return any(pattern.search(data) is not None for pattern, _ in self.patterns)

    def find(self, line: str) -> Iterator[SecretSpan]:
        """Yield the matches of the added patterns in a line, or of their first group."""
        data = line.encode("latin-1") if self.patterns else b""
        for pattern, kind in self.patterns:
            group = 1 if pattern.groups else 0
            for match in pattern.finditer(data):
                if match.start(group) < match.end(group):
                    yield SecretSpan(match.start(group), match.end(group), kind)


class _NeedsMore(Exception):
    """The data does not yet decide the line at this position."""

    def __init__(self, position: int) -> None:
        super().__init__(position)
        self.position = position


class _Hits:
    """Finds the next trigger among several patterns, each of which searches the data once."""

    def __init__(self, data: bytes, rules: ScanRules) -> None:
        self._data = data
        self.lines = SuspiciousLines(data)
        self._searches = [starts_at(pattern) for pattern, _ in rules.patterns]
        self._next = [-1] * len(self._searches)

    def line_start(self, position: int, limit: int) -> int:
        """Return the start of the next line with a hit, at most the limit; `position` is the start of a line."""
        for index, find in enumerate(self._searches):
            if self._next[index] < position:
                start = find(self._data, position, len(self._data))
                self._next[index] = len(self._data) if start < 0 else start
        start = self.lines.find(position, limit)
        hit = min(self._next, default=limit)
        return start if hit >= start else self._data.rfind(b"\n", position, hit) + 1 or position


def find_long_line(data: bytes, position: int) -> int:
    """Return the start of the first line over `LINE_BYTES`, or the end of the data."""
    while position + LINE_BYTES < len(data):
        last_break = data.rfind(b"\n", position, position + LINE_BYTES + 1)
        if last_break < 0:
            return position
        position = last_break + 1
    return len(data)


def _line_end(data: bytes, start: int, *, final: bool) -> tuple[int, int]:
    """Return the end of a line, without and with its line break."""
    end = data.find(b"\n", start)
    if end >= 0:
        return end, end + 1
    if not final:
        raise _NeedsMore(start)
    return len(data), len(data)


def _head(data: bytes, start: int, end: int, size: int = blocks.CONTEXT_CHARS) -> str:
    """Return the beginning of a line; nothing if it is too long for a block."""
    return "" if end - start > blocks.BLOCK_LINE_CHARS else data[start : min(end, start + size)].decode("latin-1")


def _is_short_key(data: bytes, head: str, after: int, position: int, *, final: bool) -> bool:
    """Return True if a few lines shorter than those of a usual key lead to its end mark."""
    for _ in range(_SHORT_KEY_LINES):
        if not 0 < blocks.key_body_chars(head) < blocks.FULL_BODY_CHARS:
            return False
        head, after = _next_head(data, after, position, final=final, size=blocks.BLOCK_LINE_CHARS)
        if blocks.KEY_END.search(head):
            return True
    return False


def _next_head(
    data: bytes, start: int, asking: int, *, final: bool, size: int = blocks.CONTEXT_CHARS
) -> tuple[str, int]:
    """Return the beginning of the line at `start` and the start of the next one, if the data holds them."""
    end = data.find(b"\n", start, start + blocks.BLOCK_LINE_CHARS + 1)
    if end < 0:
        if len(data) - start <= blocks.BLOCK_LINE_CHARS and not final:
            raise _NeedsMore(asking)
        end = len(data)
    return _head(data, start, end, size), end + 1


def _whole_characters(line: str, start: int, end: int) -> tuple[int, int]:
    """Widen a span of UTF-8 bytes, decoded as Latin-1, to whole characters."""
    while start > 0 and "\x80" <= line[start] <= "\xbf":
        start -= 1
    while end < len(line) and "\x80" <= line[end] <= "\xbf":
        end += 1
    return start, end


def _character_start(data: bytes, position: int) -> int:
    """Return the last character start up to a position; the data ends with a whole character."""
    position = min(position, len(data))
    while position < len(data) and data[position] & 0xC0 == 0x80:
        position -= 1
    return position


def _find_in_texts(line: str, signs: Signs | None = None, *, settings: bool = False) -> Iterator[SecretSpan]:
    """Yield the findings in a line and in the lines of the texts inside its strings."""
    signs = look(line.encode("latin-1")) if signs is None else signs
    yield from find_in_line(line, signs, settings=settings)
    if signs:
        yield from find_in_escaped_lines(line, signs)


@dataclass(slots=True)
class Scan:
    """The masking of one text: feed it with `push`, end it with `close`. `classes` counts the masked secrets."""

    rules: ScanRules
    classes: Counter[str] = field(default_factory=Counter[str])
    is_exhausted: bool = False  # the last push stopped at its limit, before the end of the data
    found: list[SecretSpan] | None = None  # if given: where secrets began and ended in the data of the last push
    _recent: tuple[str, ...] = ()  # beginnings of the last lines, newest last
    _follower: SecretFollower = field(default_factory=SecretFollower)
    _not_key: int = 0  # the number of next lines that were seen not to belong to a key
    _key: int = 0  # 0 outside a private key, otherwise the part of it
    _key_break: bytes = b""  # the line break after the masked part of a key
    _long: bool = False  # inside a long line
    _left: bytes = b""  # the bytes of the long line before this position
    _spent: int = 0  # what the searched lines of the last push cost
    _covered: int = 0  # the number of next bytes that belong to an earlier secret
    _unended: bool = False  # that secret continues even further

    def push(self, data: bytes, *, final: bool, most: int = sys.maxsize) -> tuple[bytes, int]:
        """Mask as much of the data as can be decided; return the result and the number of bytes used.

        The data starts where the last push ended; pass the unused rest again with more data. With `final` everything is
        used. With `most` a push stops after about so many searched lines, which take 0.1 to 0.5 ms each; `is_exhausted`
        then says so.
        """
        out: list[bytes] = []
        position = self._spent = 0
        hits = _Hits(data, self.rules)
        long_line = 0 if self._long else find_long_line(data, 0)
        try:
            while position < len(data) and self._spent <= most:
                if self._long:
                    position = self._pass_window(data, position, out, final=final)
                    long_line = position if self._long else find_long_line(data, position)
                elif position == long_line:
                    out.append(self.close())
                    self._long, self._left, self._covered, self._unended = True, b"", 0, False
                    self._key, self._follower, self._recent = 0, SecretFollower(), ()
                elif self._key:
                    position = self._pass_key_line(data, position, out, final=final)
                elif not self._follower.idle or (stop := hits.line_start(position, long_line)) == position:
                    position = self._pass_line(data, position, hits.lines, out, final=final)
                else:
                    position = self._copy(data, position, stop, out, final=final)
        except _NeedsMore as need:
            position, self._spent = need.position, 0
        self.is_exhausted = self._spent > most and position < len(data)
        return b"".join(out), position

    def state(self) -> dict[str, Any] | None:
        """Return what another scan needs to go on from here; None while a line may announce a secret of a later one."""
        if not self._follower.is_blank:
            return None
        return {name: getattr(self, name) for name in _SIMPLE} | {"classes": dict(self.classes)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from the state of another scan."""
        for name in _SIMPLE:
            setattr(self, name, state[name])
        self._recent = tuple(self._recent)
        self.classes = Counter(state["classes"])

    def branch(self) -> "Scan":
        """Return a scan that goes on from here by itself and counts from zero; this one stays as it is."""
        return replace(self, classes=Counter[str](), found=None, _follower=self._follower.branch())

    def close(self) -> bytes:
        """End the text; return the bytes held back."""
        rest, self._key_break = self._key_break, b""
        return rest

    def _copy(self, data: bytes, start: int, stop: int, out: list[bytes], *, final: bool) -> int:
        """Copy lines without a hit; of the last line only if it is complete."""
        if stop == len(data) and not final:
            stop = data.rfind(b"\n", start, stop) + 1
            if stop <= start:
                raise _NeedsMore(start)
        out.append(data[start:stop])
        self._remember(data, start, stop)
        return stop

    def _remember(self, data: bytes, start: int, stop: int) -> None:
        """Keep the beginnings of the last copied lines, because later lines look back at them."""
        heads: list[str] = []
        end = stop - 1 if data[stop - 1 : stop] == b"\n" else stop
        while len(heads) < blocks.ENV_RUN_LINES - 1 and end >= start:
            line = data.rfind(b"\n", start, end) + 1 or start
            heads.append(_head(data, line, end))
            end = line - 1
        self._recent = (*self._recent, *reversed(heads))[-(blocks.ENV_RUN_LINES - 1) :]

    def _pass_line(self, data: bytes, start: int, lines: SuspiciousLines, out: list[bytes], *, final: bool) -> int:
        end, after = _line_end(data, start, final=final)
        self._spent += 1 + (end - start) // _LINE_COST_BYTES
        signs = lines.look(start, end)
        line = data[start:end].decode("latin-1")
        findings, opens_key = self._find_in_block(line, signs, data, start, after, final=final)
        if signs:
            settings = Sign.NAME in signs.kinds and any(map(blocks.is_section, self._recent))
            findings += _find_in_texts(line, signs, settings=settings)
        findings += self._follower.find(line)  # uses up what was announced, so nothing after it may ask for more data
        findings += self.rules.find(line)
        out.append(self._mask(line, findings, start) if findings else data[start:end])
        self._follower.read(line, findings, announces=Sign.FOLLOW in signs.kinds)
        self._recent = (*self._recent, _head(data, start, end))[-(blocks.ENV_RUN_LINES - 1) :]
        if opens_key:
            self._follower = SecretFollower()
            self._key, self._key_break = opens_key, data[end:after]
        else:
            out.append(data[end:after])
        return after

    def _find_in_block(
        self, line: str, signs: Signs, data: bytes, start: int, after: int, *, final: bool
    ) -> tuple[list[SecretSpan], int]:
        """Find what needs the lines around; tell how a key goes on in the next line, as `_find_keys` does."""
        findings: list[SecretSpan] = []
        opens_key = 0
        if Sign.BLOCK in signs.kinds:
            findings, opens_key = self._find_keys(line, data, start, after, final=final)
            if self._is_bare_key(line, data, start, after, final=final):
                findings.append(SecretSpan(len(line) - len(line.lstrip(" \t>+|")), len(line), kinds.PRIVATE_KEY))
                opens_key = _KEY_BODY
            findings += self._find_in_context(line, data, start, after, final=final)
        else:
            self._not_key = max(0, self._not_key - 1)
        if Sign.TOKEN in signs.kinds:
            findings += self._find_wrapped(line, data, start, after, final=final)
        return findings, opens_key

    def _mask(self, line: str, findings: list[SecretSpan], offset: int) -> bytes:
        """Mask a line repeatedly, until the detectors find nothing more.

        Masking can reveal a secret in the rest of a line. A line that never settles was made for it, and is masked
        whole.
        """
        counted = merge_overlaps(self._countable(line, findings))
        self._report(counted, offset)
        for _ in range(_MAX_PASSES):
            if not counted:
                return line.encode("latin-1")
            line = "".join(self._pieces(line, counted))
            counted = merge_overlaps(self._countable(line, [*_find_in_texts(line), *self.rules.find(line)]))
        return placeholder(counted[0].kind, by_rule=self.rules.by_rule).encode() if counted else line.encode("latin-1")

    def _report(self, findings: Iterable[SecretSpan], offset: int) -> None:
        if self.found is not None:
            self.found += [SecretSpan(start + offset, end + offset, kind) for start, end, kind in findings]

    def _countable(self, line: str, findings: list[SecretSpan]) -> Iterator[SecretSpan]:
        """Yield the findings that the rules allow and that are not placeholders."""
        masked = [span.span() for span in _MASKED.finditer(line)] if "[REDACTED" in line else []
        for finding in findings:
            before = bisect_right(masked, (finding.start, len(line))) - 1
            if self.rules.allow(finding.kind) and not (before >= 0 and finding.end <= masked[before][1]):
                yield finding

    def _pieces(self, line: str, findings: list[SecretSpan]) -> Iterator[str]:
        position = 0
        for start, end, kind in findings:
            start, end = _whole_characters(line, start, end)
            if start < position:
                continue
            yield line[position:start]
            yield placeholder(kind, by_rule=self.rules.by_rule)
            self.classes[kind.klass] += 1
            position = end
        yield line[position:]

    def _find_wrapped(self, line: str, data: bytes, start: int, after: int, *, final: bool) -> list[SecretSpan]:
        """Find a token that goes on in the next line, and let the next line know."""
        if not may_be_wrapped(line):
            return []
        following, _ = _next_head(data, after, start, final=final, size=blocks.BLOCK_LINE_CHARS)
        wrapped = find_wrapped(line, following)
        if wrapped is None:
            return []
        self._follower.expect_rest(*wrapped)
        return [wrapped[0]]

    def _is_bare_key(self, line: str, data: bytes, start: int, after: int, *, final: bool) -> bool:
        """Return True if the lines from here on are the rest of a private key, up to its end mark."""
        self._not_key = max(0, self._not_key - 1)
        if self._not_key or not blocks.is_bare_body(line) or not self.rules.allow(kinds.PRIVATE_KEY):
            return False
        for count in range(_BARE_KEY_LINES):
            head, after = _next_head(data, after, start, final=final, size=blocks.BLOCK_LINE_CHARS)
            if blocks.KEY_END.search(head):
                return True
            if not blocks.key_body_chars(head) or after > len(data):
                self._not_key = count + 1
                return False
        self._not_key = _BARE_KEY_LINES
        return False

    def _find_in_context(self, line: str, data: bytes, start: int, after: int, *, final: bool) -> Iterator[SecretSpan]:
        previous = self._recent[-1] if self._recent else ""
        if span := blocks.marker_value(previous, line):
            yield SecretSpan(*span, kinds.SIGNATURE)
        if not self.rules.allow(kinds.ENV_VALUE) or len(line) > blocks.BLOCK_LINE_CHARS:
            return
        if (span := blocks.env_candidate(line)) and self._in_env_dump(data, start, after, final=final):
            yield SecretSpan(*span, kinds.ENV_VALUE)

    def _in_env_dump(self, data: bytes, start: int, after: int, *, final: bool) -> bool:
        lines = 1
        for head in reversed(self._recent):
            if not blocks.is_env_line(head):
                break
            lines += 1
        while lines < blocks.ENV_RUN_LINES:
            head, after = _next_head(data, after, start, final=final)
            if not blocks.is_env_line(head):
                return False
            lines += 1
        return True

    def _find_keys(
        self, line: str, data: bytes, start: int, after: int, *, final: bool
    ) -> tuple[list[SecretSpan], int]:
        """Find the keys that begin in a line, and how the last one continues in the next line (0: it does not)."""
        found: list[SecretSpan] = []
        if not ("PRIVATE KEY" in line or "PuTTY-" in line) or not self.rules.allow(kinds.PRIVATE_KEY):
            return found, 0
        begins = list(blocks.KEY_BEGIN.finditer(line))
        limits = [*(mark.start() for mark in begins), len(line)][1:]
        for begin, limit in zip(begins, limits, strict=False):
            position = begin.end()
            end = blocks.find_inline_key(line, position, limit)
            if end is not None:
                open_ended = not blocks.ends_key(line, end) and blocks.is_blank(line[end:])
                end = len(line) if open_ended else end
                found.append(SecretSpan(begin.start(), end, kinds.PRIVATE_KEY))
                if open_ended:
                    return found, _KEY_HEADERS
            elif blocks.is_blank(line[position:]):
                head, beyond = _next_head(data, after, start, final=final, size=blocks.BLOCK_LINE_CHARS)
                goes_on = _KEY_SHORT if _is_short_key(data, head, beyond, start, final=final) else 0
                if goes_on or blocks.opens_key(begin[0], head):
                    found.append(SecretSpan(begin.start(), len(line), kinds.PRIVATE_KEY))
                    return found, goes_on or _KEY_HEADERS
        return found, 0

    def _pass_key_line(self, data: bytes, start: int, out: list[bytes], *, final: bool) -> int:
        """Drop a line of a private key, or leave the key before the first line that is not part of it."""
        end, after = _line_end(data, start, final=final)
        line = _head(data, start, end, blocks.BLOCK_LINE_CHARS) if end - start <= blocks.BLOCK_LINE_CHARS else "\0"
        if mark := blocks.KEY_END.search(line):
            self._key, self._key_break = 0, b""
            self._recent = ()
            return start + mark.end()
        chars = blocks.key_body_chars(line)
        if chars and self._key == _KEY_SHORT:
            pass
        elif chars and (self._key != _KEY_LAST or line.lstrip()[:1] == "="):
            self._key = _KEY_BODY if chars >= blocks.FULL_BODY_CHARS else _KEY_LAST
        elif blocks.is_key_header(line, blank=self._key == _KEY_HEADERS):
            self._key = _KEY_HEADERS
        else:
            out.append(self.close())
            self._key = 0
            return start
        self._key_break = data[end:after]
        return after

    def _pass_window(self, data: bytes, start: int, out: list[bytes], *, final: bool) -> int:
        """Mask one window of a long line and move to the next, overlapping one."""
        window_end = start + LINE_BYTES
        line_end = data.find(b"\n", start, window_end)
        if line_end < 0 and len(data) < window_end and not final:
            raise _NeedsMore(start)
        self._spent += LINE_BYTES // _LINE_COST_BYTES
        ends = line_end >= 0 or len(data) < window_end
        window_end = line_end if line_end >= 0 else _character_start(data, window_end)
        stop = window_end if ends else _character_start(data, start + _STEP)
        window = self._left + data[start:window_end]
        out.append(self._mask_window(window, len(self._left), len(self._left) + stop - start, start - len(self._left)))
        if ends:
            self._long = False
            out.append(data[stop : stop + 1])
            return min(stop + 1, len(data))
        self._left = data[max(0, stop - _LEFT) : stop]
        return stop

    def _mask_window(self, window: bytes, start: int, stop: int, offset: int) -> bytes:
        line = window.decode("latin-1")
        findings: list[SecretSpan] = []
        signs = look(window)
        if signs or self.rules.patterns:
            in_line = _find_in_texts(line, signs)
            found = [*self._find_keys(line, b"", 0, 0, final=True)[0], *in_line, *self.rules.find(line)]
            findings = merge_overlaps(finding for finding in found if self.rules.allow(finding.kind))
        covered = start + self._covered
        if self._unended:
            value_end = _VALUE_END.search(line, covered)
            self._unended = value_end is None
            covered = len(line) if value_end is None else value_end.start()
        pieces: list[bytes] = []
        position = min(covered, stop)
        for finding in findings:
            first, last = _whole_characters(line, finding.start, finding.end)
            if not start <= first < stop or _MASKED.fullmatch(line, first, last):
                continue
            if first >= covered:
                self._report([finding], offset)
                pieces += (window[position:first], placeholder(finding.kind, by_rule=self.rules.by_rule).encode())
                self.classes[finding.kind.klass] += 1
            covered = max(covered, last)
            self._unended |= last == len(line)
            position = min(covered, stop)
        pieces.append(window[position:stop])
        self._covered = max(0, covered - stop)
        return b"".join(pieces)
