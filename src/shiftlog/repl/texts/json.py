"""JSON of the REPL: whether lines so far form a complete document, reading with checks, and writing on one line.

A value must not be nested too deeply and its text must be valid Unicode. The size limit of an envelope is here too.
"""

import json
import math
import re
from collections.abc import Iterator
from typing import Any, NoReturn, cast

from shiftlog.text.printable import SURROGATES

MAX_DEPTH = 100
TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep"
ENVELOPE_BYTES = 8 * 1024 * 1024
TOO_LARGE = f"larger than {ENVELOPE_BYTES >> 20} MiB"

WHOLE, OPEN, BROKEN = "whole", "open", "broken"

_TOKEN = re.compile(
    r"""[ \t\r]*(?:
        (?P<string> " [^"\\\x00-\x1f]*+ (?> (?: \\ (?: ["\\/bfnrt] | u[0-9a-fA-F]{4} ) [^"\\\x00-\x1f]*+ )* ) " )
      | (?P<plain> -? (?: 0 | [1-9][0-9]* ) (?: \.[0-9]+ )? (?: [eE][+-]?[0-9]+ )? | true | false | null )
      | (?P<mark> [{}\[\],:] )
      | (?P<end> $ )
    )""",
    re.VERBOSE,
)
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class UnreadableText(ValueError):
    """A document cannot be read; the text is the reason."""


class Outline:
    """Tracks the brackets of a JSON document line by line."""

    def __init__(self) -> None:
        self._inside: list[str] = []
        self._expects = "value"

    def feed(self, line: str) -> str:
        """Take one more line; return WHOLE, OPEN or BROKEN."""
        at = 0
        while True:
            token = _TOKEN.match(line, at)
            if token is None:
                return BROKEN
            if token["end"] is not None:
                return WHOLE if self._expects == "end" else OPEN
            at = token.end()
            kind = token["mark"] or ("string" if token["string"] is not None else "plain")
            if not self._take(kind):
                return BROKEN

    def _take(self, kind: str) -> bool:
        expects = self._expects
        if kind in "{[" and expects in ("value", "value or ]"):
            self._inside.append("}" if kind == "{" else "]")
            self._expects = "key or }" if kind == "{" else "value or ]"
        elif kind in ("string", "plain") and expects in ("value", "value or ]") and self._inside:
            self._expects = "next"
        elif kind == "string" and expects in ("key", "key or }"):
            self._expects = ":"
        elif kind == ":" and expects == ":":
            self._expects = "value"
        elif kind == "," and expects == "next":
            self._expects = "key" if self._inside[-1] == "}" else "value"
        elif kind in "}]" and self._closes(kind):
            self._inside.pop()
            self._expects = "next" if self._inside else "end"
        else:
            return False
        return True

    def _closes(self, kind: str) -> bool:
        may_close = self._expects == "next" or self._expects.endswith(f"or {kind}")
        return may_close and self._inside[-1:] == [kind]


def load(text: str) -> Any:
    """Return the value of a JSON text; raise UnreadableText."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        says = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply or a number too large"
        raise UnreadableText(f"not valid JSON: {says}") from None
    check(value, surrogates=_ESCAPED_SURROGATE.search(text) is not None)
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise json.JSONDecodeError(f"{name} is not a JSON value", name, 0)


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise json.JSONDecodeError("a number is too large", text, 0)
    return number


def check(value: Any, *, surrogates: bool) -> None:
    """Raise UnreadableText for a value that is nested too deeply or, with `surrogates`, holds a lone surrogate."""
    level = [value]
    for _ in range(MAX_DEPTH):
        if surrogates and any(isinstance(item, str) and SURROGATES.search(item) for item in level):
            raise UnreadableText("text with half a surrogate pair")
        level = [part for item in level for part in _parts(item)]
        if not level:
            return
    raise UnreadableText(TOO_DEEP)


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for name, item in cast(dict[str, Any], value).items():
            yield name
            yield item
    elif isinstance(value, list):
        yield from cast(list[Any], value)


def dump(value: object) -> str:
    """Return a value as JSON on one line, even for readers that treat U+0085, U+2028 and U+2029 as line ends."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for character, escape in (("\x85", "\\u0085"), ("\u2028", "\\u2028"), ("\u2029", "\\u2029")):
        if character in text:
            text = text.replace(character, escape)
    return text
