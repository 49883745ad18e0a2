"""One table added to or removed from the user's TOML text; every other byte stays as it is.

Pure text in, text out. Comments and layout survive because the text around the table is never rewritten; the result is
parsed and compared before it is returned. tomlkit is no substitute: it removes the user's comment that follows a table
together with the table.
"""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from shiftlog.cli.setup.edit_json import CannotEdit, Entry, Merge

_LINES = re.compile(r"[^\n]*\n|[^\n]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class _TomlStatement:
    """The lines of one key or header of a TOML text; `table` is its table."""

    text: str
    table: tuple[str, ...]
    header: bool
    key: str | None


def with_toml_table(text: str, path: tuple[str, ...], merge: Merge) -> str:
    """Return the text with the table `path` set to `merge(present table)`; unchanged if that is equal.

    Unchanged keys of the table keep their text and comments.
    """
    before = _parsed_toml(text)
    present = _table(before, path)
    wanted = merge(present)
    if present == wanted:
        return text
    newline = "\r\n" if "\r\n" in text else "\n"
    old = present or {}
    body = "".join(f"{key} = {_toml(wanted[key])}{newline}" for key in wanted if wanted[key] != old.get(key))
    if present is None:
        gap = "" if not text else newline if text.endswith("\n") else newline * 2
        changed = f"{text}{gap}[{'.'.join(path)}]{newline}{body}"
    else:
        stale = {key for key in old if old[key] != wanted.get(key)}
        changed = _rewritten(_statements(text), path, body, stale)
    holder = before
    for name in path[:-1]:
        holder = holder.setdefault(name, {})
    holder[path[-1]] = wanted
    if _parsed_toml(changed) != before:
        raise CannotEdit("its layout is too unusual to edit safely")
    return changed


def without_toml_table(text: str, path: tuple[str, ...], keys: Sequence[str] = ()) -> str:
    """Return the text without a table, or without some of its keys."""
    before = _parsed_toml(text)
    present = _table(before, path)
    if present is None:
        return text
    holder = before
    for name in path[:-1]:
        holder = holder[name]
    if keys:
        for key in keys:
            present.pop(key, None)
    if not keys or not present:
        del holder[path[-1]]
    out: list[str] = []
    depth = len(path)
    for statement in _statements(text):
        own = statement.table[:depth] == path and (statement.header or statement.key is not None)
        inside = statement.table[depth] if len(statement.table) > depth else statement.key
        if not own or (keys and present and inside not in keys):
            out.append(statement.text)
        elif not statement.header or not out or out[-1].strip():
            continue
        else:
            out.pop()  # the blank line that was added before this table
    changed = "".join(out)
    if _without_empty(_parsed_toml(changed)) != _without_empty(before):
        raise CannotEdit("its layout is too unusual to edit safely")
    return changed


def _without_empty(document: Entry) -> Entry:
    """Return a document without empty tables, whose presence does not matter."""
    kept = {
        name: _without_empty(cast("Entry", value)) if isinstance(value, dict) else value
        for name, value in document.items()
    }
    return {name: value for name, value in kept.items() if value != {}}


def _rewritten(statements: Sequence[_TomlStatement], path: tuple[str, ...], body: str, stale: set[str]) -> str:
    if not any(statement.header and statement.table == path for statement in statements):
        raise CannotEdit(f"{'.'.join(path)} is not written as a table of its own")
    depth = len(path)
    out: list[str] = []
    for statement in statements:
        own = statement.table[:depth] == path
        inner = statement.table[depth] if own and len(statement.table) > depth else statement.key
        # Comments stay even if their table goes: the last ones may belong to the next table.
        if own and inner in stale and (statement.header or statement.key is not None):
            continue
        out.append(statement.text)
        if statement.header and statement.table == path:
            out.append(body if statement.text.endswith("\n") else "\n" + body)
    return "".join(out)


def _statements(text: str) -> list[_TomlStatement]:
    """Split valid TOML into statements, the shortest runs of lines that parse alone."""
    statements: list[_TomlStatement] = []
    table: tuple[str, ...] = ()
    pending = ""
    for line in cast("list[str]", _LINES.findall(text)):
        pending += line
        try:
            parsed = tomllib.loads(pending)
        except tomllib.TOMLDecodeError:
            continue
        header = pending.lstrip().startswith("[")
        if header:
            table = _header_path(parsed)
        key = None if header else next(iter(parsed), None)
        statements.append(_TomlStatement(text=pending, table=table, header=header, key=key))
        pending = ""
    return statements


def _header_path(parsed: Mapping[str, Any]) -> tuple[str, ...]:
    path: list[str] = []
    inner: Any = parsed
    while isinstance(inner, dict) and inner:
        name, inner = next(iter(cast("dict[str, Any]", inner).items()))
        path.append(name)
    return tuple(path)


def _parsed_toml(text: str) -> Entry:
    try:
        return tomllib.loads(text, parse_float=str)
    except RecursionError:
        raise CannotEdit("it is nested too deeply") from None
    except tomllib.TOMLDecodeError as error:
        raise CannotEdit(str(error)) from None


def _table(document: Entry, path: Sequence[str]) -> Entry | None:
    inner: Any = document
    for number, name in enumerate(path):
        if not isinstance(inner, dict):
            raise CannotEdit(f"'{'.'.join(path[:number])}' is not a table")
        inner = cast("Entry", inner).get(name)
        if inner is None:
            return None
    if not isinstance(inner, dict):
        raise CannotEdit(f"'{'.'.join(path)}' is not a table")
    return cast("Entry", inner)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        items = cast("Entry", value).items()
        return "{ " + ", ".join(f"{_toml(key)} = {_toml(inner)}" for key, inner in items) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in cast("list[Any]", value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        raise CannotEdit(f"{value!r} is not text")
    # JSON escapes what TOML wants escaped, but for DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
