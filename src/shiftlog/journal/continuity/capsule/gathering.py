"""Collect from a session's entries, in one pass, the facts that its capsule needs.

Erased entries, and items cleared from their turn, do not count. `build` joins these facts with the turns.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shiftlog.journal.continuity.capsule.budget import Aged, Item
from shiftlog.journal.projection import UNFINISHED
from shiftlog.model.entry import Entry, Kind
from shiftlog.model.nouns import Turn
from shiftlog.model.times import shown

_DO_NOT = re.compile(r"do not\b", re.IGNORECASE)
_REFUTED = re.compile(r"(?:refuted|rejected):", re.IGNORECASE)
_DECISION = re.compile(r"decision:\s*", re.IGNORECASE)


def text_of(facts: Mapping[str, Any], name: str) -> str:
    """Return a text without outer space, empty where there is none."""
    value = facts.get(name)
    return value.strip() if isinstance(value, str) else ""


def recorded(text: str, seq: int) -> Aged:
    """Return an item that cites its entry, as old as that."""
    return seq, {"text": text, "basis": "recorded", "seq": seq}


@dataclass(slots=True)
class CapsuleFacts:
    """The facts found in one pass over the entries; each list is in the order of the journal."""

    turns: Mapping[str, Turn]
    decisions: dict[str, list[Aged]] = field(default_factory=lambda: {"do_not": [], "refuted": [], "decisions": []})
    known: set[str] = field(default_factory=set[str])
    unfinished: dict[tuple[object, ...], Aged] = field(default_factory=dict[tuple[object, ...], Aged])
    commands: dict[str, tuple[int, dict[str, object]]] = field(default_factory=dict[str, tuple[int, dict[str, object]]])
    commands_of: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    shell_of: dict[str, str] = field(default_factory=dict[str, str])
    shells: dict[str, dict[str, object]] = field(default_factory=dict[str, dict[str, object]])
    last_cwd: str | None = None
    checkpoints: list[Aged] = field(default_factory=list[Aged])
    statements: list[Entry] = field(default_factory=list[Entry])
    closing_note: str | None = None

    def take(self, entry: Entry) -> None:
        """Note what one entry says."""
        facts = entry.body
        if facts is None:
            return
        turn = self.turns.get(entry.turn or "")
        match entry.kind:
            case Kind.DIALOG:
                if facts.get("category") == "decision" and (turn is None or turn.keeps_dialog(entry.seq)):
                    self.decide(text_of(facts, "content"), entry.seq, spoken=True)
            case Kind.ACTION:
                if turn is None or turn.keeps_action(entry.seq):
                    self._act(facts, entry)
            case Kind.COMMAND_STARTED | Kind.COMMAND_FINISHED:
                self._command(facts, entry)
            case Kind.SHELL_OPENED | Kind.SHELL_ENDED:
                self._shell(facts, entry.kind)
            case Kind.CHECKPOINT_SAVED:
                saved: Item = {"id": facts.get("id"), "created_at": shown(entry.at), "label": facts.get("label")}
                self.checkpoints.append((entry.seq, saved))
            case Kind.CAPSULE_SAVED:
                if isinstance(facts.get("statement"), dict):
                    self.statements.append(entry)
            case Kind.SESSION_CLOSED:
                self.closing_note = text_of(facts, "note") or None
            case _:
                pass

    def decide(self, text: str, seq: int, *, spoken: bool) -> None:
        """Note a decision once, however often it was recorded; only a spoken one can forbid or refute."""
        key = _DECISION.sub("", text, count=1).casefold()
        if not key or key in self.known:
            return
        self.known.add(key)
        name = "decisions"
        if spoken and _DO_NOT.match(text):
            name = "do_not"
        elif spoken and _REFUTED.match(text):
            name = "refuted"
        self.decisions[name].append(recorded(text, seq))

    def _act(self, facts: Mapping[str, Any], entry: Entry) -> None:
        text = text_of(facts, "description")
        if facts.get("type") == "design_decision":
            self.decide(text, entry.seq, spoken=False)
        # The same action appended again tells how it went on.
        key = (entry.turn, facts.get("type"), text, facts.get("file_path"))
        self.unfinished.pop(key, None)
        if facts.get("status") in UNFINISHED and text:
            self.unfinished[key] = recorded(text, entry.seq)

    def _command(self, facts: Mapping[str, Any], entry: Entry) -> None:
        command_id = text_of(facts, "command_id")
        _, command = self.commands.setdefault(
            command_id,
            (entry.seq, {"command_id": command_id, "command": "", "exit_code": None, "seq": entry.seq}),
        )
        command["command"] = text_of(facts, "command") or command["command"]
        if entry.turn is not None:
            self.commands_of.setdefault(entry.turn, set()).add(command_id)
        if entry.kind is Kind.COMMAND_STARTED:
            self.shell_of[command_id] = text_of(facts, "shell_id")
        else:
            command["exit_code"] = facts.get("exit_code")
        shell = self.shells.get(self.shell_of.get(command_id, ""))
        cwd = text_of(facts, "cwd")
        if shell is not None and shell["state"] != "ended":
            shell["state"] = "busy" if entry.kind is Kind.COMMAND_STARTED else "idle"
            shell["cwd"] = cwd or shell["cwd"]
        self.last_cwd = cwd or self.last_cwd

    def _shell(self, facts: Mapping[str, Any], kind: Kind) -> None:
        shell_id = text_of(facts, "shell_id")
        cwd = text_of(facts, "cwd")
        shell = self.shells.setdefault(shell_id, {"shell_id": shell_id, "state": "idle", "cwd": cwd or None})
        if kind is Kind.SHELL_ENDED:
            shell["state"] = "ended"
        self.last_cwd = cwd or self.last_cwd
