"""Short answers of the native tools: without fields that are null, have their default, or were sent with the call.

Services answer in full; `detail: full` passes that on. The tables here name the fields that each tool leaves out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from shiftlog.mcp.registry import Reply, Run
from shiftlog.model.caller import Caller
from shiftlog.params.fields import Choice, Record

Answer = dict[str, Any]

DETAIL = Choice(
    values=("brief", "full"),
    default="brief",
    description="full: nothing is left out of the answer.",
)
LEASE_NOTE = (
    "Renewed while your client is connected. At its end the session is suspended; nothing is lost, and "
    "resume_session continues it."
)
# A stream of output like this is left out.
_PLAIN_STREAM = {"binary": False, "open": False, "spool_full": False, "cursor": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortForm:
    """The fields that a tool leaves out: empty ones, and all named here but for `first` and `kept`.

    `full_only` are left out always, `sent` if the call named them, `defaults` if they have this value. `kept` ones stay
    even if empty, and `first` ones lead. With `deep`, empty values inside objects and lists go, too.
    """

    full_only: frozenset[str] = frozenset()
    sent: frozenset[str] = frozenset()
    defaults: Mapping[str, object] = field(default_factory=dict[str, object])
    first: tuple[str, ...] = ()
    kept: frozenset[str] = frozenset()
    deep: bool = False

    def of(self, answer: Answer, sent: Mapping[str, Any]) -> Answer:
        """Return the short form of a full answer."""
        left_out = self.full_only.union(name for name in self.sent if sent.get(name) is not None)
        left = {name: value for name, value in answer.items() if name not in left_out}
        if "receipt" in left:
            left["receipt"] = _receipt(left["receipt"])
        if "output" in left:
            left |= _streams(left.pop("output"))
        if "programs" in left:
            left |= _denied(left.pop("programs"))
        ordered = {name: left[name] for name in (*self.first, *left) if name in left}
        if self.deep:
            ordered = {name: _filled(value) for name, value in ordered.items()}
        if "items" in ordered:
            known = {"session_id"} if sent.get("session_id") is not None else set[str]()
            ordered["items"] = [_item(item, known) for item in ordered["items"]]
        return {
            name: value
            for name, value in ordered.items()
            if name in self.kept or not (_is_nothing(value) or self.defaults.get(name, ...) == value)
        }


def _item(item: Answer, sent: set[str]) -> Answer:
    """Return an item of a list without the call for more, the ids that were sent, and a summary equal to its title."""
    left_out = {"more", *sent, *(["summary"] if item.get("summary") == item.get("title") else [])}
    return {name: value for name, value in item.items() if name not in left_out}


def _is_nothing(value: object) -> bool:
    return value is None or value in ([], (), {})


# Left out inside objects: fields with these values, and hashes, which only a proof needs.
_INNER_DEFAULTS: dict[str, object] = {
    "exclusive": False,
    "session_type": "interactive_desktop",
    "children_total": 0,
    "prompt_chars": 0,
    "tokens": 0,
    "tokens_total": 0,
    "token_count": 0,
    "erased": 0,
}
_INNER_FULL_ONLY = frozenset({"seal", "head_hash"})


def _filled(value: Any) -> Any:
    """Return a value without empty and default fields, at any depth."""
    if isinstance(value, list):
        return [_filled(item) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    parts = {name: _filled(part) for name, part in cast("Answer", value).items() if name not in _INNER_FULL_ONLY}
    return {
        name: part
        for name, part in parts.items()
        if part != "" and not _is_nothing(part) and _INNER_DEFAULTS.get(name, ...) != part
    }


def _receipt(receipt: Answer) -> Answer:
    masked = {"redactions": receipt["redactions"]} if receipt["redactions"] else {}
    return {"code": receipt["code"], "seq": receipt["seq"], "hash": receipt["hash"], **masked}


def _streams(output: Answer) -> Answer:
    """Return the streams that are not plain text read to its end."""
    told = {
        name: {"bytes": stream["bytes"], "lines": stream["lines"], **unlike}
        for name, stream in output.items()
        if (unlike := {key: stream[key] for key, plain in _PLAIN_STREAM.items() if stream[key] != plain})
    }
    return {"output": told} if told else {}


def _denied(programs: list[Answer]) -> Answer:
    """Return the programs that were not allowed to start."""
    refused = [program for program in programs if program.get("verdict") != "allowed"]
    return {"programs": refused} if refused else {}


def with_detail(params: Record, *, listed: bool = True) -> Record:
    """Return the parameters with `detail`, for a tool with short answers."""
    detail = replace(DETAIL, wording=params.wording, listed=listed)
    return replace(params, fields={**params.fields, "detail": detail})


def shortened(form: ShortForm, run: Run) -> Run:
    """Return a tool with short answers; its service never sees `detail`, so that a repeated call may ask for more."""

    async def short(caller: Caller, arguments: object) -> Any:
        if not isinstance(arguments, dict):
            return await run(caller, cast(Any, arguments))  # for the service to refuse
        given = dict(cast(Answer, arguments))
        wanted = given.pop("detail", None)
        full = wanted is not None and DETAIL.read(wanted, "detail") == "full"
        reply = await run(caller, given)
        if not isinstance(reply, Reply) or isinstance(reply.data, list):
            return reply
        data = with_lease_note(reply.data)
        return replace(reply, data=data if full else form.of(data, given))

    return short


def with_lease_note(answer: Answer) -> Answer:
    """Add a note to the lease of an answer: what renews it, and what its end means."""
    lease = answer.get("lease")
    if not lease or not lease.get("expires_at"):
        return answer
    return {**answer, "lease": {**lease, "note": LEASE_NOTE}}


OPEN_SESSION = ShortForm(
    sent=frozenset({"agent", "agent_id", "resonance_tier", "model", "reasoning_effort"}),
    defaults={"joined": False},
    first=("run_id", "session_id"),
    kept=frozenset({"run_id", "predecessor"}),
)
QUERY_HISTORY = ShortForm(kept=frozenset({"items", "next_cursor"}), deep=True)
BEGIN_TURN = ShortForm(full_only=frozenset({"timestamp"}), sent=frozenset({"session_id"}), first=("request_id",))
UPDATE_TURN = ShortForm(full_only=frozenset({"last_updated"}), sent=frozenset({"session_id", "request_id"}))
FINISH_TURN = ShortForm(
    full_only=frozenset({"finished_at"}), sent=frozenset({"session_id", "request_id"}), defaults={"error_code": ""}
)
OPEN_SHELL = ShortForm(
    full_only=frozenset({"created_at", "kill_scope"}),
    sent=frozenset({"transport", "name", "workspace"}),
    defaults={
        "implicit_session": False,
        "transport": "local",
        "state": "idle",
        "shell": "bash",
        "startup_output": "",
        "enforcement": "none",
    },
    deep=True,
)
RUN_COMMAND = ShortForm(
    full_only=frozenset({"shell_id", "session_id", "request_id", "command", "enforcement_note", "programs_total"}),
    defaults={
        "verdict": "allowed",
        "enforcement": "none",
        "state_kept": True,
        "recorded": True,
        "timed_out": False,
        "shell_state": "idle",
        "truncated": False,
        "redactions": 0,
    },
    first=("stdout", "stderr", "exit_code"),
)
RESTORE_CHECKPOINT = ShortForm(
    defaults={
        "changes_truncated": False,
        "dry_run": False,
        "left_in_place": {"count": 0, "paths": []},
        "not_covered": {"ignored": 0, "secret": 0, "too_large": 0},
    }
)
