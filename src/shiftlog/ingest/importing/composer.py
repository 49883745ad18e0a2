"""From facts to the journal's items: bodies composed and masked field by field, keys turned into digests.

Pure except for counting; runs beside the reader in a worker process or a thread. The journal encodes and hashes bodies
(`prepare_all`).
"""

import hmac
import operator
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

import msgspec

from shiftlog.facts import transcript as f
from shiftlog.facts.batch import (
    COUNTERS,
    BodyDraft,
    DialogBody,
    Incoming,
    OrderedBody,
    Prepared,
    UsageBody,
    origin_key,
)
from shiftlog.guard.secrets.redactor import Redactor
from shiftlog.ingest.importing.masking import Body, Masker, cut, cut_value
from shiftlog.ingest.readers.records import CALL_CHARS, TITLE_CHARS, call_line, first_line, shown_images, was_drawn
from shiftlog.model.entry import Kind
from shiftlog.text.printable import cut_line

MAX_TITLE_CHARS = 500
MAX_CODE_CHARS = 200
MAC_DIGITS = 16
NO_TIME = "1970-01-01T00:00:00.000Z"

_REPORTED = ("model", "tier", *COUNTERS, "message_id", "copied", "cost_usd")
_reported = operator.attrgetter(*_REPORTED)

# The name of an item, the part the store has to decide on, and the entry if nothing needs deciding.
Composition = tuple[str, Body | None, Body | OrderedBody | None]


class PrepareAll(Protocol):
    """Encodes and hashes bodies, each under its salt."""

    def __call__(self, drafts: Sequence[BodyDraft]) -> list[Prepared]: ...


class Composer(Masker):
    """Composes the facts of one agent's files; `mac_key` belongs to the store."""

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
        super().__init__(redactor)
        self._prepare_all = prepare_all
        self._salt_from = salt_from
        self._usage_entry = usage_entry
        self._mac_key = mac_key
        self._test_clock = test_clock
        self._agent = ""
        self._sessions: dict[f.VendorSession, int] = {}

    def begin(self, agent: str) -> None:
        """Start a batch of an agent's facts."""
        self._agent = agent
        self._masked = Counter()
        self._sessions = {}

    @property
    def sessions(self) -> list[f.VendorSession]:
        """Return the sessions of the batch in the order of their indexes."""
        return list(self._sessions)

    def compose(self, facts: Sequence[f.AnyFact]) -> list[Incoming]:
        """Return facts as items of the journal."""
        composed = [self._composed(fact) for fact in facts]
        keys = [self._digest(fact.key) for fact in facts]
        prepared = iter(self._prepare_all([draft for _, _, draft, _ in composed if draft is not None]))
        return [
            Incoming(
                what,
                self._sessions.setdefault(fact.session, len(self._sessions)),
                key,
                fact.at or NO_TIME,
                fact.turn,
                tuple(map(self._digest, fact.aliases)) if fact.aliases else (),
                body,
                None if draft is None else next(prepared),
                masked,
                None if (former := _former_key(fact)) is None else self._digest(former),
            )
            for fact, key, (what, body, draft, masked) in zip(facts, keys, composed, strict=True)
        ]

    def _composed(self, fact: f.AnyFact) -> tuple[str, Body | None, BodyDraft | None, dict[str, int] | None]:
        if self._masked:
            self._masked = Counter()
        what, body, entry = _COMPOSERS[type(fact)](self, fact)
        draft: BodyDraft | None = None
        if entry is not None:
            if self._test_clock:
                entry = _on_test_clock(entry)
            kind = _KINDS[what]
            draft = BodyDraft(kind, entry, self._salt(kind, fact.key))
        return what, body, draft, dict(self._masked) if self._masked else None

    def prompt_name(self, vendor_id: str, agent_id: str | None, text: str) -> str:
        """Return the name under which a hook's prompt and the transcript's are the same."""
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
            # Digests of texts are left out: they depend on a key of this store, and salts must not.
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
            timestamp=_second_of(fact),
        )
        return "dialog", None, self._with_extra(body, fact.extra) if fact.extra else body

    def _call(self, fact: f.ToolCall) -> Composition:
        given = fact.input
        whole = None
        if given is not None:
            given, whole = cut_value(self.text(given) if isinstance(given, str) else self._value(given))
        # The short line may end inside a secret, so a cut one is made again from the masked input.
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
            timestamp=_second_of(fact),
            tool=fact.tool,
        )
        # A call known only from a parent's progress is kept as dialog.
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
            timestamp=_second_of(fact),
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
            self._masked.clear()  # its call holds the same text and was counted
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
        if fact.untimed:
            body["untimed"] = True
        if full:
            body["full"] = full
        if fact.images:
            body["images"] = shown_images(fact.images)
        if fact.record is not None:
            body["record"] = msgspec.to_builtins(fact.record)
        return "turn_begun", body, None

    def _title(self, title: str, text: str, masked: str) -> str:
        """Return the title of a masked text; the title of the original may hold a part of a secret."""
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
            title = cut_line(self.text(fact.title, counted=False), most)
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

    def _usage(self, fact: f.UsageFact) -> Composition:
        body = _reported_usage(fact)
        if fact.vendor and not self._has_known_words(fact.vendor):
            body["vendor"] = self._words_masked(fact.vendor)
        # Most responses are reported once; then this is the entry.
        return "usage", body, self._usage_entry(body)


_COMPOSERS: dict[type, Callable[[Composer, Any], Composition]] = {
    f.DialogItem: Composer._said,  # pyright: ignore[reportPrivateUsage]
    f.ToolCall: Composer._call,  # pyright: ignore[reportPrivateUsage]
    f.ToolResult: Composer._result,  # pyright: ignore[reportPrivateUsage]
    f.UsageFact: Composer._usage,  # pyright: ignore[reportPrivateUsage]
    f.TurnUpdated: Composer._turn_updated,  # pyright: ignore[reportPrivateUsage]
    f.Action: Composer._action,  # pyright: ignore[reportPrivateUsage]
    f.TurnBegun: Composer._turn_begun,  # pyright: ignore[reportPrivateUsage]
    f.TurnEnded: Composer._turn_ended,  # pyright: ignore[reportPrivateUsage]
    f.SessionOpened: Composer._opened,  # pyright: ignore[reportPrivateUsage]
    f.SessionUpdated: Composer._session_updated,  # pyright: ignore[reportPrivateUsage]
    f.RunUpdated: Composer._run_updated,  # pyright: ignore[reportPrivateUsage]
    f.ChildLink: Composer._link,  # pyright: ignore[reportPrivateUsage]
    f.Note: Composer._note,  # pyright: ignore[reportPrivateUsage]
}
_KINDS = {
    "dialog": Kind.DIALOG,
    "tool_call": Kind.DIALOG,
    "tool_result": Kind.DIALOG,
    "note": Kind.IMPORT_NOTED,
    "usage": Kind.USAGE,
}


def _former_key(fact: f.AnyFact) -> f.Key | None:
    """Return the key that an earlier release had for a fact: before ids that may repeat were told apart.

    Calls had their id alone, turns of Codex no thread. Keys of origins are never changed without this: a file that is
    read again must find what it brought.
    """
    key = fact.key
    if key[0] == "turn" and len(key) > 3 and key[2] == "id":
        return ("turn", *key[3:]) if was_drawn(str(key[3])) else None
    if isinstance(fact, f.ToolCall | f.ToolResult | f.Action) and len(key) > 1:
        thread, _, rest = str(key[1]).partition("/")
        if thread == fact.session.vendor_id and was_drawn(rest.partition("/")[0]):
            return (key[0], rest, *key[2:])
    if not isinstance(fact, f.ToolCall | f.ToolResult) or len(key) != 2 or key[1] == fact.call_id:
        return None
    return (key[0], fact.call_id)


def _on_test_clock(entry: Body | OrderedBody) -> Body | OrderedBody:
    return {**entry, "test_clock": True} if isinstance(entry, dict) else msgspec.structs.replace(entry, test_clock=True)


def _reported_usage(fact: f.UsageFact) -> Body:
    """Return a record's report of the tokens of a response."""
    body: Body = {name: value for name, value in zip(_REPORTED, _reported(fact), strict=True) if value}
    body["rule"] = fact.rule
    if fact.vendor:
        body["vendor"] = fact.vendor
    if fact.rule == "first" and len(fact.key) == 3:
        body |= {"family": str(fact.key[1]), "total": str(fact.key[2])}
    elif fact.rule == "maximum" and not fact.joins and fact.message_id:
        body["request_id"] = ":".join(map(str, fact.key[1:])).removeprefix(fact.message_id).lstrip("/:") or "-"
    return body


def _second_of(fact: f.AnyFact) -> str:
    """Return the time of a fact as dialog shows it."""
    return (fact.at or NO_TIME)[:19] + "Z"
