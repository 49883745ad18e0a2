"""Sparse merging: how incoming fields change a stored turn, the same for every writer.

An empty value never changes a stored one, a text replaces, lists are united in order. The result holds only real
changes, so that an update without effect writes nothing.
"""

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shiftlog.model.errors import InvalidParameter
from shiftlog.model.nouns import FileTouch, Turn
from shiftlog.model.turn_texts import LIST_FIELDS

TEXT_FIELDS = ("query_title", "interpretation", "response", "model", "model_provider", "plan_file", "todo_id")
CLEARABLE = ("response", "interpretation", *LIST_FIELDS, "commits", "dialog", "actions")
MAX_LIST_ITEMS = 10_000
_EMPTY_WORDS = {"model": "unknown", "plan_file": "None", "todo_id": "None"}


def is_empty(name: str, value: object) -> bool:
    """Return True if an incoming value counts as absent."""
    if isinstance(value, str):
        return not value.strip() or value == _EMPTY_WORDS.get(name)
    return value is None or value == 0 or value == [] or value == {}


def changes_to(turn: Turn, incoming: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of the `turn.updated` entry that the incoming fields ask for, empty if none is needed."""
    replaced: dict[str, Any] = {}
    for name in (*TEXT_FIELDS, "token_count"):
        value = incoming.get(name)
        if value is not None and not is_empty(name, value) and value != getattr(turn, name):
            replaced[name] = value
    added: dict[str, Any] = {}
    for name in LIST_FIELDS:
        given = incoming.get(name)
        if given and (new := fresh(getattr(turn, name), given)):
            _check_room(name, len(getattr(turn, name)) + len(new))
            added[name] = new
    given = incoming.get("commits")
    if given and (commits := fresh_commits(turn.commits, given)):
        _check_room("commits", len(turn.commits) + len(commits))
        added["commits"] = commits
    body: dict[str, Any] = {}
    if replaced:
        body["set"] = replaced
    if added:
        body["add"] = added
    return body


def effective_clear(turn: Turn, names: Iterable[str]) -> list[str]:
    """Return those of the named fields that hold something to clear."""
    counted = {"dialog": turn.dialog_items, "actions": turn.actions}
    return [name for name in dict.fromkeys(names) if counted.get(name, getattr(turn, name, None))]


def fresh(stored: Sequence[str], incoming: Iterable[str]) -> list[str]:
    """Return the texts that are neither blank nor among the stored ones, each once."""
    known = set(stored)
    return [item for item in dict.fromkeys(incoming) if item.strip() and item not in known]


def fresh_commits(stored: Sequence[Mapping[str, Any]], incoming: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the commits that are not among the stored ones, each sha once."""
    seen = {str(commit["sha"]) for commit in stored}
    new: list[dict[str, Any]] = []
    for commit in incoming:
        if commit["sha"] not in seen:
            seen.add(commit["sha"])
            new.append(commit)
    return new


def _check_room(name: str, count: int) -> None:
    if count > MAX_LIST_ITEMS:
        raise InvalidParameter.invalid(name, f"at most {MAX_LIST_ITEMS} entries in all", count)


def dialog_key(body: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the key that equal dialog items share, for uniting them."""
    return (body.get("timestamp"), body.get("role"), body.get("category"), body.get("content"))


def action_key(body: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the key that equal actions share, for uniting them."""
    return (body.get("order"), body.get("description"), body.get("type"), body.get("file_path"))


def normal_path(path: str, workspace: str | None) -> str:
    """Return the path of a touched file in its stored form: forward slashes, no `./`, relative to the workspace."""
    path = path.replace("\\", "/").strip()
    if not path:
        return ""
    path = posixpath.normpath(path)
    if workspace:
        path = path.removeprefix(workspace.replace("\\", "/").rstrip("/") + "/")
    return path


def with_seen(files: dict[str, FileTouch], found: Mapping[str, str], seq: int) -> dict[str, FileTouch]:
    """Add files that two checkpoints show as changed, unless an action or a list has named them."""
    seen = {path: files.get(path) for path in found}
    new = {
        path: FileTouch(changes=before.changes + 1 if before else 1, last_type=found[path], seq=seq, seen=True)
        for path, before in seen.items()
        if before is None or before.seen
    }
    return {**files, **new}
