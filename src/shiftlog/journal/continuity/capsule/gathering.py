"""Collect from a session's entries, in one pass, the facts that its capsule needs.

Erased entries, and items cleared from their turn, do not count. `build` joins these facts with the turns.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from shiftlog.journal.continuity.capsule.budget import Aged, Item, clipped
from shiftlog.journal.continuity.capsule.own_tools import OwnTools, command_of, directory_of, printed_by
from shiftlog.journal.projection import UNFINISHED
from shiftlog.model.entry import Entry, Kind
from shiftlog.model.nouns import FileTouch, Turn
from shiftlog.model.times import shown

_DO_NOT = re.compile(r"(?:do not|don['\u2019]t|never)\b", re.IGNORECASE)
_REFUTED = re.compile(r"(?:refuted|rejected):", re.IGNORECASE)
_DECISION = re.compile(r"decision:\s*", re.IGNORECASE)
_RESOLVED = re.compile(r"^\s*(?:[-*+]\s+)?(?:resolved|unblocked):(.*)", re.IGNORECASE | re.MULTILINE)
_TELLING_CHARS = 3
# What a command that runs tests says of itself; the last one is the state of the work.
_TESTS = re.compile(
    r"\b(?:pytest|unittest|tox|nox|jest|vitest|mocha|rspec|phpunit|ctest|bats)\b"
    r"|\b(?:npm|yarn|pnpm|go|cargo|make|mvn|gradlew?|dotnet|swift|mix|deno|bun)\s+(?:run\s+)?(?:test|check)\b"
)
# The kind of checkpoint that an agent asked for.
_NAMED = "manual"
LAST_COMMANDS = 3
LAST_DIALOG = 3
LAST_LINES = 5
COMMAND_BYTES = 200


def text_of(facts: Mapping[str, Any], name: str) -> str:
    """Return a text without outer space, empty where there is none."""
    value = facts.get(name)
    return value.strip() if isinstance(value, str) else ""


def recorded(text: str, seq: int) -> Aged:
    """Return an item that cites its entry, as old as that."""
    return seq, {"text": text, "basis": "recorded", "seq": seq}


def compared(text: str) -> str:
    """Return a text as two of them are compared: words in lower case, without punctuation."""
    return " ".join(re.findall(r"\w+", text.casefold()))


def _last_lines(*printed: str) -> list[str]:
    """Return the last lines of the first text that has any."""
    for text in printed:
        lines = [line.rstrip() for line in text.splitlines() if line.strip()]
        if lines:
            return lines[-LAST_LINES:]
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class _LastAction:
    """The last word about one action."""

    text: str
    facts: Mapping[str, Any]
    entry: Entry

    def planned(self) -> Aged:
        """Return it as something to do next."""
        seq, item = recorded(self.text, self.entry.seq)
        more = {name: self.facts[name] for name in ("status", "file_path") if self.facts.get(name)}
        return seq, {**cast("dict[str, object]", item), **more}


@dataclass(slots=True)
class CapsuleFacts:
    """The facts found in one pass over the entries; each list is in the order of the journal."""

    turns: Mapping[str, Turn]
    # Turns that the user rewound: what was decided and planned in them holds no more.
    abandoned: frozenset[str] = frozenset()
    decisions: dict[str, list[Aged]] = field(default_factory=lambda: {"do_not": [], "refuted": [], "decisions": []})
    known: set[str] = field(default_factory=set[str])
    # By their compared words, then by their files.
    actions: dict[str, dict[str, "_LastAction"]] = field(default_factory=dict[str, dict[str, "_LastAction"]])
    # What was said to be resolved, as compared words, with the entry that says so.
    resolved: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    # Which entry added a text to a list of a turn, and with which entry the request began that completed the turn.
    added: dict[tuple[str, str, str], int] = field(default_factory=dict[tuple[str, str, str], int])
    completed_from: dict[str, int] = field(default_factory=dict[str, int])
    dialog: dict[str, list[Entry]] = field(default_factory=dict[str, list[Entry]])
    command_turn: dict[str, str | None] = field(default_factory=dict[str, str | None])
    commands: dict[str, tuple[int, dict[str, object]]] = field(default_factory=dict[str, tuple[int, dict[str, object]]])
    last_lines: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    shell_of: dict[str, str] = field(default_factory=dict[str, str])
    shells: dict[str, dict[str, object]] = field(default_factory=dict[str, dict[str, object]])
    last_cwd: str | None = None
    # By what they hold: another one of the same files tells nothing new, but for one that the agent named.
    checkpoints: dict[tuple[str, ...], Aged] = field(default_factory=dict[tuple[str, ...], Aged])
    statements: list[Entry] = field(default_factory=list[Entry])
    own_tools: OwnTools = field(default_factory=OwnTools)
    times: dict[int, datetime] = field(default_factory=dict[int, datetime])
    closing_note: str | None = None

    def take(self, entry: Entry) -> None:
        """Note what one entry says."""
        facts = entry.body
        if facts is None:
            return
        self.times[entry.seq] = entry.at
        turn = self.turns.get(entry.turn or "")
        match entry.kind:
            case Kind.DIALOG:
                if turn is None or turn.keeps_dialog(entry.seq):
                    self._say(facts, entry)
            case Kind.TURN_UPDATED:
                self._add(facts, entry)
            case Kind.TURN_COMPLETED:
                self.completed_from[entry.turn or ""] = int(facts.get("from_seq") or entry.seq)
                self._resolve(text_of(facts, "response"), entry.seq)
            case Kind.ACTION:
                if turn is None or turn.keeps_action(entry.seq):
                    self._act(facts, entry)
            case Kind.COMMAND_STARTED | Kind.COMMAND_FINISHED:
                self._command(facts, entry)
            case Kind.SHELL_OPENED | Kind.SHELL_ENDED:
                self._shell(facts, entry.kind)
            case Kind.CHECKPOINT_SAVED:
                self._save(facts, entry)
            case Kind.CAPSULE_SAVED:
                if isinstance(facts.get("statement"), dict):
                    self.statements.append(entry)
            case Kind.SESSION_CLOSED:
                self.closing_note = text_of(facts, "note") or None
            case _:
                pass

    def _save(self, facts: Mapping[str, Any], entry: Entry) -> None:
        held = text_of(facts, "tree") or text_of(facts, "id")
        key = (text_of(facts, "target"), text_of(facts, "workspace"), held)
        if facts.get("kind") == _NAMED or key not in self.checkpoints:
            self.checkpoints.pop(key, None)
            saved: Item = {"id": facts.get("id"), "created_at": shown(entry.at), "label": facts.get("label")}
            self.checkpoints[key] = (entry.seq, saved)

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

    def _say(self, facts: Mapping[str, Any], entry: Entry) -> None:
        text = text_of(facts, "content")
        self._resolve(text, entry.seq)
        if facts.get("category") == "decision" and (entry.turn not in self.abandoned or _REFUTED.match(text)):
            self.decide(text, entry.seq, spoken=True)
        if self._use_tool(facts, entry):
            return
        newest = self.dialog.setdefault(entry.turn or "", [])
        newest.append(entry)
        del newest[:-LAST_DIALOG]

    def _use_tool(self, facts: Mapping[str, Any], entry: Entry) -> bool:
        """Note a call of an agent's own tool, or its result, if that ran a command or changed the plan."""
        call_id = text_of(facts, "call_id")
        if facts.get("category") == "tool_call":
            text = command_of(facts)
            if text is None:
                return self.own_tools.call(facts, entry.seq)
            command = self._command_named(call_id, entry)
            command["command"] = text
            self.last_cwd = directory_of(facts) or self.last_cwd
            return True
        if facts.get("category") != "tool_result":
            return False
        if call_id not in self.commands:
            return self.own_tools.result(facts)
        self._finish(call_id, facts, _last_lines(printed_by(facts)))
        return True

    def _add(self, facts: Mapping[str, Any], entry: Entry) -> None:
        """Note which entry added a text to a list of its turn."""
        for name, items in facts.get("add", {}).items():
            for text in items:
                if isinstance(text, str):
                    self.added.setdefault((entry.turn or "", name, text.strip()), entry.seq)
                    self._resolve(text.strip(), entry.seq)

    def _resolve(self, text: str, seq: int) -> None:
        said = (compared(found[1]) for found in _RESOLVED.finditer(text))
        self.resolved += [(seq, words) for words in said if len(words) >= _TELLING_CHARS]

    def is_resolved(self, text: str, seq: int) -> bool:
        """Return True if a later entry says in the same words that this is resolved."""
        words = f" {compared(text)} "
        return any(at > seq and (f" {said} " in words or words in f" {said} ") for at, said in self.resolved)

    def _act(self, facts: Mapping[str, Any], entry: Entry) -> None:
        text = text_of(facts, "description")
        if not text or entry.turn in self.abandoned:
            return
        if facts.get("type") == "design_decision":
            self.decide(text, entry.seq, spoken=False)
        # The same action, told again in any turn, tells how it went on, also where its plan named no file.
        words, path = compared(text), text_of(facts, "file_path")
        told = self.actions.setdefault(words, {})
        for other in (path, "") if path else tuple(told) if len(told) == 1 else ("",):
            told.pop(other, None)
        told[path] = _LastAction(text=text, facts=facts, entry=entry)

    def unfinished(self) -> list[Aged]:
        """Return the actions that are planned or under way, with their status and file."""
        return [action.planned() for action in self._last_actions() if action.facts.get("status") in UNFINISHED]

    def finished(self) -> list[str]:
        """Return the actions that were completed."""
        return [action.text for action in self._last_actions() if action.facts.get("status") == "completed"]

    def _last_actions(self) -> list["_LastAction"]:
        """Return every action as it was told last, in the order of the journal."""
        found = (action for told in self.actions.values() for action in told.values())
        return sorted(found, key=lambda action: action.entry.seq)

    def planned(self) -> list[Aged]:
        """Return the steps of the agent's plan that are not done, with their status."""
        return [
            (step.seq, {"text": step.text, "basis": "recorded", "seq": step.seq, "status": step.status})
            for step in self.own_tools.plan
            if step.status in UNFINISHED
        ]

    def failed(self) -> list[Aged]:
        """Return the actions that an agent says failed: approaches that did not work.

        A command or a call of a tool that failed is only a step, and often one that was to fail.
        """
        return [
            recorded(action.text, action.entry.seq)
            for action in self._last_actions()
            if action.facts.get("status") == "failed"
            and action.facts.get("type") != "command"
            and not action.facts.get("call_id")
        ]

    def _command(self, facts: Mapping[str, Any], entry: Entry) -> None:
        command_id = text_of(facts, "command_id")
        command = self._command_named(command_id, entry)
        command["command"] = text_of(facts, "command") or command["command"]
        if entry.kind is Kind.COMMAND_STARTED:
            self.shell_of[command_id] = text_of(facts, "shell_id")
        else:
            self._finish(command_id, facts, _last_lines(text_of(facts, "stdout"), text_of(facts, "stderr")))
        shell = self.shells.get(self.shell_of.get(command_id, ""))
        cwd = text_of(facts, "cwd")
        if shell is not None and shell["state"] != "ended":
            shell["state"] = "busy" if entry.kind is Kind.COMMAND_STARTED else "idle"
            shell["cwd"] = cwd or shell["cwd"]
        self.last_cwd = cwd or self.last_cwd

    def _command_named(self, command_id: str, entry: Entry) -> dict[str, object]:
        """Return the facts of a command, new ones if this entry is the first to name it."""
        self.command_turn.setdefault(command_id, entry.turn)
        blank: dict[str, object] = {"command_id": command_id, "command": "", "exit_code": None, "last_line": ""}
        return self.commands.setdefault(command_id, (entry.seq, {**blank, "seq": entry.seq}))[1]

    def _finish(self, command_id: str, facts: Mapping[str, Any], lines: list[str]) -> None:
        _, command = self.commands[command_id]
        command["exit_code"] = facts.get("exit_code")
        command["last_line"] = clipped(lines[-1], COMMAND_BYTES) if lines else ""
        self.last_lines[command_id] = lines

    def last_commands(self) -> list[tuple[int, dict[str, object]]]:
        """Return the last commands, each text once; the last run of tests is among them."""
        newest = {str(command["command"]): (seq, command) for seq, command in self.commands.values()}
        ordered = sorted(newest.values(), key=lambda aged: aged[0])
        chosen = ordered[-LAST_COMMANDS:]
        tests = [aged for aged in ordered if _TESTS.search(str(aged[1]["command"]))][-1:]
        if tests and tests[0] not in chosen:
            chosen = [*tests, *chosen[1:]]
        return [
            (seq, {**command, "command": clipped(str(command["command"]), COMMAND_BYTES)}) for seq, command in chosen
        ]

    def touched_at(self, touch: FileTouch, turn: Turn) -> datetime:
        """Return when a turn touched a file last."""
        return self.times.get(touch.seq, turn.last_updated)

    def commands_of(self, turn: str) -> list[str]:
        """Return the ids of a turn's commands."""
        return [command_id for command_id, of in self.command_turn.items() if of == turn]

    def last_command_of(self, turn: str) -> Item | None:
        """Return the last command of a turn with the end of what it printed."""
        named = self.commands_of(turn)
        if not named:
            return None
        _, command = self.commands[named[-1]]
        lines = self.last_lines.get(named[-1], [])
        return {
            "command": clipped(str(command["command"]), COMMAND_BYTES),
            "exit_code": command["exit_code"],
            "last_lines": [clipped(line, COMMAND_BYTES) for line in lines],
        }

    def _shell(self, facts: Mapping[str, Any], kind: Kind) -> None:
        shell_id = text_of(facts, "shell_id")
        cwd = text_of(facts, "cwd")
        shell = self.shells.setdefault(shell_id, {"shell_id": shell_id, "state": "idle", "cwd": cwd or None})
        if kind is Kind.SHELL_ENDED:
            shell["state"] = "ended"
            shell["ended_reason"] = facts.get("reason")
            shell["cwd"] = cwd or shell["cwd"]
        self.last_cwd = cwd or self.last_cwd
