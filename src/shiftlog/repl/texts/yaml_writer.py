"""Writing an answer as YAML: block style, two spaces, strings on one line, so that no document contains a blank line.

Text that another reader could type differently (a timestamp, `no`, a number) is double-quoted.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, cast

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./@+-]*(?: [A-Za-z0-9_./@+-]+)*")
_RESERVED = frozenset("true false null yes no on off y n".split())
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


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
    if isinstance(value, str):
        return _text(value)
    return json.dumps(value)


def _text(text: str) -> str:
    if len(text) <= 200 and _PLAIN.fullmatch(text) and text.lower() not in _RESERVED:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda character: f"\\u{ord(character[0]):04x}", quoted)
