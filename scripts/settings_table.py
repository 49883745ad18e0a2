"""The table of settings in docs/configuration.md. Used by `generate_docs.py`."""

import json
from collections.abc import Iterator
from typing import NamedTuple

from shiftlog.config.settings import SETTINGS, Loopback, Pattern, TableOf
from shiftlog.params.fields import Boolean, Choice, Field, Integer, ListOf, Number, Record


class ReferenceRow(NamedTuple):
    """One line of the reference in the docs; `variable` and `default` are empty where there is none."""

    key: str
    type: str
    default: str
    variable: str
    description: str


def reference_rows() -> list[ReferenceRow]:
    """List every key as the docs show it, tables followed by the keys inside them."""
    rows: list[ReferenceRow] = []
    for setting in SETTINGS:
        variable = setting.variable if setting.environment else ""
        default = "" if _is_table(setting.field) else _toml(setting.field.default)
        row = ReferenceRow(setting.key, _says(setting.field), default, variable, setting.field.description)
        rows += [row, *_inner_rows(setting.key, setting.field)]
    return rows


def _inner_rows(key: str, field: Field) -> Iterator[ReferenceRow]:
    match field:
        case TableOf(item=item, placeholder=placeholder):
            yield from _inner_rows(f"{key}.{placeholder}", item)
        case ListOf(item=Record() as item):
            yield from _inner_rows(f"{key}[]", item)
        case Record(fields=fields):
            for name, inner in fields.items():
                yield ReferenceRow(f"{key}.{name}", _says(inner), "", "", inner.description)
        case _:
            return


def _is_table(field: Field) -> bool:
    return isinstance(field, TableOf) or (isinstance(field, ListOf) and isinstance(field.item, Record))


def _says(field: Field) -> str:
    match field:
        case Boolean():
            return "true or false"
        case Integer(minimum=minimum, maximum=maximum):
            return f"integer {minimum}..{maximum}"
        case Number():
            return "number of at least 0"
        case Choice(values=values):
            return "one of " + ", ".join(f"`{value}`" for value in values)
        case ListOf(item=Record()):
            return "list of tables"
        case ListOf():
            return "list of names"
        case TableOf():
            return "tables by name"
        case Loopback():
            return "loopback address"
        case Pattern():
            return "RE2 pattern"
        case _:
            return "text"


def _toml(value: object) -> str:
    # The defaults are words, numbers and lists of words, which JSON and TOML write alike.
    return json.dumps(value, ensure_ascii=False)


def reference_table() -> str:
    """Render `reference_rows` as the Markdown table of docs/configuration.md."""
    lines = ["| key | type | default | variable | what it does |", "|---|---|---|---|---|"]
    for row in reference_rows():
        default, variable = (f"`{text}`" if text else "" for text in (row.default, row.variable))
        lines.append(f"| `{row.key}` | {row.type} | {default} | {variable} | {row.description} |")
    return "\n".join(lines) + "\n"
