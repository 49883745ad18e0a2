"""From facts to what the journal takes in: bodies composed, secrets masked field by field, keys turned into digests.

Pure but for the counting; runs beside the reader, in a worker process or a thread. How a body is encoded and hashed is
the caller's (`prepare`), because the journal decides it.
"""

import hmac
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

import msgspec

from shiftlog.facts import transcript as f
from shiftlog.facts.batch import DialogBody, Draft, Incoming, OrderedBody, Prepared, SessionName, UsageBody, origin_key
from shiftlog.guard.secrets.redactor import PATH_CLASSES, PATH_FIELDS, Redacted, Redactor
from shiftlog.ingest.importing.composer_parts import (
    NO_TIME,
    Body,
    cut,
    cut_value,
    folded,
    is_digest,
    reported_usage,
    second_of,
    shown_images,
)
from shiftlog.ingest.readers.records import CALL_CHARS, TITLE_CHARS, call_line, first_line
from shiftlog.model.entry import Kind

MAX_TITLE_CHARS = 500
MAX_CODE_CHARS = 200
MAC_DIGITS = 16

# What a fact is, what has to be decided of it against the store, and the entry that it is without any deciding.
Composition = tuple[str, Body | None, Body | OrderedBody | None]

_REMEMBERED = 64
_REMEMBERED_PATHS = 1024
# Names and ids, which stay as they are; anything else that changes about a session is text.
_NAMES = frozenset({"branch", "version", "model", "permission_mode", "mode", "number", "sha"})
_NUMBERS: frozenset[type] = frozenset({int, float, bool})
_PATHS = PATH_FIELDS | {"worktree", "moved_from", "plan_file"}


class PrepareAll(Protocol):
    """Encodes and hashes bodies, each under its salt."""

    def __call__(self, drafts: Sequence[Draft]) -> list[Prepared]: ...


class _Composed(msgspec.Struct, frozen=True, gc=False):
    """A fact between masking and preparing: what the writer has to decide on, and the entry that it is already."""

    what: str
    body: Body | None
    draft: Draft | None
    masked: dict[str, int] | None


class Placer:
    """Places the facts of one agent's files; `mac_key` is the store's own."""

    def __init__(
        self,
        redactor: Redactor,
        prepare_all: PrepareAll,
        salt_from: Callable[..., bytes],
        usage_entry: Callable[[Body], UsageBody],
        mac_key: bytes,
        *,
        test_clock: bool = False,
    ) -> None:
        self._redactor = redactor
        self._prepare_all = prepare_all
        self._salt_from = salt_from
        self._usage_entry = usage_entry
        self._mac_key = mac_key
        self._test_clock = test_clock
        self._agent = ""
        self._masked: Counter[str] = Counter()
        self._memo: dict[str, tuple[str, dict[str, int]]] = {}
        self._known_paths: dict[str, Redacted] = {}
        self._known_words: set[str] = set()
        self._sessions: dict[f.SessionRef, int] = {}

    def begin(self, agent: str) -> None:
        """Start a batch of an agent's facts."""
        self._agent = agent
        self._masked = Counter()
        self._sessions = {}

    @property
    def sessions(self) -> list[SessionName]:
        """Return the sessions that the batch speaks of, in the order of their indexes."""
        return [SessionName(ref.vendor_id, ref.agent_id) for ref in self._sessions]

    def place(self, facts: Sequence[f.AnyFact]) -> list[Incoming]:
        """Return facts as the journal takes them."""
        composed = [self._composed(fact) for fact in facts]
        keys = [self._digest(fact.key) for fact in facts]
        prepared = iter(self._prepare_all([one.draft for one in composed if one.draft is not None]))
        return [
            Incoming(
                one.what,
                self._sessions.setdefault(fact.session, len(self._sessions)),
                key,
                fact.at or NO_TIME,
                fact.turn,
                tuple(map(self._digest, fact.aliases)) if fact.aliases else (),
                one.body,
                None if one.draft is None else next(prepared),
                one.masked,
            )
            for fact, key, one in zip(facts, keys, composed, strict=True)
        ]

    def _composed(self, fact: f.AnyFact) -> _Composed:
        if self._masked:
            self._masked = Counter()
        what, body, entry = _COMPOSERS[type(fact)](self, fact)
        draft: Draft | None = None
        if entry is not None:
            if self._test_clock:
                entry = _on_test_clock(entry)
            kind = _KINDS[what]
            draft = Draft(kind, entry, self._salt(kind, fact.key))
        return _Composed(what, body, draft, dict(self._masked) if self._masked else None)

    def masked(self) -> dict[str, int]:
        """Return the classes of what was masked since the last fact was placed."""
        return dict(self._masked)

    def prompt_name(self, vendor_id: str, agent_id: str | None, text: str) -> str:
        """Return the name by which a hook's prompt and the transcript's are known to be one."""
        session = vendor_id if agent_id is None else f"{vendor_id}/{agent_id}"
        return f"p:{session}:{self._mac(text.strip())}"

    def _digest(self, key: f.Key) -> bytes:
        try:
            named = ":".join(cast("tuple[str, ...]", key))  # nearly all keys are texts alone
        except TypeError:
            named = f.key_text(key, self._mac)
        return origin_key(self._agent, named)

    def _mac(self, text: str) -> str:
        data = text.encode("utf-8", "surrogatepass")
        return hmac.digest(self._mac_key, data, "sha256").hex()[:MAC_DIGITS]

    def _salt(self, kind: str, key: f.Key) -> bytes:
        try:
            return self._salt_from(self._agent, kind, *key)
        except TypeError:
            # Without the digests of texts, which are under a key of this store: without it a guess could be confirmed.
            parts = ["" if isinstance(part, f.Mac) else str(part) for part in key]
            return self._salt_from(self._agent, kind, *parts)

    # Bodies

    def _said(self, fact: f.DialogItem) -> Composition:
        text, full = cut(self.text(fact.content))
        body = DialogBody(
            category=fact.category,
            content=text,
            full=full,
            images=shown_images(fact.images),
            record=fact.record,
            role=fact.role,
            timestamp=second_of(fact),
        )
        return "dialog", None, self._with_extra(body, fact.extra) if fact.extra else body

    def _call(self, fact: f.ToolCall) -> Composition:
        given = fact.input
        whole = None
        if given is not None:
            given, whole = cut_value(self.text(given) if isinstance(given, str) else self._value(given))
        # The short line may end inside a secret, so a cut one is made anew from what was masked whole.
        was_cut = given is not None and len(fact.content) >= CALL_CHARS
        content = call_line(fact.tool, given) if was_cut else fact.content
        text, full = cut(self.text(content, counted=given is None))
        body = DialogBody(
            call_id=fact.call_id,
            category="tool_call",
            content=text,
            full=full or whole,
            input=given,
            nested=fact.nested,
            record=fact.record,
            role="tool",
            timestamp=second_of(fact),
            tool=fact.tool,
        )
        # What is known only from a parent's progress is kept but is no call of a file's own.
        what = "dialog" if fact.nested else "tool_call"
        return what, None, self._with_extra(body, fact.extra) if fact.extra else body

    def _result(self, fact: f.ToolResult) -> Composition:
        text, full = cut(self.text(fact.content))
        body = DialogBody(
            call_id=fact.call_id,
            category="tool_result",
            content=text,
            denied=fact.denied,
            duration_ms=fact.duration_ms,
            exit_code=fact.exit_code,
            full=full,
            images=shown_images(fact.images),
            interrupted=fact.interrupted,
            is_error=fact.is_error,
            nested=fact.nested,
            orphan=fact.orphan,
            record=fact.record,
            role="tool",
            timestamp=second_of(fact),
            tool=fact.tool,
        )
        return "tool_result", None, self._with_extra(body, fact.extra) if fact.extra else body

    def _with_extra(self, body: DialogBody, extra: Body) -> Body | DialogBody:
        more = self._json(extra)
        if more.keys() == {"signature"}:
            body.signature = more["signature"]
            return body
        return cast(Body, msgspec.to_builtins(body)) | more

    def _action(self, fact: f.Action) -> Composition:
        body: Body = {
            "description": self.text(fact.description)[:8192],
            "type": fact.type,
            "status": fact.status,
            "file_path": self.path(fact.file_path) if fact.file_path else "",
        }
        if fact.diff is not None:
            body["diff"], full = cut(self.text(fact.diff, counted=False))
            if full:
                body["full"] = full
        if fact.moved_from:
            body["moved_from"] = self.path(fact.moved_from)
        if fact.call_id is not None:
            body["call_id"] = fact.call_id
        for name in ("approximate", "user_modified"):
            if getattr(fact, name):
                body[name] = True
        if fact.extra:
            body |= self._json(fact.extra)
        if fact.call_id is not None:
            self._masked.clear()  # its call told all of it, and was counted
        return "action", body, None

    def _turn_begun(self, fact: f.TurnBegun) -> Composition:
        text, full = cut(self.text(fact.query_text))
        body: Body = {
            "query_title": self._title(fact.query_title, fact.query_text, text),
            "query_text": text,
            "opened_by": fact.opened_by,
            "vendor_turn_id": fact.vendor_turn_id,
            "model": fact.model,
        }
        if fact.query_text:
            body["prompt_name"] = self.prompt_name(*fact.session, fact.query_text)
        if full:
            body["full"] = full
        if fact.images:
            body["images"] = shown_images(fact.images)
        if fact.record is not None:
            body["record"] = msgspec.to_builtins(fact.record)
        return "turn_begun", body, None

    def _title(self, title: str, text: str, masked: str) -> str:
        """Return the title of a masked text; the cut of the text itself may have left a part of a secret."""
        if title == first_line(text):
            return title if text == masked else first_line(masked)
        return self.text(title, counted=False)

    def _turn_updated(self, fact: f.TurnUpdated) -> Composition:
        sets = self._fields(fact.sets)
        if "query_title" in sets and "query_text" in sets:
            sets["query_title"] = self._title(fact.sets["query_title"], fact.sets["query_text"], sets["query_text"])
        return "turn_updated", {"sets": sets, "adds": self._fields(fact.adds), "ends": fact.ends}, None

    def _turn_ended(self, fact: f.TurnEnded) -> Composition:
        body: Body = {"status": fact.status, "duration_ms": fact.duration_ms, "settled": fact.settled}
        code = self.text(fact.error_code, counted=False)[:MAX_CODE_CHARS] if fact.error_code else None
        body |= {"model": fact.model, "error_code": code}
        if fact.response:
            body["response"] = cut(self.text(fact.response, counted=False))[0]
        if fact.failure_note:
            body["failure_note"] = self.text(fact.failure_note, counted=False)
        return "turn_ended", body, None

    def _opened(self, fact: f.SessionOpened) -> Composition:
        body: Body = {"agent": fact.agent, "branch": fact.branch, "executable_version": fact.version}
        if fact.cwd:
            body["cwd"] = body["workspace"] = self.path(fact.cwd)
        if fact.repository:
            body["repository"] = self.path(fact.repository)
        if fact.parent is not None:
            parent = fact.parent
            body["parent"] = {
                "vendor_session": parent.session.vendor_id,
                "call": parent.call_id,
                "run_id": parent.run_id,
            }
        if fact.subagent is not None:
            body["subagent"] = self._json(cast(Body, msgspec.to_builtins(fact.subagent)))
        if fact.forked_from:
            body["forked_from"] = fact.forked_from
        if fact.background:
            body["background"] = True
        return "session_opened", body | self._json(fact.extra) if fact.extra else body, None

    def _session_updated(self, fact: f.SessionUpdated) -> Composition:
        body: Body = {"changes": self._changes(fact.changes)}
        if fact.title:
            most = TITLE_CHARS if fact.title_source == f.TitleSource.PROMPT else MAX_TITLE_CHARS
            title = self.text(fact.title, counted=False)[:most]
            body |= {"title": title, "title_source": int(fact.title_source or 0)}
        return "session_updated", body, None

    def _link(self, fact: f.ChildLink) -> Composition:
        names = ("call_id", "child_agent_id", "child_thread_id", "run_id", "rank")
        body: Body = {name: value for name in names if (value := getattr(fact, name)) is not None}
        for name, text in (("name", fact.name), ("description", fact.description)):
            if text:
                body[name] = self.text(text, counted=False)
        return "child_link", body, None

    def _run_updated(self, fact: f.RunUpdated) -> Composition:
        return "run_updated", {"changes": self._changes(fact.changes)}, None

    def _note(self, fact: f.Note) -> Composition:
        body = {"kind": fact.kind, **self._json(fact.body)}
        return "note", {name: body[name] for name in ("fields", "shared", "abandoned") if name in body}, body

    def _usage(self, fact: f.Usage) -> Composition:
        body = reported_usage(fact)
        if fact.vendor and not self._has_known_words(fact.vendor):
            body["vendor"] = self._words_masked(fact.vendor)
        # Most responses are reported once: then this is the entry, and the writer need not make one.
        return "usage", body, self._usage_entry(body)

    def _has_known_words(self, vendor: Body) -> bool:
        """Tell whether all that is no number in a vendor's counters was seen to hold no secret; mostly it was."""
        for value in vendor.values():
            if isinstance(value, int):
                continue
            if isinstance(value, str):
                if value not in self._known_words:
                    return False
            elif not isinstance(value, dict) or not _NUMBERS.issuperset(map(type, cast(Body, value).values())):
                return False
        return True

    def _words_masked(self, vendor: Body) -> Body:
        masked = self._json(vendor)
        if masked == vendor and len(self._known_words) < _REMEMBERED_PATHS:
            self._known_words.update(value for value in vendor.values() if isinstance(value, str))
        return masked

    # Masking

    def text(self, value: str, *, counted: bool = True) -> str:
        """Return a text without secrets and bulk; copies of a text that is kept elsewhere are not counted again."""
        if self._redactor.is_plain(value):
            return value
        known = self._memo.get(value)
        if known is None:
            redacted = self._redactor.text(value)
            known = (folded(redacted.text), redacted.classes)
            if len(self._memo) >= _REMEMBERED:
                self._memo.clear()
            self._memo[value] = known
        if counted and known[1]:
            self._masked.update(known[1])
        return known[0]

    def path(self, value: str) -> str:
        """Return a path without what is a secret wherever it stands."""
        redacted = self._known_paths.get(value)
        if redacted is None:
            if len(self._known_paths) >= _REMEMBERED_PATHS:
                self._known_paths.clear()
            redacted = self._known_paths[value] = self._redactor.text(value, only=PATH_CLASSES)
        if redacted.count:
            self._masked.update(redacted.classes)
        return redacted.text

    def _value(self, value: Any) -> Any:
        if self._redactor.is_plain_value(value):
            return value
        masked, _, classes = self._redactor.value(value, path_fields=_PATHS)
        if classes:
            self._masked.update(classes)
        return folded(masked)

    def _json(self, value: Body) -> Body:
        if not value:
            return {}
        # Digests of what is not stored stay, under whatever name.
        kept = {name: item for name, item in value.items() if is_digest(item)}
        if len(kept) == len(value):
            return kept
        return {**cut_value(self._value({n: item for n, item in value.items() if n not in kept}))[0], **kept}

    def _fields(self, fields: dict[str, Any]) -> Body:
        made: Body = {}
        for name, value in fields.items():
            if name in ("model", "reasoning_effort", "model_provider", "images"):
                made[name] = value
            elif name in ("context_list", "files_modified", "plan_file"):
                made[name] = self._paths(value)
            elif isinstance(value, str):
                made[name] = cut(self.text(value, counted=False))[0]
            else:
                made[name] = cut_value(self._redactor.value(value, path_fields=_PATHS)[0])[0]
        return made

    def _paths(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._path_or_text(value)
        return [self._path_or_text(item) for item in value if isinstance(item, str)]

    def _path_or_text(self, value: str) -> str:
        # What was selected in an editor comes as text in the same list.
        if len(value) > 4096 or "\n" in value or " " in value.strip():
            return self.text(value, counted=False)
        return self.path(value)

    def _changes(self, changes: Body) -> Body:
        made: Body = {}
        for name, value in changes.items():
            if name in _NAMES or not isinstance(value, str | dict | list):
                made[name] = value
            elif isinstance(value, str):
                made[name] = self.path(value) if name in _PATHS else self.text(value)
            else:
                made[name] = cut_value(self._value(value))[0]
        return made


_COMPOSERS: dict[type, Callable[[Placer, Any], Composition]] = {
    f.DialogItem: Placer._said,  # pyright: ignore[reportPrivateUsage]
    f.ToolCall: Placer._call,  # pyright: ignore[reportPrivateUsage]
    f.ToolResult: Placer._result,  # pyright: ignore[reportPrivateUsage]
    f.Usage: Placer._usage,  # pyright: ignore[reportPrivateUsage]
    f.TurnUpdated: Placer._turn_updated,  # pyright: ignore[reportPrivateUsage]
    f.Action: Placer._action,  # pyright: ignore[reportPrivateUsage]
    f.TurnBegun: Placer._turn_begun,  # pyright: ignore[reportPrivateUsage]
    f.TurnEnded: Placer._turn_ended,  # pyright: ignore[reportPrivateUsage]
    f.SessionOpened: Placer._opened,  # pyright: ignore[reportPrivateUsage]
    f.SessionUpdated: Placer._session_updated,  # pyright: ignore[reportPrivateUsage]
    f.RunUpdated: Placer._run_updated,  # pyright: ignore[reportPrivateUsage]
    f.ChildLink: Placer._link,  # pyright: ignore[reportPrivateUsage]
    f.Note: Placer._note,  # pyright: ignore[reportPrivateUsage]
}
_KINDS = {
    "dialog": Kind.DIALOG,
    "tool_call": Kind.DIALOG,
    "tool_result": Kind.DIALOG,
    "note": Kind.IMPORT_NOTED,
    "usage": Kind.USAGE,
}


def _on_test_clock(entry: Body | OrderedBody) -> Body | OrderedBody:
    return {**entry, "test_clock": True} if isinstance(entry, dict) else msgspec.structs.replace(entry, test_clock=True)
