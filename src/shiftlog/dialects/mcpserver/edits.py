"""Replacing and deleting parts of an open turn, and whole turns; the journal keeps the earlier entries.

Each function returns the id of the turn. Nothing is merged here; the ordinary rules of turns do that.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shiftlog.dialects.mcpserver.errors import AmbiguousItem
from shiftlog.dialects.mcpserver.requests import SECTIONS
from shiftlog.journal import rules
from shiftlog.journal.merge import changes_to, is_empty
from shiftlog.journal.pen import Pen
from shiftlog.model.entry import Entry, Kind
from shiftlog.model.errors import InvalidParameter
from shiftlog.model.nouns import Turn
from shiftlog.model.turn_texts import LIST_FIELDS

Values = Mapping[str, Any]
Edit = Callable[[Pen, Values], str]

ITEM_KINDS = {"dialog": Kind.DIALOG, "actions": Kind.ACTION}


def replace_turn(pen: Pen, values: Values) -> str:
    """Replace fields of an open turn, lists as a whole; fields that are absent or empty stay."""
    turn = rules.open_turn(pen, values.get("request_id"))
    fields: dict[str, Any] = values["turn"]
    replaced: dict[str, Any] = changes_to(turn, fields).get("set", {})
    text = fields.get("query_text")
    if not is_empty("query_text", text) and text != turn.query_text:
        replaced["query_text"] = text
    if replaced:
        pen.write(Kind.TURN_UPDATED, {"set": replaced}, turn.request_id)
    for name in (*LIST_FIELDS, "commits", "dialog", "actions"):
        if fields.get(name):
            _replace_section(pen, turn.request_id, name, fields[name])
    return turn.request_id


def replace_section(pen: Pen, values: Values) -> str:
    """Replace the items of a section of an open turn."""
    turn = rules.open_turn(pen, values.get("request_id"))
    _replace_section(pen, turn.request_id, SECTIONS[values["section"]], values["items"])
    return turn.request_id


def _replace_section(pen: Pen, request_id: str, name: str, items: Sequence[Any]) -> None:
    turn = rules.open_turn(pen, request_id)
    if name in ITEM_KINDS:
        rules.update_turn(pen, {"request_id": request_id, "clear": [name], name: items})
        return
    if name == "commits":
        wanted: list[Any] = list({commit["sha"]: commit for commit in items}.values())
    else:
        wanted = [item for item in dict.fromkeys(items) if item.strip()]
    if wanted and wanted != list(getattr(turn, name)):
        pen.write(Kind.TURN_UPDATED, {"clear": [name], "add": {name: wanted}}, request_id)


def delete_item(pen: Pen, values: Values) -> str:
    """Delete one item of a section: a value, a commit by sha, an action by order, a dialog item by its context."""
    turn = rules.open_turn(pen, values.get("request_id"))
    section, key = values["section"], values["item_key"]
    name = SECTIONS[section]
    if name in ITEM_KINDS:
        entry = _chosen(_kept(pen, turn, ITEM_KINDS[name]), name, section, key)
        dropped: Any = entry.seq
        if name == "actions":
            dropped = {
                "seq": entry.seq,
                "status": entry.facts.get("status", ""),
                "file_path": entry.facts.get("file_path", ""),
            }
        body: dict[str, Any] = {"drop": {name: [dropped]}}
    else:
        held = [str(commit["sha"]) for commit in turn.commits] if name == "commits" else getattr(turn, name)
        if key not in held:
            raise _no_item(section, key)
        body = {"remove": {name: [key]}}
    pen.write(Kind.TURN_UPDATED, body, turn.request_id)
    return turn.request_id


def _kept(pen: Pen, turn: Turn, kind: Kind) -> list[Entry]:
    entries = pen.reader.entries(
        pen.session.id, after=turn.begun_seq, until=turn.last_seq, turn=turn.request_id, kinds=(kind,)
    )
    keeps = turn.keeps_dialog if kind is Kind.DIALOG else turn.keeps_action
    return [entry for entry in entries if keeps(entry.seq)]


def _chosen(entries: list[Entry], name: str, section: str, key: str) -> Entry:
    number = int(key) if key.isascii() and key.isdecimal() and len(key) < 18 else -1
    if name == "dialog":
        if not 0 < number <= len(entries):
            raise _no_item(section, key)
        return entries[number - 1]
    fitting = [entry for entry in entries if entry.facts.get("order") == number]
    if not fitting:
        raise _no_item(section, key)
    if len(fitting) > 1:
        raise AmbiguousItem.of(key, section, len(fitting))
    return fitting[0]


def _no_item(section: str, key: str) -> InvalidParameter:
    return InvalidParameter.invalid("itemKey", f"an item of {section}", key)


def delete_turn(pen: Pen, values: Values) -> str:
    """Delete an open turn from its session; its entries stay in the journal."""
    turn = rules.open_turn(pen, values.get("request_id"))
    earlier = [other for other in pen.reader.turns(pen.session.id) if other.ordinal < turn.ordinal]
    body = {"deleted": True, "current_turn": earlier[-1].request_id if earlier else None}
    pen.write(Kind.TURN_UPDATED, body, turn.request_id)
    return turn.request_id
