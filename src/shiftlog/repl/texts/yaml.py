"""YAML 1.2 with the core schema: no aliases, no duplicate keys, no custom tags.

Only true, false, null, integers and floats are typed; timestamps, `No` and `on` are text. ruamel's parser is loaded for
the first YAML document.

Answers are written in block style with strings on one line, so that no document contains a blank line. Text that
another reader could type differently (a timestamp, `no`, a number) is double-quoted.
"""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from shiftlog.repl.texts.json import MAX_DEPTH, TOO_DEEP, UnreadableText, check
from shiftlog.text.printable import SURROGATES

_NULL = re.compile(r"null|Null|NULL|~|")
_BOOLEAN = re.compile(r"true|True|TRUE|false|False|FALSE")
_INTEGER = re.compile(r"[-+]?[0-9]{1,4000}")
_OCTAL = re.compile(r"0o[0-7]{1,4000}")
_HEX = re.compile(r"0x[0-9a-fA-F]{1,4000}")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_CORE = "tag:yaml.org,2002:"
# Line ends in YAML 1.1 and for the parser; ordinary characters in 1.2.
_FORMER_ENDS = "\x85\u2028\u2029"
_PRIVATE_USE = range(0xE000, 0xF900)

# Texts that are written without quotes: no reader takes them for anything else.
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./@+-]*(?: [A-Za-z0-9_./@+-]+)*")
_RESERVED = frozenset("true false null yes no on off y n".split())
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A document's value, and the indentation of its last block scalar if the text ends inside one."""

    value: Any
    ends_in_block: bool = False
    block_indent: int | None = None


class UnfinishedText(UnreadableText):
    """An incomplete text that a further line with one of `awaited` may complete."""

    def __init__(self, reason: str, awaited: str) -> None:
        super().__init__(reason)
        self.awaited = awaited


def load(text: str) -> Loaded:
    """Read one document; raise UnfinishedText if further lines could complete it, else UnreadableText."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    masks = _masks(text)
    builder = _Builder(unmasked={ord(mask): own for own, mask in masks.items()})
    try:
        parser: Any = YAML(typ="safe", pure=True)
        for event in parser.parse(text.translate(str.maketrans(masks))):
            builder.take(event)
    except YAMLError as error:
        raise _reason(error, text) from None
    except (ValueError, IndexError, TypeError, AttributeError, AssertionError, RecursionError) as error:
        # The parser does not wrap all its failures in a YAMLError.
        raise error if isinstance(error, UnreadableText) else UnreadableText("not valid YAML") from None
    check(builder.value, surrogates=True)
    if getattr(builder.last, "style", None) not in ("|", ">"):
        return Loaded(value=builder.value)
    indent = _block_indent(text, builder.last.start_mark.line)
    return Loaded(value=builder.value, ends_in_block=True, block_indent=indent)


def _masks(text: str) -> dict[str, str]:
    """Map each character that the parser would treat as a line end to a character that the text does not use."""
    former = [end for end in _FORMER_ENDS if end in text]
    if not former:
        return {}
    folded = text.lower()  # an escape names a character too
    unused = (chr(code) for code in _PRIVATE_USE if chr(code) not in text and f"{code:x}" not in folded)
    return dict(zip(former, unused, strict=False))


def _reason(error: Any, text: str) -> UnreadableText:
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be parsed"
    mark = getattr(error, "problem_mark", None)
    says = f"not valid YAML: {problem}" + (f" (line {mark.line + 1})" if mark is not None else "")
    context, start = getattr(error, "context", None) or "", getattr(error, "context_mark", None)
    if "quoted scalar" in context and "end of stream" in problem and start is not None:
        return UnfinishedText(says, text[start.index : start.index + 1])
    if "<stream end>" in problem and "flow" in context:
        return UnfinishedText(says, "]}")
    return UnreadableText(says)


def _block_indent(text: str, header: int) -> int | None:
    """Return the least indentation of lines in a block scalar; None if no line shows it yet."""
    lines = text.split("\n")
    own = re.search(r"[|>][-+]?([0-9])", lines[header])
    if own:
        # Counted from the key, or a little more: too much costs a second parse, too little would be wrong.
        key = re.match(r" *(?:- +)*", lines[header])
        return (key.end() if key else 0) + int(own[1])
    for line in lines[header + 1 :]:
        if line.strip(" \r"):
            return len(line) - len(line.lstrip(" "))
    return None


@dataclass(slots=True)
class _Open:
    """A collection that is being filled; `key` belongs to the next value."""

    into: dict[str, Any] | list[Any]
    key: str | None = None


@dataclass(slots=True)
class _Builder:
    """Builds a value from the parser's events; `unmasked` restores masked characters."""

    unmasked: dict[int, str]
    value: Any = None
    last: Any = None
    _stack: list[_Open] = field(default_factory=list[_Open])
    _documents: int = 0

    def take(self, event: Any) -> None:
        match type(event).__name__:
            case "ScalarEvent":
                self.last = event
                self._scalar(event)
            case "MappingStartEvent":
                self._begin(event, {})
            case "SequenceStartEvent":
                self._begin(event, [])
            case "MappingEndEvent" | "SequenceEndEvent":
                self._put(self._stack.pop().into)
            case "AliasEvent":
                raise UnreadableText("aliases are not allowed")
            case "DocumentStartEvent":
                self._documents += 1
                if self._documents > 1:
                    raise UnreadableText("more than one document")
            case _:
                pass

    def _begin(self, event: Any, into: dict[str, Any] | list[Any]) -> None:
        self.last = event
        kind = "map" if isinstance(into, dict) else "seq"
        if event.tag is not None and str(event.tag) != _CORE + kind:
            raise UnreadableText(f"a tag is not supported (line {event.start_mark.line + 1})")
        if self._stack and isinstance(self._stack[-1].into, dict) and self._stack[-1].key is None:
            raise UnreadableText("a key must be a plain value")
        self._stack.append(_Open(into))
        if len(self._stack) > MAX_DEPTH:
            raise UnreadableText(TOO_DEEP)

    def _scalar(self, event: Any) -> None:
        top = self._stack[-1] if self._stack else None
        if top is not None and isinstance(top.into, dict) and top.key is None:
            key = self._text(event)
            if key in top.into:
                raise UnreadableText(f"a mapping has the same key twice (line {event.start_mark.line + 1})")
            top.key = key
            return
        self._put(_typed(event, self._text(event)))

    def _text(self, event: Any) -> str:
        text = _whole(str(event.value))
        return text.translate(self.unmasked) if self.unmasked else text

    def _put(self, value: Any) -> None:
        if not self._stack:
            self.value = value
            return
        top = self._stack[-1]
        if isinstance(top.into, list):
            top.into.append(value)
        elif top.key is not None:
            top.into[top.key] = value
            top.key = None


def _typed(event: Any, text: str) -> Any:
    tag = None if event.tag is None else str(event.tag)
    if tag in ("!", _CORE + "str") or (tag is None and not event.implicit[0]):
        return text
    if tag is not None and tag not in {_CORE + kind for kind in ("null", "bool", "int", "float")}:
        raise UnreadableText(f"a tag is not supported (line {event.start_mark.line + 1})")
    return _core(text)


def _core(text: str) -> Any:
    if _NULL.fullmatch(text):
        return None
    if _BOOLEAN.fullmatch(text):
        return text[0] in "tT"
    if _INTEGER.fullmatch(text):
        return int(text)
    if _OCTAL.fullmatch(text) or _HEX.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text):
        number = float(text)
        # A number that JSON cannot hold stays text; so do `.inf` and `.nan`.
        return number if math.isfinite(number) else text
    return text


def _whole(text: str) -> str:
    """Join surrogate pairs that came as two escapes."""
    if not SURROGATES.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def write(value: dict[str, Any]) -> str:
    """Return a mapping as a YAML document, with its line end."""
    return "\n".join(_mapping(value, "")) + "\n"


def _mapping(value: dict[str, Any], indent: str) -> Iterator[str]:
    for name, item in value.items():
        yield from _entry(f"{indent}{_text(name)}:", item, indent)


def _entry(head: str, item: Any, indent: str) -> Iterator[str]:
    if isinstance(item, dict) and item:
        yield head
        yield from _mapping(cast(dict[str, Any], item), indent + "  ")
    elif isinstance(item, list) and item:
        yield head
        for part in cast(list[Any], item):
            yield from _item(part, indent + "  ")
    else:
        yield f"{head} {_scalar(item)}"


def _item(part: Any, indent: str) -> Iterator[str]:
    if isinstance(part, dict) and part:
        lines = _mapping(cast(dict[str, Any], part), indent + "  ")
    elif isinstance(part, list) and part:
        lines = (line for inner in cast(list[Any], part) for line in _item(inner, indent + "  "))
    else:
        yield f"{indent}- {_scalar(part)}"
        return
    for n, line in enumerate(lines):
        yield f"{indent}- {line[len(indent) + 2 :]}" if n == 0 else line


def _scalar(value: Any) -> str:
    return _text(value) if isinstance(value, str) else json.dumps(value)


def _text(text: str) -> str:
    if len(text) <= 200 and _PLAIN.fullmatch(text) and text.lower() not in _RESERVED:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda character: f"\\u{ord(character[0]):04x}", quoted)
