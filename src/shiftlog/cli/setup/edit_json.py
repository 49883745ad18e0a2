"""One entry added to or removed from the user's JSON text; every other byte stays as it is.

Pure text in, text out. Comments, key order, indentation and odd numbers survive because the text around the entry is
never rewritten; the result is parsed and compared before it is returned. TOML is in `edit_toml`.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from shiftlog.text.json_comments import COMMENTS, blanked, plain_json

Entry = dict[str, Any]
Merge = Callable[[Entry | None], Entry]

_SPACE = re.compile(r"\s*")


class CannotEdit(ValueError):
    """The text is invalid, or holds the entry in a form that cannot be edited safely."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Member:
    key: str
    key_start: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Object:
    start: int
    close: int
    members: tuple[_Member, ...]

    def find(self, key: str) -> _Member | None:
        """Return the last member of that name, which is the effective one."""
        return next((member for member in reversed(self.members) if member.key == key), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """The places of the parts of an object or a list, between the brackets at `start` and `close`."""

    start: int
    close: int
    places: tuple[tuple[int, int], ...]


def with_json_entry(text: str, path: tuple[str, str], merge: Merge, *, comments: bool = False) -> str:
    """Return the text with `path` set to `merge(present entry)`; unchanged if that is equal.

    With `comments`, `//` and `/* */` comments and trailing commas are allowed, as VS Code allows them.
    """

    def merged(present: Any) -> Entry:
        return merge(cast("Entry", present) if isinstance(present, dict) else None)

    return _with_value(text, path, merged, comments=comments)


def with_json_number(text: str, key: str, value: int, *, comments: bool = False) -> str:
    """Return the text with a number as a member of the document, unless it has a member of that name."""
    plain = plain_json(text) if comments else text
    if not plain.strip():
        fresh = json.dumps({key: value}, indent=2) + "\n"
        return f"{text.rstrip()}\n{fresh}" if text.strip() else fresh
    expected = _document(plain)
    if key in expected:
        return text
    style = _Style(text, plain)
    expected[key] = str(value)
    return _verified(style.inserted(style.root, key, value), expected, comments=comments)


def with_json_item(text: str, path: tuple[str, str], item: Entry, *, comments: bool = False) -> str:
    """Return the text with an item at the end of the list at `path`, unless an equal one is in it."""

    def grown(present: Any) -> list[Any]:
        if not isinstance(present, list):
            raise CannotEdit(f"'{path[1]}' is not a list")
        items = cast("list[Any]", present)
        return items if item in items else [*items, item]

    return _with_value(text, path, grown, comments=comments, absent=[])


def _with_value(
    text: str, path: tuple[str, str], change: Callable[[Any], Any], *, comments: bool = False, absent: Any = None
) -> str:
    """Return the text with `path` set to `change(present value)`; a list may only grow by one item."""
    plain = plain_json(text) if comments else text
    if not plain.strip():
        fresh = json.dumps({path[0]: {path[1]: change(absent)}}, indent=2, ensure_ascii=False) + "\n"
        return f"{text.rstrip()}\n{fresh}" if text.strip() else fresh
    expected = _document(plain)
    style = _Style(text, plain)
    section = style.root.find(path[0])
    if section is not None and plain[section.start] != "{":
        raise CannotEdit(f"'{path[0]}' is not an object")
    inner = None if section is None else _object(plain, section.start)
    own = None if inner is None else inner.find(path[1])
    present = absent if own is None else _parsed_entry(plain[own.start : own.end])
    wanted = change(present)
    value: Any = _parsed_json(json.dumps(wanted))
    if inner is None:
        changed = style.inserted(style.root, path[0], {path[1]: wanted})
    elif own is None:
        changed = style.inserted(inner, path[1], wanted)
    elif present == wanted:
        return text
    elif isinstance(wanted, list):
        changed = style.appended(own, cast("list[Any]", wanted)[-1], is_first=not present)
        value = [*expected[path[0]][path[1]], value[-1]]  # the other items keep their own spelling of numbers
    else:
        changed = style.replaced(own, wanted)
    expected.setdefault(path[0], {})[path[1]] = value
    return _verified(changed, expected, comments=comments)


def without_json_entry(text: str, path: tuple[str, str], *, comments: bool = False, section_too: bool = False) -> str:
    """Return the text without the member at `path`; with `section_too` also without its object once that is empty."""
    plain = plain_json(text) if comments else text
    if not plain.strip():
        return text
    expected = _document(plain)
    section = _Style(text, plain).root.find(path[0])
    if section is None or plain[section.start] != "{":
        return text
    inner = _object(plain, section.start)
    if inner.find(path[1]) is None:
        return text
    changed = _without_member(text, inner, path[1])
    del expected[path[0]][path[1]]
    if section_too and not expected[path[0]]:
        readable = plain_json(changed) if comments else changed
        changed = _without_member(changed, _object(readable, _after_space(readable, 0)), path[0])
        del expected[path[0]]
    return _verified(changed, expected, comments=comments)


def without_json_member(text: str, key: str, *, comments: bool = False) -> str:
    """Return the text without a member of the document."""
    plain = plain_json(text) if comments else text
    expected = _document(plain) if plain.strip() else {}
    if key not in expected:
        return text
    del expected[key]
    return _verified(_without_member(text, _Style(text, plain).root, key), expected, comments=comments)


def _without_member(text: str, box: _Object, key: str) -> str:
    """Remove a member with its comma and white space."""
    index = next(at for at in reversed(range(len(box.members))) if box.members[at].key == key)
    places = tuple((member.key_start, member.end) for member in box.members)
    return _without_part(text, _Parts(start=box.start, close=box.close, places=places), index)


def _without_part(text: str, box: _Parts, index: int) -> str:
    """Remove one part of an object or a list with its comma and white space; comments around it stay."""
    begin, end = box.places[index]
    if index + 1 < len(box.places):
        following = box.places[index + 1][0]
        return text[:begin] + _kept(text[end:following]) + text[following:]
    if not index and not text[end : box.close].strip(" \t\r\n,"):
        end = box.close
    before = box.places[index - 1][1] if index else box.start + 1
    kept = _kept(text[before:begin])
    return (
        text[:before]
        + (kept.rstrip() + "\n" if "//" in kept and text[end] not in "\r\n" else kept.rstrip())
        + text[end:]
    )


def _kept(gap: str) -> str:
    """Return the text between two parts that stays when one of them is removed: comments, without the comma."""
    if not gap.strip(" \t\r\n,"):
        return ""
    comma = blanked(COMMENTS, gap).find(",")
    return gap if comma < 0 else gap[:comma] + gap[comma + 1 :]


def without_json_items(
    text: str, section: str, is_ours: Callable[[Any], bool], *, comments: bool = False, section_too: bool = True
) -> str:
    """Return the text without our items in the lists of a section, and without lists that held nothing else.

    With `section_too`, also without the section once it is empty.
    """
    while (found := _first_item(text, section, is_ours, comments=comments)) is not None:
        key, place, number = found
        plain = plain_json(text) if comments else text
        expected = _document(plain)
        items = cast("list[Any]", expected[section][key])
        del items[number]
        if items:
            text = _verified(_without_part(text, place, number), expected, comments=comments)
        else:
            text = without_json_entry(text, (section, key), comments=comments, section_too=section_too)
    return text


def _first_item(
    text: str, section: str, is_ours: Callable[[Any], bool], *, comments: bool
) -> tuple[str, "_Parts", int] | None:
    """Return the first item of ours: the name of its list, the places of the list's items, and its number."""
    plain = plain_json(text) if comments else text
    if not plain.strip():
        return None
    document = _parsed_entry(plain)
    lists: Any = cast("Entry", document).get(section) if isinstance(document, dict) else None
    if not isinstance(lists, dict):
        return None
    own = _object(plain, _after_space(plain, 0)).find(section)
    inner = _object(plain, own.start) if own is not None else None
    for key, items in cast("Entry", lists).items():
        member = inner.find(key) if inner is not None else None
        for number, item in enumerate(cast("list[Any]", items) if isinstance(items, list) else ()):
            if member is not None and is_ours(item):
                return key, _list(plain, member.start), number
    return None


def _list(plain: str, start: int) -> "_Parts":
    """Locate the items of the list that opens at `start` in valid JSON."""
    places: list[tuple[int, int]] = []
    at = _after_space(plain, start + 1)
    while plain[at] != "]":
        if plain[at] == ",":
            at = _after_space(plain, at + 1)
            continue
        end = cast("tuple[object, int]", _DECODER.raw_decode(plain, at))[1]
        places.append((at, end))
        at = _after_space(plain, end)
    return _Parts(start=start, close=at, places=tuple(places))


def _document(text: str) -> dict[str, Any]:
    document = _parsed_json(text)
    if not isinstance(document, dict):
        raise CannotEdit("the document is not an object")
    return cast("dict[str, Any]", document)


def _verified(changed: str, expected: Entry, *, comments: bool = False) -> str:
    """Return the changed text if it means what is expected; raise CannotEdit."""
    if _parsed_json(plain_json(changed) if comments else changed) != expected:
        raise CannotEdit("its layout is too unusual to edit safely")
    return changed


def _parsed_json(text: str) -> object:
    # Numbers stay text: a loss of precision in Python must not look like a change.
    try:
        return json.loads(text, parse_float=str, parse_int=str, parse_constant=_refuse_constant)
    except RecursionError:
        raise CannotEdit("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise CannotEdit(str(error)) from None


def _parsed_entry(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise CannotEdit(str(error)) from None


def _refuse_constant(name: str) -> object:
    raise CannotEdit(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_float=str, parse_int=str)


def _object(plain: str, start: int) -> _Object:
    """Locate the members of the object that opens at `start` in valid JSON."""
    members: list[_Member] = []
    at = _after_space(plain, start + 1)
    while plain[at] != "}":
        if plain[at] == ",":
            at = _after_space(plain, at + 1)
            continue
        key, key_end = cast("tuple[str, int]", _DECODER.raw_decode(plain, at))
        value_start = _after_space(plain, _after_space(plain, key_end) + 1)
        value_end = cast("tuple[object, int]", _DECODER.raw_decode(plain, value_start))[1]
        members.append(_Member(key=key, key_start=at, start=value_start, end=value_end))
        at = _after_space(plain, value_end)
    return _Object(start=start, close=at, members=tuple(members))


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


class _Style:
    """The layout of a JSON document, and new text in that layout."""

    def __init__(self, text: str, plain: str) -> None:
        self.text = text
        self.plain = plain
        self.newline = "\r\n" if "\r\n" in text else "\n"
        self.root = _object(plain, _after_space(plain, 0))
        first = self.root.members[0] if self.root.members else None
        indent = "" if first is None else self._indent_of(first)
        self.one_line = indent is None
        self.unit = indent or "  "

    def inserted(self, box: _Object, key: str, value: Any) -> str:
        """Add a last member to an object."""
        text, last = self.text, box.members[-1] if box.members else None
        indent = self._line_indent(box.start) + self.unit
        one_line = self.one_line
        if last is not None:
            own = self._indent_of(box.members[0])
            one_line, indent = own is None, own or indent
        at = len(text[: box.close].rstrip())
        has_comma = last is not None and "," in blanked(COMMENTS, text)[last.end : box.close]
        comma_at = at if last is None else last.end
        comma = "" if last is None or has_comma else ","
        if one_line:
            lead = " " if last is not None and not self._tight() else ""
            if "//" in text[box.start + 1 if last is None else last.end : at]:
                lead = self.newline  # else the member would be part of the comment
            member = lead + self._rendered({key: value}, None)[1:-1]
            tail = ""
        else:
            lead = self.newline + indent
            member = f"{lead}{json.dumps(key)}: {self._rendered(value, indent)}"
            closed = "\n" in text[at : box.close]
            tail = "" if closed else self.newline + self._line_indent(box.start)
        return text[:comma_at] + comma + text[comma_at:at] + member + tail + text[at:]

    def appended(self, member: _Member, item: Entry, *, is_first: bool) -> str:
        """Add a last item to a list, on its own line if the other items are."""
        text, close = self.text, member.end - 1
        at = len(text[:close].rstrip())
        if "\n" not in text[member.start : member.end]:
            lead = "" if is_first else ("," if self._tight() else ", ")
            return text[:at] + lead + self._rendered(item, None) + text[at:]
        indent = self._line_indent(close) + self.unit
        lead = ("" if is_first else ",") + self.newline + indent
        return text[:at] + lead + self._rendered(item, indent) + text[at:]

    def replaced(self, member: _Member, value: Entry) -> str:
        """Replace a member's value, on one line if it was on one line."""
        indent = self._indent_of(member) if "\n" in self.text[member.start : member.end] else None
        return self.text[: member.start] + self._rendered(value, indent) + self.text[member.end :]

    def _rendered(self, value: Any, indent: str | None) -> str:
        if indent is None:
            separators = (",", ":") if self._tight() else (", ", ": ")
            return json.dumps(value, ensure_ascii=False, separators=separators)
        lines = json.dumps(value, ensure_ascii=False, indent=self.unit)
        return lines.replace("\n", self.newline + indent)

    def _tight(self) -> bool:
        return '": ' not in self.plain

    def _indent_of(self, member: _Member) -> str | None:
        indent = self._line_indent(member.key_start)
        return indent if self.text[: member.key_start].endswith("\n" + indent) else None

    def _line_indent(self, at: int) -> str:
        start = self.text.rfind("\n", 0, at) + 1
        found = re.compile(r"[ \t]*").match(self.text, start, at)
        return found[0] if found else ""
