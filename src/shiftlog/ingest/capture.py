"""A Codex rollout as turns of the session log: read whole, masked, with its subagents. Nothing is stored.

The Codex reader reads; here its facts are folded into one object per turn. Finding rollouts is here too.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from shiftlog.facts import transcript as f
from shiftlog.ingest.files.discovery import default_roots, expanded, hints_of
from shiftlog.ingest.files.lines import LineFile
from shiftlog.ingest.importing.batches import SNIFF_BYTES, SNIFF_RECORDS
from shiftlog.ingest.readers.codex.reader import CodexReader
from shiftlog.ingest.readers.formats import first_time, recognise
from shiftlog.ingest.readers.records import call_line, first_line, object_in, read_line
from shiftlog.model.errors import TranscriptNotFound, TranscriptUnreadable
from shiftlog.model.ids import slug
from shiftlog.model.times import parse, precise, shown
from shiftlog.model.turn_texts import shortened_result

NICKNAME = "codex"
MAX_LINE_BYTES = 128 << 20
HEADER_BYTES = 16 << 20
FILES = ("rollout-*.jsonl", "rollout-*.jsonl.zst")
LISTS = {
    "context_list": "contextList",
    "design_decisions": "designDecisions",
    "requirements_discovered": "requirementsDiscovered",
    "files_modified": "filesModified",
    "blockers": "blockers",
    "commits": "commits",
    "tags": "tags",
}
CHANGING = ("edit", "create", "delete")
VARIABLES = ("CODEX_SESSION_FILE", "CODEX_ROLLOUT_FILE")
# At least one of the last lines of a rollout is readable.
LAST_LINES = 8

Turn = dict[str, Any]
Mask = Callable[[Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutHeader:
    """The first `session_meta` of a rollout."""

    thread: str
    parent: str | None = None
    nickname: str = NICKNAME
    role: str | None = None
    started: str = ""
    cwd: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedRollout(RolloutHeader):
    """A rollout: its header, its turns in order, and counts of unreadable lines."""

    path: str
    turns: list[Turn]
    skipped_lines: int
    unknown_records: dict[str, int]


def read_rollout(path: str, mask: Mask) -> CapturedRollout:
    """Read a rollout whole; raise TranscriptNotFound or TranscriptUnreadable."""
    if not Path(path).is_file():
        raise TranscriptNotFound(f"Transcript not found: {path}", details={"searched": [path]})
    head = header_of(path)
    if head is None:
        raise TranscriptUnreadable(f"Transcript unreadable: {path}", details={"path": path, "reason": "not a rollout"})
    folded = _FoldedTurns(mask)
    with LineFile(path, MAX_LINE_BYTES) as file:
        reader = CodexReader(hints_of(path, first_at=first_time(file.start(SNIFF_BYTES))))
        for line in file.lines():
            if line.data is None:
                reader.skip_oversized()
            elif line.whole or (read := read_line(line.data)) is None or read.record is not None:
                folded.take(reader.feed(line.data))
            else:
                folded.cut += 1
    folded.take([*reader.finish(), *reader.take_waiting()])
    counts = reader.counts
    return CapturedRollout(
        **asdict(head),
        path=path,
        turns=folded.turns(),
        skipped_lines=counts.bad + folded.cut,
        unknown_records=dict(counts.unknown_names),
    )


class _FoldedTurns:
    """Folds the facts of one thread into turns."""

    def __init__(self, mask: Mask) -> None:
        self.cut = 0
        self._mask = mask
        self._turns: dict[str, Turn] = {}

    def turns(self) -> list[Turn]:
        return [self._mask(turn) for turn in self._turns.values()]

    def take(self, facts: Iterable[f.AnyFact]) -> None:
        for fact in facts:
            if fact.turn is not None and (isinstance(fact, f.TurnBegun) or fact.turn in self._turns):
                self._add(fact, fact.turn)

    def _add(self, fact: f.AnyFact, name: str) -> None:
        match fact:
            case f.TurnBegun():
                self._turns.setdefault(name, self._begun(fact, name))
            case f.TurnUpdated():
                self._update(self._turns[name], fact)
            case f.TurnEnded():
                _end(self._turns[name], fact)
            case f.DialogItem():
                self._say(name, fact.at, fact.role, fact.category, fact.content)
            case f.ToolCall():
                self._say(name, fact.at, "tool", "tool_call", call_line(fact.tool, self._mask(fact.input)))
            case f.ToolResult():
                self._say(name, fact.at, "tool", "tool_result", shortened_result(self._mask(fact.content)))
            case f.Action():
                self._act(self._turns[name], fact)
            case f.UsageFact():
                self._turns[name]["tokenCount"] += 0 if fact.copied else _used(fact)
            case _:
                pass

    def _begun(self, fact: f.TurnBegun, name: str) -> Turn:
        # Masked before it is cut: a cut secret would not be recognised.
        text = self._mask(fact.query_text)
        title = first_line(text) if fact.query_title == first_line(fact.query_text) else fact.query_title
        return {
            "requestId": name,
            "vendorTurnId": fact.vendor_turn_id,
            "timestamp": _time(fact.at),
            "queryTitle": title or name,
            "queryText": text or title or name,
            "interpretation": "",
            "response": "",
            "status": "in_progress",
            "model": fact.model or "unknown",
            "tokenCount": 0,
            "actions": [],
            "processingDialog": [],
            "failureNote": "",
            **{theirs: [] for theirs in LISTS.values()},
        }

    def _update(self, turn: Turn, fact: f.TurnUpdated) -> None:
        if text := self._mask(fact.sets.get("query_text") or ""):
            turn |= {"queryTitle": first_line(text), "queryText": text}
        for name in ("interpretation", "model"):
            if fact.sets.get(name):
                turn[name] = fact.sets[name]
        for ours, theirs in LISTS.items():
            for item in fact.adds.get(ours, ()):
                if item not in turn[theirs]:
                    turn[theirs].append(item)

    def _say(self, name: str, at: str | None, role: str, category: str, content: str) -> None:
        if content.strip():
            item = {"timestamp": _time(at), "role": role, "content": content, "category": category}
            self._turns[name]["processingDialog"].append(item)

    def _act(self, turn: Turn, fact: f.Action) -> None:
        action = {
            "order": len(turn["actions"]) + 1,
            "description": fact.description,
            "type": fact.type,
            "status": fact.status,
            "filePath": fact.file_path or "",
        }
        turn["actions"].append(action)
        if fact.type in CHANGING and fact.status == "completed" and fact.file_path not in turn["filesModified"]:
            turn["filesModified"].append(fact.file_path)


def _used(fact: f.UsageFact) -> int:
    """Return the tokens of a response; a total without a breakdown counts as it is."""
    used = fact.input_tokens + fact.cached_input_tokens + fact.cache_creation_tokens + fact.output_tokens
    total = fact.vendor.get("total_tokens")
    return used or (total if isinstance(total, int) else 0)


def _end(turn: Turn, fact: f.TurnEnded) -> None:
    turn["status"] = fact.status
    turn["response"] = fact.response or turn["response"]
    turn["failureNote"] = fact.failure_note or ""
    turn["model"] = fact.model or turn["model"]


def _time(at: str | None) -> str | None:
    return None if at is None else at[:19] + "Z"


# Finding


def header_of(path: str) -> RolloutHeader | None:
    """Return the header of a rollout, or its name for early releases without one; None if it is not a rollout."""
    try:
        with LineFile(path, HEADER_BYTES) as file:
            if recognise(file.start(SNIFF_BYTES)) != "Codex":
                return None
            for line in islice(file.lines(), SNIFF_RECORDS):
                read = read_line(line.data) if line.data is not None else None
                if read is not None and read.record is not None and read.record.get("type") == "session_meta":
                    return _header(read.record)
    except (TranscriptUnreadable, OSError):
        return None
    return RolloutHeader(thread=hints_of(path).session_id or Path(path).stem)


def _header(record: Mapping[str, Any]) -> RolloutHeader | None:
    payload = object_in(record, "payload")
    spawn = object_in(object_in(object_in(payload, "source"), "subagent"), "thread_spawn")
    texts = {name: value for name, value in {**spawn, **payload}.items() if isinstance(value, str) and value}
    if "id" not in texts:
        return None
    return RolloutHeader(
        thread=texts["id"],
        parent=texts.get("parent_thread_id"),
        nickname=slug(texts.get("agent_nickname", ""), NICKNAME),
        role=texts.get("agent_role"),
        started=_utc(texts.get("timestamp")) or _utc(record.get("timestamp")),
        cwd=texts.get("cwd"),
        version=texts.get("cli_version"),
    )


def _utc(text: object, spell: Callable[[datetime], str] = shown) -> str:
    """Return a time as results show it; an empty string if there is none."""
    try:
        return spell(parse(text)) if isinstance(text, str) else ""
    except ValueError:
        return ""


def rollout_folder(environ: Mapping[str, str], home: Path) -> Path:
    """Return the folder under which rollouts are searched for a capture."""
    given = environ.get("CODEX_SESSION_DIR")
    if given:
        return expanded(given)
    return next(root.folder for root in default_roots(environ, home) if root.agent == "Codex")


def rollouts_under(folder: Path) -> Iterator[str]:
    """Yield the rollouts in all date folders; of a plain and a compressed copy the plain one."""
    seen: set[str] = set()
    for pattern in FILES:
        for path in sorted(folder.rglob(pattern)) if folder.is_dir() else ():
            name = str(path).removesuffix(".zst")
            if name not in seen:
                seen.add(name)
                yield str(path)


def find_rollout(
    environ: Mapping[str, str], home: Path, workspace: str, kept: str | None = None, roots: Iterable[str] = ()
) -> str:
    """Return the rollout to capture if none is named; raise TranscriptNotFound.

    `kept` is the session's own; it counts only below the agents' folders, `roots` and the workspace.
    """
    for name in VARIABLES:
        given = environ.get(name)
        if given:
            if not Path(given).is_file():
                raise TranscriptNotFound(f"Transcript not found: {given}", details={"searched": [f"{name}={given}"]})
            return given
    folder = rollout_folder(environ, home)
    if kept is not None:
        path = expanded(kept).resolve()
        known = [folder, *(root.folder for root in default_roots(environ, home)), *map(Path, roots), Path(workspace)]
        if not path.is_file() or not any(path.is_relative_to(expanded(each).resolve()) for each in known):
            raise TranscriptNotFound(f"Transcript not found: {kept}", details={"searched": [kept]})
        return str(path)
    found = [path for path in rollouts_under(folder) if _is_below(header_of(path), workspace)]
    if not found:
        rule = f"a rollout of {workspace} under {folder}"
        raise TranscriptNotFound(f"Transcript not found: {rule}", details={"searched": [str(folder)]})
    return max(found, key=_last_record)


def _is_below(header: RolloutHeader | None, workspace: str) -> bool:
    if header is None or header.cwd is None or header.parent is not None:
        return False
    top = os.path.realpath(workspace)
    # A shell's working directory may go through a link.
    places = (os.path.normpath(header.cwd), os.path.realpath(header.cwd)) if header.cwd.startswith("/") else ()
    return any(cwd == top or cwd.startswith(top.rstrip("/") + "/") for cwd in places)


def _last_record(path: str) -> tuple[str, float]:
    """Return the time of a rollout's last timed record, and the file's modification time."""
    try:
        with LineFile(path, MAX_LINE_BYTES) as file:
            last = deque((line.data for line in file.lines() if line.data), maxlen=LAST_LINES)
        records = (read.record for data in reversed(last) if (read := read_line(data)) and read.record)
        times = (_utc(record.get("timestamp"), precise) for record in records)
        return next(filter(None, times), ""), Path(path).stat().st_mtime
    except (TranscriptUnreadable, OSError):
        return "", 0.0


def subagents_of(parent: str, folder: Path) -> list[dict[str, Any]]:
    """Describe the rollouts of a thread's subagents, the earliest first."""
    found: list[dict[str, Any]] = []
    for path in rollouts_under(folder):
        head = header_of(path)
        if head is not None and head.parent == parent and head.thread != parent:
            found.append(
                {
                    "path": path,
                    "sessionId": head.thread,
                    "parentThreadId": parent,
                    "agentNickname": head.nickname,
                    "agentRole": head.role,
                    "startedAt": head.started,
                    "cwd": head.cwd,
                }
            )
    return sorted(found, key=lambda each: (str(each["startedAt"]), each["path"]))


def as_subagents_turn(turn: Turn, rollout: CapturedRollout, parent_request: str | None) -> Turn:
    """Return a subagent's turn as the parent's session lists it: under its own id, with its tags."""
    stamp = (rollout.started or str(turn["timestamp"])).replace("-", "").replace(":", "")
    own = slug(str(turn.get("vendorTurnId") or ""), turn["requestId"].split("-", 2)[2])
    tags = ["subagent", rollout.nickname, *([f"parent:{parent_request}"] if parent_request else [])]
    name = f"req-{stamp}-subagent-{rollout.nickname}-{own}"
    return {**turn, "requestId": name, "tags": [*tags, *turn["tags"]], "sourceThreadId": rollout.thread}
